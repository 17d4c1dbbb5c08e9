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
    assert "query" in message and "32" in message and "(2, 5, 31)" in message
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
