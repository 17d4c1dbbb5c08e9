"""headwise convert to and from the files that the real Keras saves and loads, on all its backends."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import framework_layers as fw
import numpy as np
import pytest
import safetensors.numpy
from framework_layers import Sizes
from test_convert import assert_same, case_name, headwise_output  # noqa: F401

PLAIN = Sizes()
SIZES = [
    PLAIN,
    Sizes(bias=False),
    Sizes(key_dim=5, value_dim=7, output=11, key=10, value=14),
    Sizes(gate=True),
    Sizes(gate=True, bias=False, value_dim=3),
    Sizes(kv_heads=2),
    Sizes(kv_heads=1, gate=True, bias=False, key=10, value=24),
]


# ---- Files that Keras saved -----------------------------------------------------------------------


@pytest.mark.parametrize("sizes", SIZES, ids=case_name)
@pytest.mark.parametrize("extension", [".weights.h5", ".keras"])
def test_saved_by_keras(extension, sizes, succeed, headwise_output, tmp_path):  # noqa: F811
    model = fw.keras_model((sizes, "my_attention"))
    fw.randomise_keras(model)
    path = tmp_path / f"model{extension}"
    (model.save_weights if extension == ".weights.h5" else model.save)(path)
    expected = fw.keras_function(model)(*sizes.inputs())
    assert_same(headwise_output(path, sizes.inputs(), "--layer", "my_attention"), expected)
    # To other containers; and back, the bits that Keras saved, under its own names.
    out = tmp_path / "out.safetensors"
    assert "my_attention" in succeed("convert", path, out, "--to", "keras")
    assert_same(fw.load_keras_variables(sizes, out, "my_attention")(*sizes.inputs()), expected)
    again = tmp_path / f"again{extension}"
    succeed("convert", out, again, "--to", "keras")
    assert h5_arrays(again) == h5_arrays(path)


def h5_arrays(path: pathlib.Path) -> dict[str, tuple]:
    """Names of attention layers, shapes and bytes of every tensor."""
    import io
    import zipfile

    import h5py

    file = path
    if path.suffix == ".keras":
        file = io.BytesIO(zipfile.ZipFile(path).read("model.weights.h5"))
    found = {}
    with h5py.File(file) as h5:

        def visit(name, node):
            if isinstance(node, h5py.Dataset):
                found[name] = (node.shape, node[...].tobytes())
            elif "attention" in str(node.attrs.get("name", "")) and name.count("/") == 2:
                found[name] = node.attrs["name"]

        h5.visititems(visit)
    return found


def test_layers_in_layers_have_their_users_names(succeed, headwise_output, tmp_path):  # noqa: F811
    import keras

    class Block(keras.layers.Layer):
        def __init__(self, **options):
            super().__init__(**options)
            self.attention = fw.keras_layer(PLAIN, "inner")
            self.more = [fw.keras_layer(PLAIN, "one"), fw.keras_layer(PLAIN, "two")]
            self.dense = keras.layers.Dense(24)

        def call(self, x):
            x = x + self.attention(x, x)
            for layer in self.more:
                x = x + layer(x, x)
            return self.dense(x)

    x = keras.Input((None, 24))
    deep_input = keras.Input((None, 24))
    deep = fw.keras_layer(PLAIN, "deep")
    encoder = keras.Model(deep_input, deep(deep_input, deep_input), name="encoder")
    block = Block(name="block")
    model = keras.Model(x, encoder(block(x)))
    fw.randomise_keras(model)
    path, out = tmp_path / "m.weights.h5", tmp_path / "out.safetensors"
    model.save_weights(path)
    text = succeed("convert", path, out, "--to", "flax")
    names = ["block/inner", "block/one", "block/two", "encoder/deep"]
    assert [line.split()[0] for line in text.splitlines() if "24 → 24" in line] == names
    q, k, v = PLAIN.inputs()
    for name, layer in zip(names, [block.attention, *block.more, deep]):
        expected = fw.keras_numpy(layer(q, v, k))
        assert_same(headwise_output(out, (q, k, v), "--layer", name), expected)


def test_a_layer_saved_alone_and_an_output_of_two_axes(succeed, headwise_output, tmp_path):  # noqa: F811
    import keras
    from keras.src.saving.saving_lib import save_weights_only

    layer = keras.layers.MultiHeadAttention(4, 6, output_shape=(3, 5), dropout=0.1, seed=1)
    q, k, v = PLAIN.inputs()
    layer(q, v, k)
    fw.randomise_keras(type("Weights", (), {"weights": layer.trainable_weights}))
    expected = fw.keras_numpy(layer(q, v, k))
    path = tmp_path / "layer.weights.h5"
    save_weights_only(layer, path)
    out = tmp_path / "out.safetensors"
    succeed("convert", path, out, "--to", "headwise")
    assert_same(headwise_output(out, (q, k, v)).reshape(2, 7, 3, 5), expected)


def test_a_window_is_said(succeed, tmp_path):
    """sliding_window is no weight: the file's reader has to pass it as a mask, and is told so."""
    import keras

    x = keras.Input((None, 24))
    layer = keras.layers.MultiHeadAttention(4, 6, sliding_window=3, name="near")
    keras.Model(x, layer(x, x)).save(tmp_path / "m.keras")
    text = succeed("convert", tmp_path / "m.keras", tmp_path / "out.npz", "--to", "torch")
    assert "note: layer 'near' has sliding_window 3" in text


def test_what_a_layer_was_told_beside_its_sizes_is_kept_or_said(succeed, fails, tmp_path):
    import zipfile

    import keras

    x = keras.Input((3, 4, 24))
    layer = keras.layers.MultiHeadAttention(4, 6, attention_axes=(2,), dropout=0.1, name="inner")
    path, out = tmp_path / "in.keras", tmp_path / "out.keras"
    keras.Model(x, layer(x, x)).save(path)
    assert "'inner' has attention_axes [2]" in succeed("convert", path, out, "--to", "keras")
    assert "'inner' has attention_axes [2]" in succeed("run", "--weights", path, "--shape", "1,3")
    layers = json.loads(zipfile.ZipFile(out).read("config.json"))["config"]["layers"]
    assert [one["config"].get("dropout") for one in layers] == [None, None, None, 0.1]

    x = keras.Input((3, 24))
    layer = keras.layers.MultiHeadAttention(4, 6, output_shape=(3, 5), name="wide")
    keras.Model(x, layer(x, x)).save(path)
    message = fails(2, "convert", path, out, "--to", "keras", "--force")
    assert "layer 'wide' (keras), whose output_shape (3, 5) has several axes" in message
    text = succeed("convert", path, tmp_path / "out.safetensors", "--to", "flax")
    assert "note: its output has axes (3, 5), which are one axis here" in text


# ---- Files that Keras loads -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def converted(succeed, tmp_path_factory):
    """Models written by convert, from Headwise's own layout, with inputs for Keras and the outputs of
    `headwise run`: one for all sizes, and one of each."""
    folder = tmp_path_factory.mktemp("keras")
    random = np.random.default_rng(8)
    arrays, metadata = {}, {}
    for i, sizes in enumerate(SIZES):
        arrays |= own_layer(random, f"encoder.layer/{i}", sizes)
        metadata[f"headwise:encoder.layer/{i}"] = json.dumps(own_config(sizes))
    source = folder / "source.safetensors"
    safetensors.numpy.save_file(arrays, source, metadata)

    expected = []
    for i, sizes in enumerate(SIZES):
        for part, array in zip(("query", "key", "value"), sizes.inputs(i)):
            np.save(folder / f"{part}.npy", array)
        options = [f"--{part}={folder / part}.npy" for part in ("query", "key", "value")]
        layer = ("--weights", source, "--layer", f"encoder.layer/{i}")
        succeed("run", *layer, *options, "--output", folder / "y.npy")
        expected.append(np.load(folder / "y.npy"))

    for extension in ("keras", "weights.h5"):
        succeed("convert", source, folder / f"all.{extension}", "--to", "keras")
        for i in range(len(SIZES)):
            one = ("--layer", f"encoder.layer/{i}", "--name", "my layer")
            succeed("convert", source, folder / f"{i}.{extension}", "--to", "keras", *one)
    return folder, expected


def own_config(sizes: Sizes) -> dict:
    return {
        "num_heads": sizes.heads,
        "num_kv_heads": sizes.kv_heads,
        "key_dim": sizes.key_dim,
        "value_dim": sizes.value_dim,
        "query_features": sizes.query,
        "key_features": sizes.key,
        "value_features": sizes.value,
        "output_features": sizes.output,
        "use_bias": sizes.bias,
        "use_gate": sizes.gate,
    }


def own_layer(random, name: str, s: Sizes) -> fw.Arrays:
    widths = {
        "query": (s.query, s.heads * s.key_dim),
        "key": (s.key, s.kv_heads * s.key_dim),
        "value": (s.value, s.kv_heads * s.value_dim),
        "gate": (s.query, s.heads * s.value_dim),
        "attention_output": (s.heads * s.value_dim, s.output),
    }
    arrays = {}
    for part, shape in widths.items():
        if part == "gate" and not s.gate:
            continue
        arrays[f"{name}/{part}/kernel"] = random.standard_normal(shape, dtype=np.float32) / 4
        if s.bias:
            arrays[f"{name}/{part}/bias"] = random.standard_normal(shape[1], dtype=np.float32) / 4
    return arrays


def save_inputs(path: pathlib.Path, which: list[int]) -> None:
    arrays = {}
    for place, i in enumerate(which):
        query, key, value = SIZES[i].inputs(i)
        arrays |= {f"query{place}": query, f"key{place}": key, f"value{place}": value}
    np.savez(path, **arrays)


@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_loaded_by_keras(backend, converted, tmp_path):
    """load_model of .keras and load_weights of .weights.h5, in a process of their own: Keras has one
    backend for good. JAX's cannot have a value_dim of its own."""
    folder, expected = converted
    able = [i for i, s in enumerate(SIZES) if backend != "jax" or s.value_dim == s.key_dim]
    models = [(str(i), [i]) for i in able]
    if backend != "jax":
        models.append(("all", able))
    jobs = []
    for name, which in models:
        inputs = tmp_path / f"{name}.npz"
        save_inputs(inputs, which)
        sizes = [vars(SIZES[i]) for i in which]
        for extension, more in (("keras", {}), ("weights.h5", {"sizes": sizes})):
            jobs.append({
                "model": str(folder / f"{name}.{extension}"),
                "inputs": str(inputs),
                "output": str(tmp_path / f"{name}-{extension}-out.npz"),
                **more,
            })
    manifest = tmp_path / "jobs.json"
    manifest.write_text(json.dumps(jobs))
    script = pathlib.Path(__file__).with_name("run_keras.py")
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, script, manifest], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for (name, which), pair in zip(models, zip(jobs[::2], jobs[1::2])):
        for job in pair:
            with np.load(job["output"]) as file:
                outputs = [file[f"arr_{place}"] for place in range(len(which))]
            for i, output in zip(which, outputs):
                assert_same(output, expected[i])


def test_names_in_a_model(converted):
    """Names that PyTorch or TensorFlow would refuse are changed in the model and kept in the file."""
    import keras

    folder, _ = converted
    model = keras.saving.load_model(folder / "all.keras")
    names = [layer.name for layer in model.layers]
    assert [n for n in names if n[-1].isdigit()] == [f"encoder_layer_{i}" for i in range(len(SIZES))]
    assert [x.name for x in model.inputs[:3]] == [
        f"encoder_layer_0_{part}" for part in ("query", "value", "key")
    ]
    single = keras.saving.load_model(folder / "0.keras")
    assert single.get_layer("my_layer").num_heads == PLAIN.heads
    assert [x.name for x in single.inputs] == ["query", "value", "key"]
