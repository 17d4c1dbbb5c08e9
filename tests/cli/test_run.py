"""headwise run: against PyTorch on the same numbers, and everything it can be asked for."""

from __future__ import annotations

import io
import json
import re

import numpy
import pytest
import torch


def save(path, array, dtype="float32"):
    numpy.save(path, numpy.asarray(array).astype(dtype))
    return path


@pytest.fixture
def torch_layer(tmp_path):
    """A torch layer of 4 heads × 8 as a safetensors file, with its module."""
    from safetensors.torch import save_file

    torch.manual_seed(1)
    layer = torch.nn.MultiheadAttention(32, 4, batch_first=True)
    torch.nn.init.normal_(layer.in_proj_bias)
    torch.nn.init.normal_(layer.out_proj.bias)
    path = tmp_path / "layer.safetensors"
    save_file(layer.state_dict(), path)
    return path, layer.eval()


def expected(layer, query, key=None, value=None, **options):
    key = query if key is None else key
    value = key if value is None else value
    with torch.no_grad():
        output, weights = layer.double()(
            *(torch.from_numpy(x).double() for x in (query, key, value)),
            average_attn_weights=False, **options)
    return output.numpy(), weights.numpy()


def close(actual, wanted):
    """Within what float32 sums of this size can differ from float64."""
    assert actual.shape == wanted.shape
    assert numpy.abs(actual - wanted).max() <= 4e-6 * max(1.0, numpy.abs(wanted).max())


def test_output_and_weights_equal_torch(succeed, torch_layer, tmp_path):
    path, layer = torch_layer
    x = numpy.random.default_rng(0).normal(size=(3, 7, 32)).astype("float32")
    out, weights = tmp_path / "y.npy", tmp_path / "w.npy"
    succeed("run", "--weights", path, "--heads", 4, "--input", save(tmp_path / "x.npy", x),
            "--output", out, "--attention-weights", weights)
    wanted, wanted_weights = expected(layer, x)
    close(numpy.load(out), wanted)
    close(numpy.load(weights), wanted_weights)


def test_masks_and_bias_equal_torch(succeed, torch_layer, tmp_path):
    path, layer = torch_layer
    random = numpy.random.default_rng(1)
    x = random.normal(size=(2, 6, 32)).astype("float32")
    keys = random.normal(size=(2, 9, 32)).astype("float32")
    keep = random.random((6, 9)) < 0.7
    keep[:, 0] = True
    bias = random.normal(size=(6, 9)).astype("float32")
    save(tmp_path / "m.npy", keep, bool)
    succeed("run", "--weights", path, "--heads", 4, "--query", save(tmp_path / "q.npy", x),
            "--key", save(tmp_path / "k.npy", keys), "--mask", tmp_path / "m.npy",
            "--bias", save(tmp_path / "b.npy", bias), "--valid-lens", "9,5",
            "--output", tmp_path / "y.npy")
    lengths = numpy.arange(9)[None, :] >= numpy.array([[9], [5]])
    wanted, _ = expected(
        layer, x, keys, key_padding_mask=torch.from_numpy(lengths),
        attn_mask=torch.from_numpy(numpy.where(keep, bias, -numpy.inf)).double())
    close(numpy.load(tmp_path / "y.npy"), wanted)


def test_causal_and_window_equal_torch(succeed, torch_layer, tmp_path):
    path, layer = torch_layer
    x = numpy.random.default_rng(2).normal(size=(1, 9, 32)).astype("float32")
    save(tmp_path / "x.npy", x)
    i, j = numpy.mgrid[:9, :9]
    for options, hidden in [(["--causal"], j > i),
                            (["--window", "2,1"], (j < i - 2) | (j > i + 1)),
                            (["--window", "2,inf", "--causal"], (j < i - 2) | (j > i))]:
        succeed("run", "--weights", path, "--heads", 4, "--input", tmp_path / "x.npy", *options,
                "--output", tmp_path / "y.npy")
        wanted, _ = expected(layer, x, attn_mask=torch.from_numpy(hidden))
        close(numpy.load(tmp_path / "y.npy"), wanted)


def test_alignment_of_causal_queries(succeed, tmp_path):
    common = ["run", "--shape", "1,3,16", "--keys", 8, "--heads", 2, "--causal"]
    weights = tmp_path / "w.npy"
    for options, first in [(["--align", "top-left"], 1), (["--align", "bottom-right"], 6),
                           (["--query-offset", 2], 3)]:
        succeed(*common, *options, "--attention-weights", weights)
        seen = (numpy.load(weights)[0, 0] > 0).sum(axis=1)
        assert seen.tolist() == [first, first + 1, first + 2]


def test_standard_input_and_output(run, torch_layer, tmp_path):
    path, layer = torch_layer
    x = numpy.random.default_rng(3).normal(size=(2, 5, 32)).astype("float32")
    buffer = io.BytesIO()
    numpy.save(buffer, x)
    outcome = run("run", "--weights", path, "--heads", 4, "--input", "-", "--output", "-",
                  input=buffer.getvalue())
    assert outcome.code == 0
    close(numpy.load(io.BytesIO(outcome.bytes)), expected(layer, x)[0])
    assert "GFLOP/s" in outcome.err  # the report gave way to the array


def test_fortran_order_doubles_and_npz_members(succeed, torch_layer, tmp_path):
    path, layer = torch_layer
    x = numpy.random.default_rng(4).normal(size=(2, 5, 32)).astype("float32")
    numpy.savez(tmp_path / "all.npz", other=numpy.zeros(3), x=numpy.asfortranarray(x.astype("f8")))
    succeed("run", "--weights", path, "--heads", 4, "--input", f"{tmp_path}/all.npz:x",
            "--output", tmp_path / "y.npy")
    close(numpy.load(tmp_path / "y.npy"), expected(layer, x)[0])


def test_bits_do_not_depend_on_threads_or_the_batch(succeed, tmp_path):
    x = numpy.random.default_rng(5).normal(size=(8, 40, 64)).astype("float32")
    save(tmp_path / "x.npy", x)
    save(tmp_path / "one.npy", x[3:4])
    common = ["run", "--heads", 4, "--seed", 9]
    results = []
    for name, threads in [("x", 1), ("x", 2), ("one", 2)]:
        succeed(*common, "--input", tmp_path / f"{name}.npy", "--threads", threads, "--output",
                tmp_path / "y.npy")
        results.append(numpy.load(tmp_path / "y.npy"))
    assert results[0].tobytes() == results[1].tobytes()
    assert results[0][3:4].tobytes() == results[2].tobytes()


def test_report_tells_shapes_weights_time_and_kernel(succeed):
    text = succeed("run", "--shape", "4,64,128", "--heads", 4, "--key-dim", 32, "--value-dim", 16,
                   "--repeat", 3, "--threads", 1)
    assert re.search(r"output +\(4, 64, 128\)", text)
    assert re.search(r"value/kernel +\(128, 4, 16\) +\(128, 64\) +8,192", text)
    assert re.search(r"time +[\d.]+ (µs|ms)", text)
    assert re.search(r"[\d.]+ GFLOP/s, \d+% of", text)
    assert re.search(r"kernel.*(avx512|avx2|sse4|neon)", text)


def test_json_report(succeed):
    report = json.loads(succeed("run", "--shape", "2,16,64", "--heads", 4, "--json"))
    assert report["output"]["shape"] == [2, 16, 64]
    assert report["parameters"] == 4 * (64 * 64 + 64)
    assert report["seconds"] > 0 and 0 < report["share_of_peak"] < 1.5
    assert report["config"]["num_heads"] == 4 and report["config"]["key_dim"] == 16
    assert report["attention_weights"] is None and report["output"]["file"] is None
    assert "the best that this CPU has" in report["kernel"]  # nobody asked for a target


def test_json_report_of_other_keys_and_one_thread(succeed, tmp_path):
    weights = tmp_path / "w.npy"
    report = json.loads(succeed(
        "run", "--shape", "1,4,16", "--keys", 6, "--heads", 2, "--threads", 2, "--json",
        "--attention-weights", weights))  # fmt: skip
    assert report["key"]["shape"] == report["value"]["shape"] == [1, 6, 16]
    assert report["attention_weights"] == {"shape": [1, 2, 4, 6], "file": str(weights)}
    # So little work is not shared: the peak is that of the thread that ran.
    assert report["threads"] == 1 and report["threads_allowed"] == 2
    text = succeed("run", "--shape", "1,4,16", "--heads", 2, "--threads", 2)
    assert re.search(r"of this machine's [\d.]+ on 1 thread\n", text)


def test_the_same_seed_gives_the_same_numbers(succeed, tmp_path):
    outputs = []
    for seed in (1, 1, 2):
        succeed("run", "--shape", "1,8,32", "--heads", 4, "--seed", seed, "--output", tmp_path / "y.npy")
        outputs.append((tmp_path / "y.npy").read_bytes())
    assert outputs[0] == outputs[1] != outputs[2]


def test_wrong_inputs_are_told(fails, torch_layer, tmp_path):
    path, _ = torch_layer
    x = save(tmp_path / "x.npy", numpy.zeros((2, 5, 31)))
    message = fails(2, "run", "--weights", path, "--heads", 4, "--input", x)
    assert message.startswith("headwise: --input: expected shape") and "32" in message
    assert "(2, 5, 31)" in message
    save(tmp_path / "float_mask.npy", numpy.ones((5, 5)))
    message = fails(1, "run", "--shape", "2,5,8", "--heads", 2, "--mask", tmp_path / "float_mask.npy")
    assert "expected truth values" in message and "--bias" in message
    save(tmp_path / "bool_bias.npy", numpy.ones((5, 5)), bool)
    message = fails(1, "run", "--shape", "2,5,8", "--heads", 2, "--bias", tmp_path / "bool_bias.npy")
    assert "expected floats" in message
    save(tmp_path / "mask3.npy", numpy.ones((2, 5, 5)), bool)
    message = fails(2, "run", "--shape", "2,5,8", "--heads", 2, "--mask", tmp_path / "mask3.npy")
    assert "mask" in message and "axes" in message.lower()
    succeed_axes = ["run", "--shape", "2,5,8", "--heads", 2, "--mask", tmp_path / "mask3.npy"]
    assert "expected query-key" in fails(2, *succeed_axes, "--mask-axes", "query")


def test_heads_that_a_file_does_not_tell(fails, torch_layer):
    path, _ = torch_layer
    assert "--heads" in fails(1, "run", "--weights", path)


def test_a_first_call_is_not_timed(succeed):
    assert "one call after a first one" in succeed("run", "--shape", "1,4,16", "--heads", 2)


def test_what_was_written_is_said(succeed, tmp_path):
    out = tmp_path / "y.npy"
    assert f"wrote    {out}\n" in succeed("run", "--shape", "1,4,16", "--heads", 2, "--output", out)


def test_outputs_are_looked_at_before_the_work(fails, tmp_path):
    layer = ("run", "--shape", "1,4,16", "--heads", 2)
    for name in ("y.npz", "y.txt", "y"):
        assert "--output: expected a name that ends in .npy" in fails(
            2, *layer, "--output", name, cwd=tmp_path)
    same = (*layer, "--output", "y.npy", "--attention-weights", f"{tmp_path}/../{tmp_path.name}/y.npy")
    assert "--output and --attention-weights: expected two places" in fails(2, *same, cwd=tmp_path)
    both = ("--output", "-", "--attention-weights", "-")
    assert "two places" in fails(2, *layer, *both)
    # Hours of work would come before the folder that is not there.
    fails(1, "run", "--shape", "64,4096,1024", "--heads", 2, "--output", tmp_path / "no" / "y.npy",
          timeout=20)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def rotary_layer(tmp_path):
    from safetensors.numpy import save_file

    random = numpy.random.default_rng(0)
    names = [f"model.layers.0.self_attn.{n}_proj.weight" for n in "qkvo"]
    save_file({name: random.normal(size=(16, 16)).astype("f4") for name in names},
              tmp_path / "llama.safetensors")
    return tmp_path / "llama.safetensors"


def test_what_a_model_does_outside_its_weights_is_said(succeed, run, rotary_layer, tmp_path):
    layer = ("--weights", rotary_layer, "--heads", 4, "--shape", "1,4")
    assert "note     rotary positions" in succeed("run", *layer)
    assert "rotary positions" in json.loads(succeed("run", *layer, "--json"))["notes"][0]
    outcome = run("view", *layer)
    assert "headwise: note: rotary positions" in outcome.err
    title = outcome.out.partition("\n\n")[0]  # of pictures too; as wide as the window
    assert "rotary positions" in " ".join(title.split())


def test_gpt2_says_that_it_is_causal(succeed, tmp_path):
    from safetensors.numpy import save_file

    random = numpy.random.default_rng(0)
    shapes = {"c_attn.weight": (16, 48), "c_attn.bias": (48,), "c_proj.weight": (16, 16),
              "c_proj.bias": (16,)}  # fmt: skip
    save_file({f"h.0.attn.{n}": random.normal(size=s).astype("f4") for n, s in shapes.items()},
              tmp_path / "gpt2.safetensors")
    text = succeed("run", "--weights", tmp_path / "gpt2.safetensors", "--heads", 4, "--shape", "1,4")
    assert "note     a causal mask" in text


@pytest.fixture
def deep_model(tmp_path):
    """save(layers) → a BERT with layers of these numbers."""
    from safetensors.numpy import save_file

    def save_layers(numbers):
        arrays = {}
        for number in numbers:
            for part in ("self.query", "self.key", "self.value", "output.dense"):
                name = f"bert.encoder.layer.{number}.attention.{part}"
                arrays[f"{name}.weight"] = numpy.eye(4, dtype="f4")
                arrays[f"{name}.bias"] = numpy.zeros(4, "f4")
        save_file(arrays, tmp_path / "bert.safetensors")
        return ("run", "--weights", tmp_path / "bert.safetensors", "--heads", 2, "--shape", "1,3")

    return save_layers


def test_part_of_a_name_is_whole_parts_first(succeed, fails, deep_model):
    arguments = deep_model(range(12))
    for part in ("encoder.layer.1", "layer.1", "layer.1.attention", "ayer.1"):
        assert "layer 'bert.encoder.layer.1.attention'" in succeed(*arguments, "--layer", part)
    message = fails(2, *arguments, "--layer", "bert.encoder")
    assert "part of several names, such as 'bert.encoder.layer.0.attention'" in message


def test_half_a_number_is_no_part_of_a_name(succeed, fails, deep_model):
    arguments = deep_model([0, 2, 10])
    assert "no layer 'encoder.layer.1'" in fails(2, *arguments, "--layer", "encoder.layer.1")
    assert "no layer '0.attention'" not in succeed(*arguments, "--layer", "0.attention")
    assert "layer.10." in succeed(*arguments, "--layer", "layer.10")


def test_heads_that_contradict_the_file(succeed, fails, torch_layer, minilm, tmp_path):
    path, _ = torch_layer
    own = tmp_path / "own.safetensors"
    succeed("convert", path, own, "--to", "headwise", "--heads", 4)
    assert "--heads: expected 4, which the layer (headwise) has, got 2" in fails(
        2, "run", "--weights", own, "--heads", 2)
    assert "--key-dim: expected 8" in fails(2, "inspect", own, "--key-dim", 4)
    succeed("run", "--weights", own, "--heads", 4, "--key-dim", 8)
    for option, number in (("--heads", 6), ("--key-dim", 64)):  # config.json says 12 heads of 32
        line = fails(2, "run", "--weights", minilm, "--layer", 0, option, number)
        assert line.startswith(f"headwise: {option}: expected ") and line.endswith(f"got {number}")
    assert "--heads: expected 12" in fails(
        2, "plan", "--weights", minilm, "--layer", 0, "--heads", 6, "--shape", "1,4")


def test_a_misfit_asks_for_nothing_that_was_given(fails, torch_layer):
    path, _ = torch_layer
    line = fails(1, "run", "--weights", path, "--heads", 5)
    assert "num_heads 5 do not fit" in line and "--heads N" not in line


def test_layers_without_a_name(fails, torch_layer):
    path, _ = torch_layer
    line = fails(2, "run", "--weights", path, "--heads", 4, "--layer", "foo")
    assert "no layer 'foo'; there are 0 (without a name)" in line


def test_arrays_from_pipes_and_files_of_several(succeed, fails, tool, tmp_path):
    import subprocess

    from safetensors.numpy import save_file

    x = save(tmp_path / "x.npy", numpy.ones((1, 3, 16)))
    command = f"'{tool}' run --heads 2 --input <(cat '{x}')"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "(1, 3, 16)" in done.stdout
    data = x.read_bytes()
    assert "goes on after" in fails(1, "run", "--heads", 2, "--input", "-", input=data + b"x")
    path = tmp_path / "all.safetensors"
    save_file({"a": numpy.ones((1, 3, 16), "f4"), "b": numpy.ones((2, 3, 16), "f4")}, path)
    assert f"name one as {path}:NAME" in fails(1, "run", "--heads", 2, "--input", path)
    assert "(2, 3, 16)" in succeed("run", "--heads", 2, "--input", f"{path}:b")
