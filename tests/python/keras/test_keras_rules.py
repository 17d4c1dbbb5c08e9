"""Which code runs when: dtypes, quantised layers, subclasses, compilers; and what is refused, in which words."""

from __future__ import annotations

import os
import subprocess
import sys

import headwise.keras
import keras
import numpy as np
import pytest
from formulas import assert_close, same_bits
from keras_support import BACKEND, GQA, MHA, numpy_of, pair, random_weights

X = np.random.default_rng(1).standard_normal((2, 5, 8)).astype("float32")
SETTINGS = {
    MHA: {"num_heads": 2, "key_dim": 4, "use_gate": True},
    GQA: {"head_dim": 4, "num_query_heads": 2, "num_key_value_heads": 1, "use_gate": True},
}


def layers_of(kind: str, **more):
    return pair(kind, {**SETTINGS[kind], **more}, {"query": X, "value": X})


@pytest.mark.parametrize("kind", SETTINGS)
@pytest.mark.parametrize("policy, error", [("mixed_bfloat16", 0.02), ("float16", 0.003)])
def test_short_dtypes_are_computed_in_float32_and_rounded(kind, policy, error):
    exact, _ = layers_of(kind)
    theirs, ours = layers_of(kind, dtype=policy)
    output, scores = ours(X, X, return_attention_scores=True)
    assert {keras.backend.standardize_dtype(y.dtype) for y in (output, scores)} == {ours.compute_dtype}
    expected = numpy_of(exact(X, X))
    assert np.abs(numpy_of(output).astype("float32") - expected).max() < error


@pytest.mark.parametrize("kind", SETTINGS)
def test_float64_is_left_to_keras(kind):
    theirs, ours = layers_of(kind, dtype="float64")
    options = {"use_causal_mask": True, "return_attention_scores": True}
    for a, b in zip(theirs(X, X, **options), ours(X, X, **options), strict=True):
        assert same_bits(numpy_of(a), numpy_of(b))


@pytest.mark.parametrize("kind", SETTINGS)
def test_quantised_projections_are_keras_s(kind):
    outputs = []
    for layer in layers_of(kind):
        for dense in (layer._query_dense, layer._key_dense, layer._value_dense, layer._output_dense):
            dense.quantize("int8")
        outputs.append(numpy_of(layer(X, X, use_causal_mask=True, return_attention_scores=True)[0]))
    assert_close(outputs[1], outputs[0], 5e-6)


@pytest.mark.parametrize("kind", SETTINGS)
def test_a_subclass_s_own_attention_runs(kind):
    class Mean(getattr(headwise.keras, kind)):
        def _compute_attention(self, query, key, value, attention_mask=None, training=None, *more, **others):
            assert attention_mask is not None and tuple(key.shape) == tuple(query.shape)
            return keras.ops.repeat(keras.ops.mean(value, axis=1, keepdims=True), query.shape[1], axis=1), None

    layer = Mean(**{**SETTINGS[kind], "use_gate": False})
    output = numpy_of(layer(X, X, use_causal_mask=True))
    np.testing.assert_allclose(output, np.broadcast_to(output[:, :1], output.shape))


def test_whole_numbers_are_taken_as_float32():
    _, ours = layers_of(MHA)
    whole = np.arange(80).reshape(2, 5, 8) % 3
    assert same_bits(numpy_of(ours(whole, whole)), numpy_of(ours(whole.astype("float32"), whole.astype("float32"))))


def test_wrong_features_are_a_value_error():
    _, ours = layers_of(MHA, use_gate=False)
    with pytest.raises(ValueError, match=r"'query' was built for inputs whose last axes are \(8,\)"):
        ours(X[:, :, :5], X)


@pytest.mark.parametrize("kind", SETTINGS)
def test_inputs_that_do_not_fit_each_other_are_named_as_they_were_given(kind):
    _, ours = layers_of(kind)
    three = np.ones((3, 5, 8), "float32")
    with pytest.raises(ValueError, match=r"along axis 0. Received: query.shape=\(2, 5, 8\), value.shape=\(3, 5, 8\)"):
        ours(X, three)
    with pytest.raises(ValueError, match=r"`value` and `key` must be equal along axis 1. Received: .* key.shape=\(2, 4"):
        ours(X, X, X[:, :4])
    with pytest.raises(ValueError, match=r"as many axes as each other. Received: .* value.shape=\(2, 1, 5, 8\)"):
        ours(X, X[:, None])


@pytest.mark.skipif(BACKEND != "tensorflow", reason="tf.Variable is TensorFlow's alone")
@pytest.mark.parametrize("kind", SETTINGS)
def test_a_tf_variable_is_an_input(kind):
    import tensorflow as tf

    _, ours = layers_of(kind)
    variable, tensor = tf.Variable(X), tf.constant(X)
    gradients = []
    for x in (variable, tensor):
        with tf.GradientTape() as tape:
            tape.watch(x)
            output = ours(x, x)
        gradients.append(numpy_of(tf.convert_to_tensor(tape.gradient(output, x))))
        assert same_bits(numpy_of(output), numpy_of(ours(X, X)))
        assert same_bits(numpy_of(tf.function(ours)(x, x)), numpy_of(output))
    assert same_bits(*gradients)


def test_a_dropout_of_everything_is_refused_in_training():
    _, ours = layers_of(MHA, dropout=1.0)
    assert same_bits(numpy_of(ours(X, X)), numpy_of(layers_of(MHA)[1](X, X)))
    with pytest.raises(ValueError, match="`dropout` must be less than 1 in training. Received: dropout=1.0"):
        ours(X, X, training=True)


@pytest.mark.parametrize("shape", [(2, 5, 4), (3, 5, 5), (5,), (1, 2, 2, 5, 5)])
@pytest.mark.parametrize("kind", SETTINGS)
def test_masks_that_do_not_fit_are_a_value_error(kind, shape):
    _, ours = layers_of(kind)
    with pytest.raises(ValueError, match="mask"):
        ours(X, X, attention_mask=np.ones(shape, bool))


def test_positions_need_one_axis():
    layer = headwise.keras.MultiHeadAttention(2, 4)
    x = X.reshape(1, 2, 5, 8)
    with pytest.raises(ValueError, match="one axis"):
        layer(x, x, use_causal_mask=True)


def test_other_backends_are_refused():
    program = "import headwise.keras"
    environment = {**os.environ, "KERAS_BACKEND": "numpy"}
    run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode != 0
    assert "jax, torch, tensorflow; Keras uses 'numpy'" in run.stderr


def test_auto_chooses_a_compiler_that_can():
    inputs = keras.Input((5, 8))
    model = keras.Model(inputs, headwise.keras.MultiHeadAttention(2, 4)(inputs, inputs))
    model.compile(optimizer="sgd", loss="mse")
    assert model.jit_compile is (BACKEND == "jax")
    assert model.layers[1].supports_jit is (BACKEND != "tensorflow")


def test_second_derivatives_are_refused_not_wrong():
    _, layer = layers_of(MHA)
    x = keras.ops.convert_to_tensor(X)

    def function(x):
        return keras.ops.sum(layer(x, x) ** 2)

    with pytest.raises(Exception, match=r"(?i)deriv|autograd|differentiat|jvp"):
        SECOND[BACKEND](function, x)


def _second_by_tensorflow(function, x):
    import tensorflow as tf

    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = function(x)
        first = tf.reduce_sum(inner.gradient(y, x))
    return outer.gradient(first, x)


def _second_by_torch(function, x):
    import torch

    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(function(x), x, create_graph=True)
    return torch.autograd.grad(first.sum(), x)


def _second_by_jax(function, x):
    import jax

    return jax.grad(lambda x: jax.grad(function)(x).sum())(x)


SECOND = {"tensorflow": _second_by_tensorflow, "torch": _second_by_torch, "jax": _second_by_jax}


@pytest.mark.skipif(BACKEND != "torch", reason="torch.compile is torch's alone")
def test_torch_compiles_the_layer(recwarn):
    import torch

    _, layer = layers_of(MHA, sliding_window=3)
    x = torch.from_numpy(X)

    def function(x):
        return layer(x, x, use_causal_mask=True)

    compiled = torch.compile(function, backend="aot_eager")
    gradients = []
    for f in (function, compiled):
        leaf = x.clone().requires_grad_()
        output = f(leaf)
        gradients.append((output.detach().numpy(), torch.autograd.grad(output.sum(), leaf)[0].numpy()))
    assert not [str(warning.message) for warning in recwarn if "lru_cache" in str(warning.message)]
    assert all(same_bits(a, b) for a, b in zip(*gradients, strict=True))


def test_same_layer_on_two_threads():
    from concurrent.futures import ThreadPoolExecutor

    layer = headwise.keras.MultiHeadAttention(2, 4)
    layer.build(X.shape, X.shape)
    layer.set_weights(random_weights(layer))
    expected = numpy_of(layer(X, X))
    with ThreadPoolExecutor(4) as pool:
        for output in pool.map(lambda _: numpy_of(layer(X, X)), range(16)):
            assert same_bits(output, expected)
