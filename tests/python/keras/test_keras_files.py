"""Files: .keras and .weights.h5 of Headwise's layers and of Keras's are each other's."""

from __future__ import annotations

import subprocess
import sys

import headwise.keras
import keras
import numpy as np
import pytest
from formulas import assert_close, same_bits
from keras_support import BACKEND, numpy_of, random_weights

SEED = {"seed": 4, "dropout": 0.1}


def model_of(module) -> keras.Model:
    """A model of both layers, with masks, dropout and options that the files must carry."""
    tokens = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(10, 8, mask_zero=True)(tokens)
    x = module.MultiHeadAttention(2, 4, value_dim=3, use_gate=True, sliding_window=3, name="mine", **SEED)(x, x)
    x = module.GroupQueryAttention(4, 4, 2, kernel_regularizer="l2", name="grouped")(x, x, use_causal_mask=True)
    x = module.MultiHeadAttention(2, 4, attention_axes=1, output_shape=5, kernel_constraint="non_neg")(x, x)
    return keras.Model(tokens, x)


TOKENS = np.array([[1, 2, 3, 4, 5, 6], [7, 8, 9, 0, 0, 0]], "int32")
VALID = TOKENS != 0  # in the other rows everything is masked: there the layers differ on purpose


def filled(model: keras.Model) -> keras.Model:
    model.set_weights([np.abs(w) for w in random_weights(model)])
    return model


def kinds(model: keras.Model) -> list[type]:
    return [type(layer) for layer in model.layers if "ttention" in type(layer).__name__]


def computed(model: keras.Model) -> np.ndarray:
    return numpy_of(model(TOKENS))[VALID]


@pytest.mark.parametrize("way", ["ours to ours", "ours to Keras", "Keras to ours"])
def test_keras_files_go_both_ways(way, tmp_path):
    source, target = ((keras.layers if name == "Keras" else headwise.keras) for name in way.split(" to "))
    model = filled(model_of(source))
    model.save(tmp_path / "model.keras")
    exchange = headwise.keras.swap if target is headwise.keras else headwise.keras.swap_back
    loaded = exchange(keras.saving.load_model(tmp_path / "model.keras"))
    assert kinds(loaded) == [target.MultiHeadAttention, target.GroupQueryAttention, target.MultiHeadAttention]
    assert [w.path for w in loaded.weights] == [w.path for w in model.weights]
    assert loaded.get_layer("mine").get_config() == model.get_layer("mine").get_config()
    assert_close(computed(loaded), computed(model), 5e-6)


@pytest.mark.parametrize("way", ["ours to Keras", "Keras to ours"])
def test_weights_files_go_both_ways(way, tmp_path):
    source, target = ((keras.layers if name == "Keras" else headwise.keras) for name in way.split(" to "))
    model, other = filled(model_of(source)), model_of(target)
    model.save_weights(tmp_path / "model.weights.h5")
    other.load_weights(tmp_path / "model.weights.h5")
    for a, b in zip(model.get_weights(), other.get_weights(), strict=True):
        assert same_bits(a, b)


def test_our_files_need_no_custom_objects_beside_us(tmp_path):
    filled(model_of(headwise.keras)).save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded.get_layer("mine")) is headwise.keras.MultiHeadAttention


def test_swapped_layers_are_the_same_objects_and_bits():
    model, ours = filled(model_of(keras.layers)), filled(model_of(headwise.keras))
    before, layer = computed(model), model.get_layer("mine")
    model.compile(optimizer="sgd", loss="mse")
    model.predict(TOKENS, verbose=0)
    headwise.keras.swap(model)
    assert model.get_layer("mine") is layer
    assert same_bits(computed(model), computed(ours))
    assert same_bits(model.predict(TOKENS, verbose=0)[VALID], computed(ours))
    headwise.keras.swap_back(model)
    assert kinds(model) == kinds(model_of(keras.layers))
    assert same_bits(computed(model), before)


def test_swap_refuses_what_is_not_built():
    with pytest.raises(ValueError, match="not built"):
        headwise.keras.swap(keras.Sequential([keras.layers.MultiHeadAttention(2, 4)]))


@pytest.mark.parametrize("wrong", [3, headwise.keras.MultiHeadAttention])
def test_swap_refuses_what_is_no_layer(wrong):
    for exchange in (headwise.keras.swap, headwise.keras.swap_back):
        with pytest.raises(TypeError, match="`model` must be a Keras model or layer. Received: "):
            exchange(wrong)


REFUSED = "'mine' calls Headwise.* Call headwise.keras.swap_back"


@pytest.mark.skipif(BACKEND != "torch", reason="elsewhere other packages make ONNX files")
def test_onnx_is_refused_until_swapped_back(tmp_path):
    x = keras.Input((None, 8))
    model = keras.Model(x, headwise.keras.MultiHeadAttention(2, 4, name="mine")(x, x, use_causal_mask=True))
    model(np.ones((2, 6, 8), "float32"))  # Keras wants to have seen an input
    with pytest.raises(ValueError, match=REFUSED):
        model.export(tmp_path / "ours.onnx", format="onnx", verbose=False)
    assert not (tmp_path / "ours.onnx").exists()
    headwise.keras.swap_back(model).export(tmp_path / "theirs.onnx", format="onnx", verbose=False)
    assert (tmp_path / "theirs.onnx").exists()


@pytest.mark.skipif(BACKEND == "torch", reason="a SavedModel of torch is made by other packages")
def test_a_saved_model_is_refused_until_swapped_back(tmp_path):
    x = keras.Input((6, 8))
    model = keras.Model(x, headwise.keras.MultiHeadAttention(2, 4, name="mine")(x, x))
    with pytest.raises(ValueError, match=REFUSED):
        model.export(tmp_path / "ours", verbose=False)
    assert not (tmp_path / "ours" / "saved_model.pb").exists()
    headwise.keras.swap_back(model).export(tmp_path / "theirs", verbose=False)


def test_our_files_load_where_headwise_is_not_imported(tmp_path):
    path = tmp_path / "model.keras"
    model = filled(model_of(headwise.keras))
    model.save(path)
    program = f"""
import keras, sys
plain = {{"headwise>MultiHeadAttention": keras.layers.MultiHeadAttention,
          "headwise>GroupedQueryAttention": keras.layers.GroupQueryAttention}}
model = keras.saving.load_model({str(path)!r}, custom_objects=plain)
assert type(model.get_layer("mine")) is keras.layers.MultiHeadAttention
assert "headwise" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


@pytest.mark.parametrize("module", [keras.layers, headwise.keras], ids=["Keras", "ours"])
def test_a_loaded_model_begins_with_its_seed(module, tmp_path):
    """Keras's own too: docs/keras.md says so."""
    x = keras.Input((6, 8))
    model = keras.Model(x, module.MultiHeadAttention(2, 4, name="mine", **SEED)(x, x))
    first, second = (numpy_of(model(np.ones((1, 6, 8), "float32"), training=True)) for _ in range(2))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    again = numpy_of(loaded(np.ones((1, 6, 8), "float32"), training=True))
    assert same_bits(again, first) and not same_bits(again, second)


def test_models_are_cloned():
    model = filled(model_of(headwise.keras))
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    assert same_bits(computed(clone), computed(model))
    assert type(clone.get_layer("grouped")) is headwise.keras.GroupQueryAttention
