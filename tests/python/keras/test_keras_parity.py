"""Outputs, scores and gradients against Keras's own layers, on the backend of this run."""

from __future__ import annotations

import keras
import numpy as np
import pytest
from formulas import assert_close, same_bits
from keras_support import GQA, MHA, differentiate, numpy_of, pair, results_and_gradients

B, T, S, D = 2, 5, 7, 12
PLAIN = {"num_heads": 3, "key_dim": 4}
GROUPED = {"head_dim": 4, "num_query_heads": 6, "num_key_value_heads": 2}


def keep(*shape: int) -> np.ndarray:
    """Half of the keys, and always key 0: where a row is empty, layers differ on purpose."""
    mask = np.random.default_rng(3).random(shape) < 0.5
    mask[..., 0] = True
    return mask


# kind, settings of the layer, shapes of query, value and perhaps key, options of the call
QV = ((B, T, D), (B, S, D))
CASES = {
    "plain": (MHA, PLAIN, QV, {}),
    "no bias": (MHA, {**PLAIN, "use_bias": False}, QV, {}),
    "value_dim > key_dim": (MHA, {**PLAIN, "value_dim": 9}, QV, {}),
    "value_dim < key_dim": (MHA, {**PLAIN, "value_dim": 1}, QV, {}),
    "key, other features": (MHA, PLAIN, ((B, T, D), (B, S, 5), (B, S, 3)), {}),
    "gate": (MHA, {**PLAIN, "value_dim": 2, "use_gate": True}, QV, {}),
    "gate, no bias": (MHA, {**PLAIN, "use_gate": True, "use_bias": False}, QV, {}),
    "output_shape": (MHA, {**PLAIN, "output_shape": 6}, QV, {}),
    "output_shape of two": (MHA, {**PLAIN, "output_shape": (2, 3)}, QV, {}),
    "causal": (MHA, PLAIN, QV, {"use_causal_mask": True}),
    "window": (MHA, {**PLAIN, "sliding_window": 2}, ((B, T, D), (B, T, D)), {}),
    "window, causal": (MHA, {**PLAIN, "sliding_window": 3}, ((B, T, D), (B, T, D)), {"use_causal_mask": True}),
    "mask (T,S)": (MHA, PLAIN, QV, {"attention_mask": keep(T, S)}),
    "mask (B,T,S)": (MHA, PLAIN, QV, {"attention_mask": keep(B, T, S)}),
    "mask (B,H,T,S), causal": (
        MHA, PLAIN, QV, {"attention_mask": keep(B, 3, T, S), "use_causal_mask": True}),
    "mask of numbers": (MHA, PLAIN, QV, {"attention_mask": keep(B, T, S).astype("int32")}),
    "value and key masks": (
        MHA, PLAIN, ((B, T, D), (B, S, D), (B, S, D)), {"value_mask": keep(B, S), "key_mask": keep(B, S)}),
    "axes: all of two": (MHA, PLAIN, ((B, 3, 4, D), (B, 2, 3, D)), {"attention_mask": keep(3, 4, 2, 3)}),
    "axes: the last": (MHA, {**PLAIN, "attention_axes": 2}, ((B, 3, 4, D), (B, 3, 2, D)), {}),
    "axes: the last, mask": (
        MHA, {**PLAIN, "attention_axes": -2}, ((B, 3, 4, D), (B, 3, 2, D)), {"attention_mask": keep(B, 3, 4, 2)}),
    "axes: the first, causal": (
        MHA, {**PLAIN, "attention_axes": 1, "use_gate": True}, ((B, 3, 4, D), (B, 3, 4, D)),
        {"use_causal_mask": True}),
    "axes: swapped": (
        MHA, {**PLAIN, "attention_axes": (3, 2), "value_dim": 2}, ((B, 2, 3, 4, D), (B, 2, 2, 3, D)),
        {"attention_mask": keep(B, 1, 4, 3, 3, 2)}),
    "grouped": (GQA, GROUPED, QV, {}),
    "grouped, one, no bias": (GQA, {**GROUPED, "num_key_value_heads": 1, "use_bias": False}, QV, {}),
    "grouped, gate, causal, window": (
        GQA, {**GROUPED, "use_gate": True, "sliding_window": 3}, ((B, T, D), (B, T, D)), {"use_causal_mask": True}),
    "grouped, masks": (
        GQA, GROUPED, QV,
        {"value_mask": keep(B, S), "attention_mask": keep(B, T, S), "query_mask": np.ones((B, T), bool)}),
}  # fmt: skip


def inputs_of(shapes) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(11)
    return {
        name: generator.standard_normal(shape).astype("float32")
        for name, shape in zip(("query", "value", "key"), shapes, strict=False)
    }


@pytest.mark.parametrize("case", CASES)
def test_computes_what_keras_computes(case):
    kind, settings, shapes, options = CASES[case]
    inputs = inputs_of(shapes)
    theirs, ours = pair(kind, settings, inputs)
    with_scores = {**options, "return_attention_scores": True}
    generator = np.random.default_rng(2)
    factors: list[np.ndarray] = []

    def loss(results):
        if not factors:
            factors.extend(generator.standard_normal(tuple(y.shape)).astype("float32") for y in results)
        return sum(keras.ops.sum(keras.ops.multiply(y, f)) for y, f in zip(results, factors, strict=True))

    # With scores: Keras on JAX refuses value_dim ≠ key_dim without, and it masks by another path.
    expected, expected_gradients = results_and_gradients(theirs, inputs, with_scores, loss)
    results, gradients = results_and_gradients(ours, inputs, with_scores, loss)
    for got, wanted in zip([*results, *gradients], [*expected, *expected_gradients], strict=True):
        assert_close(got, wanted, 5e-6)
    assert same_bits(numpy_of(ours(**inputs, **options)), results[0])


def test_gradients_without_scores_are_the_same_bits():
    inputs = inputs_of(QV)
    _, ours = pair(MHA, {**PLAIN, "value_dim": 6}, inputs)
    alone = differentiate(ours, inputs, {}, keras.ops.sum)
    beside = differentiate(ours, inputs, {"return_attention_scores": True}, lambda r: keras.ops.sum(r[0]))
    assert all(same_bits(a, b) for a, b in zip(alone, beside, strict=True))
