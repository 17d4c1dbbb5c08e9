"""What differs on purpose: empty rows are 0, nothing masked leaks; and which masks count where."""

from __future__ import annotations

import warnings

import headwise.keras
import keras
import numpy as np
import pytest
from formulas import same_bits
from keras_support import GQA, MHA, differentiate, numpy_of, pair, random_weights

X = np.random.default_rng(1).standard_normal((2, 5, 8)).astype("float32")
LAYERS = {
    MHA: lambda **more: headwise.keras.MultiHeadAttention(2, 4, **more),
    GQA: lambda **more: headwise.keras.GroupQueryAttention(4, 2, 1, **more),
}


def built(kind: str, **more):
    layer = LAYERS[kind](**more)
    layer.build(X.shape, X.shape)
    layer.set_weights(random_weights(layer))
    return layer


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_a_row_with_nothing_to_attend_gives_the_output_bias(kind, gate):
    layer = built(kind, use_gate=gate)
    mask = np.ones((2, 5, 5), bool)
    mask[0, 2] = False
    mask[1] = False
    output, scores = (numpy_of(y) for y in layer(X, X, attention_mask=mask, return_attention_scores=True))
    bias = numpy_of(layer._output_dense.bias)
    for row in (output[0, 2], *output[1]):
        np.testing.assert_array_equal(row, bias)
    assert not scores[1].any() and not scores[0, :, 2].any()
    assert same_bits(numpy_of(layer(X, X, attention_mask=mask)), output)
    gradients = differentiate(layer, {"query": X, "value": X}, {"attention_mask": mask}, keras.ops.sum)
    assert not gradients[0][1].any() and not gradients[1][1].any()
    assert all(np.isfinite(g).all() for g in gradients)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("kind", LAYERS)
def test_nothing_masked_leaks(kind, gate):
    layer = built(kind, use_gate=gate)
    valid = np.array([[True] * 3 + [False] * 2, [True] * 5])
    dirty = X.copy()
    dirty[0, 3:] = np.nan
    options = {"value_mask": valid, "attention_mask": valid[:, :, None]}
    expected, got = (numpy_of(layer(x, x, **options)) for x in (X, dirty))
    assert same_bits(got, expected)

    def loss(output):
        return keras.ops.sum(output[:, :3])

    for g in differentiate(layer, {"query": dirty, "value": dirty}, options, loss):
        assert np.isfinite(g).all()


@pytest.mark.parametrize("kind", LAYERS)
def test_masks_that_tensors_carry_count(kind):
    tokens = np.array([[1, 2, 0, 0, 0], [3, 1, 2, 4, 1]])
    embedding = keras.layers.Embedding(5, 8, mask_zero=True)
    layer = built(kind)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        carried = layer(embedding(tokens), embedding(tokens))
    plain = numpy_of(embedding(tokens))
    keep = (tokens != 0)[:, None, :] & (tokens != 0)[:, :, None]
    assert same_bits(numpy_of(carried), numpy_of(layer(plain, plain, attention_mask=keep)))


def test_query_mask_counts_where_keras_counts_it():
    """MultiHeadAttention reads the mask that the query carries, GroupQueryAttention the argument."""
    valid = np.array([[True] * 3 + [False] * 2] * 2)
    for kind in LAYERS:
        settings = {"num_heads": 2, "key_dim": 4} if kind == MHA else {
            "head_dim": 4, "num_query_heads": 2, "num_key_value_heads": 1}  # fmt: skip
        theirs, ours = pair(kind, settings, {"query": X, "value": X})
        options = {"query_mask": valid, "return_attention_scores": True}
        emptied = [not numpy_of(layer(X, X, **options)[1])[:, :, 3:].any() for layer in (theirs, ours)]
        expected, got = emptied
        assert got == (kind == GQA)
        if kind == MHA:
            assert not expected


def test_a_nan_that_is_attended_spreads_to_its_rows_alone():
    layer = built(MHA)
    dirty = X.copy()
    dirty[0, 3] = np.nan
    output = numpy_of(layer(dirty, dirty, use_causal_mask=True))
    assert np.isnan(output[0, 3:]).all()
    assert np.isfinite(output[0, :3]).all() and np.isfinite(output[1]).all()
