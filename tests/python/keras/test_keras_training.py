"""model.fit: the loss goes down, step by step as with Keras's own layers; dropout; regularisers; LoRA."""

from __future__ import annotations

import contextlib

import headwise.keras
import keras
import numpy as np
import pytest
from formulas import same_bits
from keras_support import BACKEND, differentiate, numpy_of, random_weights

# "auto" is jax.jit on JAX, a graph on TensorFlow, and eager on torch, for which test_keras_rules.py has a test.
MODES = {"eager": {"run_eagerly": True}, "compiled": {"jit_compile": "auto"}}


def task() -> tuple[np.ndarray, np.ndarray]:
    """Sequences of tokens with their places; the target is the token that stands after the marker 1."""
    generator = np.random.default_rng(0)
    tokens = generator.integers(2, 8, (64, 6))
    place = generator.integers(0, 5, 64)
    tokens[np.arange(64), place] = 1
    return tokens + 8 * np.arange(6), tokens[np.arange(64), place + 1]


def model_of(module, value_dim: int = 6, **settings) -> keras.Model:
    tokens = keras.Input((6,), dtype="int32")
    x = keras.layers.Embedding(48, 16, mask_zero=True)(tokens)
    x = module.MultiHeadAttention(2, 8, value_dim, use_gate=True, **settings)(x, x)
    x = module.GroupQueryAttention(4, 4, 2)(x, x, use_causal_mask=True)
    x = keras.layers.Dense(8)(x[:, -1])
    model = keras.Model(tokens, x)
    model.set_weights(random_weights(model))
    return model


def losses(module, mode: dict, epochs: int = 6, **settings) -> list[float]:
    model = model_of(module, **settings)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, **mode)
    return model.fit(*task(), batch_size=32, epochs=epochs, shuffle=False, verbose=0).history["loss"]


@pytest.mark.parametrize("mode", MODES)
def test_fit_goes_as_with_keras(mode):
    value_dim = 8 if BACKEND == "jax" else 6  # Keras refuses value_dim ≠ key_dim there
    ours, theirs = (losses(module, MODES[mode], value_dim=value_dim) for module in (headwise.keras, keras.layers))
    assert ours[-1] < 0.8 * ours[0]
    assert ours == pytest.approx(theirs, abs=2e-5)


def test_fit_with_value_dim_other_than_key_dim():
    with_6 = losses(headwise.keras, MODES["compiled"], value_dim=6)
    assert with_6[-1] < 0.8 * with_6[0]


def test_fit_with_dropout_repeats_itself_and_learns():
    first, second = (losses(headwise.keras, MODES["compiled"], dropout=0.2, seed=3) for _ in range(2))
    assert first == second
    assert first[-1] < 0.9 * first[0]


@pytest.mark.skipif(BACKEND == "tensorflow", reason="there Keras's own layer cannot be rematerialised in a graph")
@pytest.mark.parametrize("kind, sizes", [("MultiHeadAttention", (2, 4)), ("GroupQueryAttention", (4, 2, 1))])
def test_fit_with_rematerialisation_changes_nothing(kind, sizes):
    def losses_in(scope) -> list[float]:
        inputs = keras.Input((5, 8))
        with scope:
            model = keras.Model(inputs, getattr(headwise.keras, kind)(*sizes)(inputs, inputs))
        model.set_weights(random_weights(model))
        model.compile(optimizer="sgd", loss="mse")
        return model.fit(X, X, epochs=2, shuffle=False, verbose=0).history["loss"]

    assert losses_in(keras.RematScope(mode="full")) == losses_in(contextlib.nullcontext())


def test_predict_is_the_eager_call_bit_for_bit():
    model, (tokens, _) = model_of(headwise.keras), task()
    model.compile()
    direct = numpy_of(model(tokens))
    before = keras.Model(model.input, model.layers[-1].input)  # the last layer is the backend's own
    assert same_bits(before.predict(tokens, batch_size=7, verbose=0), numpy_of(before(tokens)))
    assert np.allclose(model.predict(tokens, verbose=0), direct, atol=1e-5)


X = np.random.default_rng(1).standard_normal((2, 5, 8)).astype("float32")


def test_dropout_is_drawn_from_the_seed_and_scores_are_those_before_it():
    def layer(seed):
        made = headwise.keras.MultiHeadAttention(2, 4, dropout=0.5, seed=seed)
        made.build(X.shape, X.shape)
        made.set_weights(random_weights(made))
        return made

    first, same, other = layer(1), layer(1), layer(2)
    a, scores = (numpy_of(y) for y in first(X, X, training=True, return_attention_scores=True))
    assert same_bits(a, numpy_of(same(X, X, training=True)))
    assert not np.array_equal(a, numpy_of(other(X, X, training=True)))
    assert not np.array_equal(a, numpy_of(first(X, X, training=True)))  # the next draw
    still, still_scores = (numpy_of(y) for y in first(X, X, return_attention_scores=True))
    assert same_bits(scores, still_scores)
    many = np.repeat(X[:1], 500, axis=0)  # every sequence of a batch drops others
    mean = numpy_of(first(many, many, training=True)).mean(0)
    assert np.abs(mean - still[0]).max() < 0.15
    np.testing.assert_allclose(scores.sum(-1), 1, atol=1e-5)


def test_dropout_is_the_same_backward_as_forward():
    """With one key, dropping is all or nothing: the gradient of a value is that of a kept weight, doubled."""
    layer = headwise.keras.MultiHeadAttention(1, 4, dropout=0.5, seed=5, use_bias=False)
    one = X[:, :1]
    layer.build(X.shape, one.shape)
    layer.set_weights(random_weights(layer))
    outputs = []

    def loss(y):
        outputs.append(y)
        return keras.ops.sum(y)

    gradients = differentiate(layer, {"query": X, "value": one}, {"training": True}, loss)
    if BACKEND == "jax":  # traced: ask a layer of the same seed
        again = headwise.keras.MultiHeadAttention.from_config(layer.get_config())
        again.build(X.shape, one.shape)
        again.set_weights(layer.get_weights())
        outputs = [again(X, one, training=True)]
    kept = np.any(numpy_of(outputs[0]) != 0, axis=-1)
    assert 0 < kept.sum() < kept.size
    full = differentiate(layer, {"query": X, "value": one}, {}, keras.ops.sum)
    share = 2.0 * kept.sum(1) / X.shape[1]
    np.testing.assert_allclose(gradients[1], full[1] * share[:, None, None], rtol=1e-5, atol=1e-6)


def test_losses_of_regularisers_are_keras_s():
    settings = {"num_heads": 2, "key_dim": 4, "use_gate": True, "kernel_regularizer": "l2", "bias_regularizer": "l1",
                "activity_regularizer": "l2"}  # fmt: skip
    sums = []
    for module in (keras.layers, headwise.keras):
        layer = module.MultiHeadAttention(**settings)
        layer.build(X.shape, X.shape)
        layer.set_weights(random_weights(layer))
        layer(X, X)
        sums.append([float(numpy_of(loss)) for loss in layer.losses])
    assert sums[1] == pytest.approx(sums[0], rel=1e-5)
    assert len(sums[1]) > 10
