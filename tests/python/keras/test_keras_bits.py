"""The same bits as headwise.MultiHeadAttention from numpy, whatever the batch, the padding and the mode.

Every backend is compared with numpy, so all of them have each other's bits.
"""

from __future__ import annotations

import os

import headwise as hw
import headwise.keras
import keras
import numpy as np
import pytest
from formulas import same_bits
from keras_support import BACKEND, numpy_of, random_weights

B, T, D = 8, 19, 24
GENERATOR = np.random.default_rng(7)
X = GENERATOR.standard_normal((B, T, D)).astype("float32")
LENGTHS = np.array([19, 3, 12, 19, 1, 12, 3, 19])  # few different ones: each is compiled for itself
VALID = np.arange(T) < LENGTHS[:, None]

KINDS = {
    "multi-head": (
        lambda: headwise.keras.MultiHeadAttention(3, 8),
        hw.AttentionConfig(num_heads=3, key_dim=8, query_features=D),
    ),
    "value_dim, output_shape, no bias": (
        lambda: headwise.keras.MultiHeadAttention(2, 8, value_dim=5, output_shape=17, use_bias=False),
        hw.AttentionConfig(num_heads=2, key_dim=8, value_dim=5, query_features=D, output_features=17, use_bias=False),
    ),
    "gate": (
        lambda: headwise.keras.MultiHeadAttention(3, 7, use_gate=True),
        hw.AttentionConfig(num_heads=3, key_dim=7, query_features=D, use_gate=True),
    ),
    "grouped": (
        lambda: headwise.keras.GroupQueryAttention(16, 4, 2, use_gate=True),
        hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=16, query_features=D, use_gate=True),
    ),
}  # fmt: skip


def both(kind: str):
    """Keras's layer, and numpy's with its weights."""
    make, config = KINDS[kind]
    layer = make()
    layer.build(X.shape, X.shape)
    layer.set_weights(random_weights(layer))
    weights = {"/".join(w.path.split("/")[-2:]): numpy_of(w.value) for w in layer.weights}
    return layer, hw.MultiHeadAttention(config, weights)


@pytest.mark.parametrize("kind", KINDS)
def test_is_numpy_s_bit_for_bit(kind):
    layer, plain = both(kind)
    r = plain.forward(X, mask=hw.causal() & hw.keep(VALID, hw.Axes.BatchKey), weights=hw.all_weights())
    output, scores = layer(X, X, value_mask=VALID, use_causal_mask=True, return_attention_scores=True)
    assert same_bits(numpy_of(output), r.output)
    assert same_bits(numpy_of(scores), r.weights)


@pytest.mark.parametrize("kind", KINDS)
def test_bits_depend_on_nothing_else(kind):
    layer, plain = both(kind)
    expected = [plain.forward(X[i : i + 1, :n]).output[0] for i, n in enumerate(LENGTHS)]
    padded = numpy_of(layer(X, X, value_mask=VALID))
    alone = [numpy_of(layer(X[i : i + 1, :n], X[i : i + 1, :n])) for i, n in enumerate(LENGTHS)]
    for i, n in enumerate(LENGTHS):
        assert same_bits(padded[i, :n], expected[i])
        assert same_bits(alone[i][0], expected[i])


@pytest.mark.parametrize("kind", ["gate", "grouped"])
def test_compiled_is_eager_bit_for_bit(kind):
    layer, _ = both(kind)
    inputs = keras.Input((T, D))
    model = keras.Model(inputs, layer(inputs, inputs, use_causal_mask=True))
    eager = numpy_of(layer(X, X, use_causal_mask=True))
    for batch in (1, 3, 8):
        assert same_bits(model.predict(X, batch_size=batch, verbose=0), eager)


def set_threads(threads: int | None) -> None:
    """Of the calls that the backend makes; None: as many as there are CPUs."""
    if BACKEND == "jax":
        headwise.jax.set_threads(threads)
    elif BACKEND == "torch":
        import torch

        torch.set_num_threads(threads or len(os.sched_getaffinity(0)))
    else:
        hw.set_default_context(None if threads is None else hw.Context(threads=threads))


def test_threads_change_no_bit():
    layer, plain = both("gate")
    long = np.concatenate([X] * 8, axis=1)  # enough work that it is shared
    expected = plain.forward(long, context=hw.Context(threads=1)).output
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            assert same_bits(numpy_of(layer(long, long)), expected)
    finally:
        set_threads(None)


def test_high_rank_inputs_are_sequences():
    """Attention along one of two axes is that of each row by itself."""
    layer = headwise.keras.MultiHeadAttention(2, 8, attention_axes=2)
    x = X.reshape(2, 4, T, D)
    layer.build(x.shape, x.shape)
    layer.set_weights(random_weights(layer))
    flat = headwise.keras.MultiHeadAttention(2, 8)
    flat.build(X.shape, X.shape)
    flat.set_weights(layer.get_weights())
    assert same_bits(numpy_of(layer(x, x)).reshape(B, T, D), numpy_of(flat(X, X)))


def test_dropout_is_numpy_s():
    """Counted from the seed generator's two numbers, so every backend drops the same."""
    layer = headwise.keras.MultiHeadAttention(3, 8, dropout=0.4, seed=77)
    layer.build(X.shape, X.shape)
    layer.set_weights(random_weights(layer))
    config = hw.AttentionConfig(num_heads=3, key_dim=8, query_features=D, dropout=0.4)
    weights = {"/".join(w.path.split("/")[-2:]): numpy_of(w.value) for w in layer.trainable_variables}
    plain = hw.MultiHeadAttention(config, weights)
    for draw in range(2):
        r = plain.forward(X, training=True, dropout_seed=(77 << 32) + draw)
        assert same_bits(numpy_of(layer(X, X, training=True)), r.output)
