"""headwise convert between the real libraries: what one of them saved, another loads and computes.

A bound of 1e-5 of the largest output: all sums are of at most 64 float32 terms, whose rounding errors
grow to a few 1e-7 in each of four products in a row; an exchanged head or axis is an error of 1.
"""

from __future__ import annotations

import json
import pathlib
import re
import subprocess

import framework_layers as fw
import numpy as np
import pytest
import safetensors.numpy
from framework_layers import Sizes
from system_calls import Watch, without_unnamed_files

PLAIN = Sizes()


def assert_same(actual: np.ndarray, expected: np.ndarray) -> None:
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.fixture
def headwise_output(succeed, tmp_path):
    """headwise run of one layer of a file."""

    def call(path, inputs, *options) -> np.ndarray:
        for name, array in zip(("query", "key", "value"), inputs):
            np.save(tmp_path / f"{name}.npy", array)
        out = tmp_path / "output.npy"
        arguments = [f"--{n}={tmp_path / n}.npy" for n in ("query", "key", "value")]
        succeed("run", "--weights", path, *options, *arguments, "--output", out)
        return np.load(out)

    return call


# ---- Sources: files as the libraries' users save them ---------------------------------------------


def saved_module(kind, sizes, path):
    module = fw.make_module(kind, sizes)
    fw.save_module(module, "blocks.0.attention", path)
    return fw.MODULES[kind][1](module)


def saved_linen(sizes, path):
    arrays, function = fw.make_linen(sizes)
    safetensors.numpy.save_file({f"blocks.0.attention/{k}": x for k, x in arrays.items()}, path)
    return function


def saved_nnx(sizes, path):
    arrays, function = fw.make_nnx(sizes)
    safetensors.numpy.save_file({f"blocks.0.attention.{k}": x for k, x in arrays.items()}, path)
    return function


def saved(source, sizes, path):
    if source == "linen":
        return saved_linen(sizes, path)
    if source == "nnx":
        return saved_nnx(sizes, path)
    return saved_module(source, sizes, path)


LOADERS = {
    "keras": fw.load_keras_variables,
    "flax": fw.load_linen,
    **{
        kind: lambda sizes, path, name, kind=kind: fw.load_module(kind, sizes, path, name)
        for kind in fw.MODULES
    },
}


def inputs_for(sizes, *kinds):
    query, key, value = sizes.inputs()
    if fw.SELF_ATTENTION & set(kinds):
        return query, query, query
    return query, key, value


# Each layer goes to every layout that can hold it.
ALL = ("keras", "torch", "flax", "d2l", "bert", "llama", "gpt2")
UNBIASED = ("keras", "torch", "flax", "d2l", "llama")
CASES = [
    ("torch", PLAIN, ALL),
    ("torch", Sizes(bias=False), UNBIASED),
    ("torch", Sizes(key=10, value=14), ("keras", "torch", "flax", "d2l")),
    ("torch", Sizes(extra=True), ("torch",)),
    ("linen", PLAIN, ALL),
    ("linen", Sizes(output=10, key=9, value=8), ("keras", "flax")),
    ("linen", Sizes(norm=True, bias=False), ("flax",)),
    ("nnx", PLAIN, ALL),
    ("d2l", Sizes(bias=False), UNBIASED),
    ("d2l", Sizes(query=5, key=6, value=7, output=24), ("keras", "flax", "d2l")),
    ("bert", PLAIN, ALL),
    ("llama", Sizes(bias=False), UNBIASED),
    ("llama", Sizes(kv_heads=2, bias=False), ("keras", "llama")),
    ("llama", Sizes(heads=3, key_dim=10, bias=True), ("keras", "flax", "llama")),
    ("llama", Sizes(kv_heads=2, norm=True, bias=False), ("llama",)),
    ("gpt2", PLAIN, ALL),
]


def case_name(value) -> str:
    if isinstance(value, Sizes):
        changed = [f"{k}={v}" for k, v in vars(value).items() if v != vars(PLAIN)[k]]
        return ",".join(changed) or "plain"
    return "" if isinstance(value, tuple) else value


@pytest.mark.parametrize(("source", "sizes", "targets"), CASES, ids=case_name)
def test_between_libraries(source, sizes, targets, succeed, headwise_output, tmp_path):
    path = tmp_path / "in.safetensors"
    function = saved(source, sizes, path)
    name = "blocks.0.attention"
    for kind in targets:
        out = tmp_path / f"{kind}.safetensors"
        text = succeed("convert", path, out, "--to", kind, "--heads", sizes.heads)
        assert name in text and "the same bits" in text
        inputs = inputs_for(sizes, source, kind)
        expected = function(*inputs)
        assert_same(LOADERS[kind](sizes, out, name)(*inputs), expected)
        # The new file tells its heads itself.
        assert_same(headwise_output(out, inputs), expected)
        # And back again: the very bits that the library had saved.
        again = tmp_path / f"{kind}-{source}.safetensors"
        layout = "flax" if source in ("linen", "nnx") else source
        succeed("convert", out, again, "--to", layout)
        before, after = fw.read_arrays(path), fw.read_arrays(again)
        assert {k.replace("/", ".") for k in before} == {k.replace("/", ".") for k in after}
        for key, array in before.items():
            other = after[key if key in after else fitting(key, after)]
            assert array.shape == other.shape and array.tobytes() == other.tobytes()


def fitting(key: str, arrays: fw.Arrays) -> str:
    return next(k for k in arrays if k.replace("/", ".") == key.replace("/", "."))


def test_flax_nnx_loads_grouped_heads(succeed, tmp_path):
    """Grouped heads are nnx's alone, of Flax's two."""
    sizes = Sizes(kv_heads=2, key=10, value=10, output=5)
    source = tmp_path / "in.safetensors"
    function = saved_nnx(sizes, source)
    for middle in ("headwise", "flax"):
        out = tmp_path / f"{middle}.safetensors"
        succeed("convert", source, out, "--to", middle)
        source = out
    loaded = fw.load_nnx(sizes, source, "blocks.0.attention")
    assert_same(loaded(*sizes.inputs()), function(*sizes.inputs()))


@pytest.mark.parametrize("sizes", [PLAIN, Sizes(bias=False, norm=True)], ids=case_name)
def test_flax_nnx_loads_what_torch_or_linen_saved(sizes, succeed, tmp_path):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.npz"
    function = saved("linen" if sizes.norm else "torch", sizes, path)
    succeed("convert", path, out, "--to", "flax", "--heads", sizes.heads, "--name", "")
    assert_same(fw.load_nnx(sizes, out, "")(*sizes.inputs()), function(*sizes.inputs()))


def test_whole_hugging_face_model(succeed, headwise_output, tmp_path):
    """A model saved by transformers itself: all layers, heads from config.json beside it; the new
    file's layers put back give the same model."""
    import torch
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=24,
        num_attention_heads=4,
        num_hidden_layers=3,
        intermediate_size=32,
        vocab_size=50,
        attn_implementation="eager",
    )
    model = BertModel(config).eval()
    fw._randomise(model)
    model.save_pretrained(tmp_path / "bert")
    out, back = tmp_path / "out.weights.h5", tmp_path / "back.safetensors"
    text = succeed("convert", tmp_path / "bert", out, "--to", "keras")
    assert [f"encoder.layer.{i}.attention" in text for i in range(3)] == [True] * 3
    succeed("convert", out, back, "--to", "bert")
    arrays = fw.read_arrays(back)
    state = model.state_dict()
    assert len(arrays) == 24
    for key, array in arrays.items():
        assert state[key].numpy().tobytes() == array.tobytes()
    # transformers' own loader takes the file for what it is: one of PyTorch's.
    with safetensors.safe_open(back, "pt") as file:
        assert file.metadata()["format"] == "pt"
    attention = model.encoder.layer[1].attention
    x = PLAIN.inputs()[0]
    with torch.no_grad():
        expected = attention.output.dense(attention.self(torch.from_numpy(x))[0]).numpy()
    assert_same(headwise_output(back, (x, x, x), "--layer", "layer.1"), expected)


def test_real_model_to_keras_and_back(succeed, minilm, tmp_path):
    for middle in ("a.keras", "b.weights.h5", "c.safetensors", "d.npz"):
        succeed("convert", minilm, tmp_path / middle, "--to", "keras")
        back = tmp_path / f"{middle}.safetensors"
        succeed("convert", tmp_path / middle, back, "--to", "bert")
        original = safetensors.numpy.load_file(minilm / "model.safetensors")
        arrays = fw.read_arrays(back)
        assert len(arrays) == 6 * 8
        assert all(original[key].tobytes() == array.tobytes() for key, array in arrays.items())


@pytest.mark.parametrize("whisper", [False, True])
def test_bart_and_whisper_are_read(whisper, succeed, tmp_path):
    """transformers' BART attention; Whisper's, whose keys have no bias."""
    import torch
    from transformers.models.bart.modeling_bart import BartAttention
    from transformers.models.whisper.modeling_whisper import WhisperAttention

    kind = WhisperAttention if whisper else BartAttention
    module = kind(embed_dim=24, num_heads=4).eval()
    module.config = type("Eager", (), {"_attn_implementation": "eager"})()
    fw._randomise(module)
    fw.save_module(module, "decoder.layers.0.self_attn", tmp_path / "in.safetensors")
    out = tmp_path / "out.safetensors"
    succeed("convert", tmp_path / "in.safetensors", out, "--to", "torch", "--heads", 4)
    x = PLAIN.inputs()[0]
    with torch.no_grad():
        expected = module(torch.from_numpy(x))[0].numpy()
    loaded = fw.load_module("torch", PLAIN, out, "decoder.layers.0.self_attn")
    assert_same(loaded(x, x, x), expected)


def test_transformer_encoder_of_torch(succeed, tmp_path):
    import torch

    layer = torch.nn.TransformerEncoderLayer(24, 4, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 12, enable_nested_tensor=False).eval()
    fw._randomise(encoder)
    fw.save_module(encoder, "", tmp_path / "in.safetensors")
    out = tmp_path / "out.safetensors"
    text = succeed("convert", tmp_path / "in.safetensors", out, "--to", "keras", "--heads", 4)
    names = [line.split()[0] for line in text.splitlines() if line.startswith("layers.")]
    assert names == [f"layers.{i}.self_attn" for i in range(12)], "counted, not spelt"
    expected = fw.torch_function(encoder.layers[11].self_attn)(*PLAIN.inputs())
    loaded = fw.load_keras_variables(PLAIN, out, "layers.11.self_attn")
    assert_same(loaded(*PLAIN.inputs()), expected)


# ---- Headwise's own layout ------------------------------------------------------------------------


def test_headwise_keeps_what_no_library_has(succeed, fails, headwise_output, tmp_path):
    """A configuration in the metadata, with tensors under our names."""
    random = np.random.default_rng(2)
    arrays = {
        "a/query/kernel": random.standard_normal((6, 8), dtype=np.float32),
        "a/key/kernel": random.standard_normal((6, 4), dtype=np.float32),
        "a/value/kernel": random.standard_normal((6, 6), dtype=np.float32),
        "a/attention_output/kernel": random.standard_normal((12, 5), dtype=np.float32),
        "a/attention_output/bias": random.standard_normal(5, dtype=np.float32),
    }
    config = {
        "num_heads": 4,
        "num_kv_heads": 2,
        "key_dim": 2,
        "value_dim": 3,
        "query_features": 6,
        "output_features": 5,
        "use_bias": False,
        "use_output_bias": True,
        "scale": 0.3,
        "softcap": 2.5,
    }
    source = tmp_path / "in.safetensors"
    safetensors.numpy.save_file(arrays, source, {"headwise:a": json.dumps(config)})
    out = tmp_path / "out.safetensors"
    succeed("convert", source, out, "--to", "headwise", "--name", "b")
    x = random.standard_normal((2, 5, 6), dtype=np.float32)
    assert_same(headwise_output(out, (x, x, x)), attention64(arrays, config, x))
    with safetensors.safe_open(out, "np") as file:
        told = json.loads(file.metadata()["headwise:b"])
    assert {k: pytest.approx(v) for k, v in config.items()}.items() <= told.items()
    message = fails(2, "convert", source, tmp_path / "no.npz", "--to", "headwise")
    assert "scale" in message and ".safetensors" in message
    for layout in ALL:
        message = fails(2, "convert", source, tmp_path / "no.safetensors", "--to", layout)
        assert f"cannot be written as {layout}" in message
    assert not (tmp_path / "no.safetensors").exists()


def attention64(arrays, config, x) -> np.ndarray:
    """The layer of the test above in float64, from the formula."""
    x = x.astype(np.float64)
    heads, kv_heads = config["num_heads"], config["num_kv_heads"]

    def split(kernel, count):
        y = x @ arrays[f"a/{kernel}/kernel"].astype(np.float64)
        return y.reshape(*y.shape[:-1], count, -1)

    query = split("query", heads)
    key = np.repeat(split("key", kv_heads), heads // kv_heads, axis=2)
    value = np.repeat(split("value", kv_heads), heads // kv_heads, axis=2)
    scores = np.einsum("bthd,bshd->bhts", query, key) * np.float32(config["scale"])
    scores = config["softcap"] * np.tanh(scores / config["softcap"])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mixed = np.einsum("bhts,bshd->bthd", weights, value).reshape(*x.shape[:2], -1)
    return mixed @ arrays["a/attention_output/kernel"] + arrays["a/attention_output/bias"]


# ---- Changes on the way ---------------------------------------------------------------------------


def test_fold(succeed, headwise_output, tmp_path):
    path = tmp_path / "in.safetensors"
    function = saved("torch", PLAIN, path)
    random = np.random.default_rng(6)
    matrix = random.standard_normal((10, 24), dtype=np.float32) / 3
    shift = random.standard_normal(24, dtype=np.float32)
    np.save(tmp_path / "map.npy", matrix)
    np.save(tmp_path / "shift.npy", shift)
    fold = ("--fold", tmp_path / "map.npy", "--fold-shift", tmp_path / "shift.npy", "--heads", 4)
    x = random.standard_normal((2, 7, 10), dtype=np.float32)
    inside = (x @ matrix + shift).astype(np.float32)

    out = tmp_path / "all.safetensors"
    text = succeed("convert", path, out, "--to", "headwise", *fold)
    error = float(re.search(r"the output agrees to (\S+), on random input", text)[1])
    assert 0.0 < error < 1e-5
    assert_same(headwise_output(out, (x, x, x)), function(inside, inside, inside))

    out = tmp_path / "some.safetensors"
    succeed("convert", path, out, "--to", "headwise", *fold, "--fold-into", "key,value")
    query = PLAIN.inputs()[0]
    assert_same(headwise_output(out, (query, x, x)), function(query, inside, inside))


def test_smaller_heads_say_how_far_they_are_off(succeed, headwise_output, tmp_path):
    """The printed error of every head's scores is that of numpy's SVD, and Keras computes the rest."""
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    saved("linen", PLAIN, path)
    text = succeed("convert", path, out, "--to", "keras", "--key-dim", 4)
    table = text[text.index("head  score error") :].splitlines()[1:5]
    arrays = fw.below(fw.read_arrays(path), "blocks.0.attention", "/")
    for head, row in enumerate(table):
        # The query's bias is a row for an input that is always 1.
        query = np.vstack([arrays["query/kernel"][:, head], arrays["query/bias"][head]])
        product = query.astype(np.float64) @ arrays["key/kernel"][:, head].T
        values = np.linalg.svd(product, compute_uv=False)
        expected = np.sqrt((values[4:] ** 2).sum() / (values**2).sum())
        number, error, measured, _ = row.split()
        assert int(number) == head
        assert float(error) == pytest.approx(expected, rel=1e-2)
        assert float(measured) == pytest.approx(expected, rel=0.5), "random inputs meet it about so"
    sizes = Sizes(key_dim=4, value_dim=6)
    inputs = sizes.inputs()
    expected = headwise_output(out, inputs)
    assert_same(fw.load_keras_variables(sizes, out, "blocks.0.attention")(*inputs), expected)


def test_smaller_heads_that_lose_nothing(succeed, headwise_output, tmp_path):
    """Heads whose products have rank 3 are the same with key_dim 3; the scale stays theirs."""
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    arrays, _ = fw.make_linen(PLAIN)
    arrays["query/kernel"][:, :, 3:] = 0.0
    arrays["query/bias"][:, 3:] = 0.0
    safetensors.numpy.save_file(arrays, path)
    for layout in ("headwise", "keras"):
        succeed("convert", path, out, "--to", layout, "--key-dim", 3, "--force")
        inputs = PLAIN.inputs()
        assert_same(headwise_output(out, inputs), headwise_output(path, inputs))


# ---- Refusals -------------------------------------------------------------------------------------


@pytest.fixture
def torch_file(tmp_path) -> pathlib.Path:
    saved("torch", PLAIN, tmp_path / "in.safetensors")
    return tmp_path / "in.safetensors"


def test_nothing_is_replaced_without_force(torch_file, succeed, fails, tmp_path):
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"precious")
    arguments = ("convert", torch_file, out, "--to", "keras", "--heads", 4)
    assert "exists; --force" in fails(2, *arguments)
    assert out.read_bytes() == b"precious"
    succeed(*arguments, "--force")
    assert len(fw.read_arrays(out)) == 8
    same = ("convert", torch_file, torch_file, "--to", "keras", "--heads", 4)
    assert "is IN itself; --force" in fails(2, *same)
    succeed(*same, "--force")
    assert fw.read_arrays(torch_file).keys() == fw.read_arrays(out).keys()


def test_a_failure_leaves_the_old_file(torch_file, fails, tmp_path):
    out = tmp_path / "out.safetensors"
    out.write_bytes(b"precious")
    files = sorted(tmp_path.iterdir())
    # The number of heads is not known: found out long after the command line was understood.
    message = fails(1, "convert", torch_file, out, "--to", "keras", "--force")
    assert "number of heads" in message
    assert out.read_bytes() == b"precious"
    assert sorted(tmp_path.iterdir()) == files


@pytest.mark.parametrize(
    ("arguments", "mentions"),
    [
        (("out.safetensors", "--to", "jax"), "--to: expected keras, torch"),
        (("out.bin", "--to", "torch"), ".safetensors, .npz, .weights.h5 or .keras"),
        (("out.h5", "--to", "keras"), ".weights.h5"),
        (("out.keras", "--to", "torch"), "holds a Keras model"),
        (("out.npz", "--to", "torch", "--fold-into", "key"), "--fold-into: needs --fold"),
        (("out.npz", "--to", "torch", "--fold-shift", "x.npy"), "--fold-shift: needs --fold"),
        (("out.npz", "--to", "torch", "--layer", "nowhere"), "no layer 'nowhere'"),
        (("out.npz", "--to", "torch", "--key-dim", "7"), "--key-dim: expected 1 … 6, got 7"),
        (("out.npz", "--to", "torch", "--key-dim", "0"), "--key-dim: expected a whole number"),
        (("out.npz", "--to", "torch", "--key-dim", "3"), "torch"),
        (("out.npz",), "--to: missing"),
    ],
)
def test_bad_use(arguments, mentions, torch_file, fails, tmp_path):
    message = fails(2, "convert", torch_file, *arguments, "--heads", 4, cwd=tmp_path)
    assert mentions in message
    assert [path.name for path in tmp_path.iterdir()] == ["in.safetensors"]


def test_maps_that_do_not_fit(torch_file, fails, tmp_path):
    np.save(tmp_path / "map.npy", np.zeros((5, 23), np.float32))
    arguments = ("convert", torch_file, tmp_path / "out.npz", "--to", "headwise", "--heads", 4)
    assert "(5, 23)" in fails(2, *arguments, "--fold", tmp_path / "map.npy")
    np.save(tmp_path / "map.npy", np.zeros(24, np.float32))
    assert "(24,)" in fails(2, *arguments, "--fold", tmp_path / "map.npy")
    np.save(tmp_path / "map.npy", np.zeros((24, 24), np.float32))
    for text in ("query,query", "output", "query,", "query key"):
        message = fails(2, *arguments, "--fold", tmp_path / "map.npy", f"--fold-into={text}")
        assert "--fold-into: expected some of query,key,value" in message


@pytest.mark.parametrize(
    ("value", "says"),
    [(np.nan, "not finite"), (3e38, "not finite"), (1e6, "off by")],
)
def test_a_fold_that_changes_the_layer_writes_nothing(value, says, torch_file, fails, tmp_path):
    """NaN, an overflow, and sums of which nothing but their rounding errors is left."""
    matrix = np.random.default_rng(1).standard_normal((24, 24)).astype("f4")
    matrix[:, 0] = value
    arrays = fw.read_arrays(torch_file)
    if says == "off by":  # 1e6·x − 1e6·x
        matrix[:, 1] = value
        kernel = arrays["blocks.0.attention.in_proj_weight"]
        kernel[:, 1] = -kernel[:, 0]
    path, out = tmp_path / "layer.safetensors", tmp_path / "out.safetensors"
    safetensors.numpy.save_file(arrays, path)
    np.save(tmp_path / "map.npy", matrix)
    out.write_bytes(b"precious")
    message = fails(1, "convert", path, out, "--to", "headwise", "--heads", 4, "--force",
                    "--fold", tmp_path / "map.npy")
    assert f"{path}: layer 'blocks.0.attention' (torch): " in message and says in message
    assert out.read_bytes() == b"precious"


def test_smaller_heads_of_weights_that_are_not_finite(torch_file, fails, tmp_path):
    arrays = fw.read_arrays(torch_file)
    for name, says in (("in_proj_weight", "expected finite weights, got NaN"),
                       ("out_proj.weight", "its output is not finite")):
        broken = {key: array.copy() for key, array in arrays.items()}
        broken[f"blocks.0.attention.{name}"][5, 5] = np.nan
        path, out = tmp_path / "nan.safetensors", tmp_path / "out.safetensors"
        safetensors.numpy.save_file(broken, path)
        message = fails(1, "convert", path, out, "--to", "headwise", "--heads", 4, "--key-dim", 3)
        assert f"{path}: layer 'blocks.0.attention' (torch): " in message and says in message
        assert not out.exists()


def test_smaller_heads_are_not_for_norms(fails, tmp_path):
    path = tmp_path / "in.safetensors"
    saved("linen", Sizes(norm=True), path)
    message = fails(2, "convert", path, tmp_path / "out.safetensors", "--to", "headwise", "--key-dim", 2)
    assert "--key-dim: not for layer" in message and "norms" in message


def test_unreadable_files(fails, tmp_path):
    out = tmp_path / "out.npz"
    nowhere = tmp_path / "nowhere.safetensors"
    assert str(nowhere) in fails(1, "convert", nowhere, out, "--to", "torch")
    (tmp_path / "text.safetensors").write_text("text")
    fails(1, "convert", tmp_path / "text.safetensors", out, "--to", "torch")
    safetensors.numpy.save_file({"x": np.zeros(3, np.float32)}, tmp_path / "x.safetensors")
    message = fails(1, "convert", tmp_path / "x.safetensors", out, "--to", "torch")
    assert "no attention layer" in message
    folder = tmp_path / "no" / "such" / "out.npz"
    saved("linen", PLAIN, tmp_path / "in.safetensors")
    fails(1, "convert", tmp_path / "in.safetensors", folder, "--to", "torch")


def test_several_layers_and_one_name(succeed, fails, tmp_path):
    arrays = {}
    for front in ("a", "b"):
        arrays |= {f"{front}/{k}": x for k, x in fw.make_linen(PLAIN)[0].items()}
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    safetensors.numpy.save_file(arrays, path)
    message = fails(2, "convert", path, out, "--to", "torch", "--name", "c")
    assert "several layers" in message
    succeed("convert", path, out, "--to", "torch", "--layer", "b", "--name", "c")
    assert all(key.startswith("c.") for key in fw.read_arrays(out))


def test_rotary_positions_are_said(succeed, tmp_path):
    path = tmp_path / "in.safetensors"
    saved("llama", Sizes(bias=False), path)
    text = succeed("convert", path, tmp_path / "out.npz", "--to", "torch", "--heads", 4)
    assert "note: rotary positions" in text
    assert "note: an npz holds no text" in text


def test_smaller_heads_are_not_for_rotary_positions(fails, tmp_path):
    random = np.random.default_rng(0)
    tensors = {f"model.layers.0.self_attn.{name}_proj.weight": random.normal(size=(16, 16)).astype("f4")
               for name in "qkvo"}
    safetensors.numpy.save_file(tensors, tmp_path / "llama.safetensors")
    message = fails(2, "convert", tmp_path / "llama.safetensors", tmp_path / "small.safetensors",
                    "--to", "headwise", "--heads", 4, "--key-dim", 2)
    assert "rotary positions" in message
    assert not (tmp_path / "small.safetensors").exists()


@pytest.mark.parametrize(("dtype", "says"), [("float64", "note: F64 became F32, rounded"),
                                             ("float16", "note: F16 became F32, the same numbers")])
def test_what_changes_and_what_is_left_out_is_said(dtype, says, torch_file, succeed, tmp_path):
    arrays = {name: x.astype(dtype) for name, x in fw.read_arrays(torch_file).items()}
    path = tmp_path / "other.safetensors"
    safetensors.numpy.save_file(arrays | {"norm.weight": np.ones(3, dtype)}, path)
    arguments = ("--to", "headwise", "--heads", 4)
    text = succeed("convert", path, tmp_path / "out.safetensors", *arguments)
    assert says in text and "note: 1 of IN's 5 tensors" in text
    plain = succeed("convert", torch_file, tmp_path / "plain.safetensors", *arguments)
    assert "became" not in plain and "left out" not in plain


@pytest.mark.parametrize("name", ["out.safetensors", "out.npz", "out.keras", "out.weights.h5"])
def test_the_new_file_is_read_before_it_is_put_in_place(name, torch_file, tool, tmp_path):
    """Where it has a name of its own until then: somebody opens that and reads."""
    watch = Watch(tmp_path)
    subprocess.run([tool, "convert", torch_file, tmp_path / name, "--to", "keras", "--heads", "4"],
                   preexec_fn=without_unnamed_files, capture_output=True, check=True)
    assert any(name.startswith(".headwise-") for name in watch.names())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["in.safetensors", name])


def test_back_to_torch_under_its_own_names(succeed, tmp_path):
    import torch
    from safetensors.torch import save_file

    torch_file, keras = tmp_path / "in.safetensors", tmp_path / "m.keras"
    back = tmp_path / "back.safetensors"
    layer = torch.nn.MultiheadAttention(24, 4)
    save_file(layer.state_dict(), torch_file)
    text = succeed("convert", torch_file, keras, "--to", "keras", "--heads", 4)
    assert "called 'attention'; --name '' takes that off" in text
    succeed("convert", keras, back, "--to", "torch", "--name", "")
    arrays = fw.read_arrays(back)
    assert {name: x.tobytes() for name, x in arrays.items()} == {
        name: x.tobytes() for name, x in fw.read_arrays(torch_file).items()}
    layer.load_state_dict({name: torch.from_numpy(x.copy()) for name, x in arrays.items()})
    assert "''" in succeed("convert", "--help")


def test_a_missing_folder_is_found_before_the_work(torch_file, fails, tmp_path):
    out = tmp_path / "no" / "out.npz"
    line = fails(1, "convert", tmp_path / "nothing.npz", out, "--to", "torch")
    assert f"{out}: no folder {out.parent}" in line  # and not that IN is missing
