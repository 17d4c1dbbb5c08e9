"""What the tests of headwise.jax share: comparisons, and attention as its formula says, in float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np


def same_bits(a, b) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def assert_same_bits(ours, expected) -> None:
    """Of two trees of arrays."""
    assert jax.tree.structure(ours) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(expected)):
        assert same_bits(a, b), f"largest difference {np.abs(np.asarray(a) - np.asarray(b)).max()}"


def assert_close(ours, expected, error: float = 5e-6) -> None:
    """Within `error` of the largest number of all, for trees of arrays. (A key bias' gradient is 0, as
    a sum of numbers as large as the other gradients.)"""
    assert jax.tree.structure(ours) == jax.tree.structure(expected)
    ours, expected = ([np.asarray(array, np.float64) for array in jax.tree.leaves(tree)]
                      for tree in (ours, expected))
    size = max(1.0, *(np.abs(array).max(initial=0) for array in expected))
    for a, b in zip(ours, expected):
        assert a.shape == b.shape
        np.testing.assert_allclose(a, b, rtol=0, atol=error * size)


def formula(query, key, value, bias=None, *, keep=True, scale=None, softcap=None):
    """(B,T,N,dk), (B,S,K,dk), (B,S,K,dv) → (B,T,N,dv); empty rows are 0."""
    group = query.shape[2] // key.shape[2]
    key, value = jnp.repeat(key, group, 2), jnp.repeat(value, group, 2)
    scores = jnp.einsum("btnh,bsnh->bnts", query, key)
    scores = scores * (query.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * jnp.tanh(scores / softcap)
    scores = scores if bias is None else scores + bias
    keep = jnp.broadcast_to(keep, scores.shape)
    weights = jax.nn.softmax(jnp.where(keep, scores, -1e300), axis=3) * keep
    return jnp.einsum("bnts,bsnh->btnh", weights, value)


def formula_gradients(weighted_by, *arrays, **options):
    """Gradients of Σ output·weighted_by, in float64."""
    with jax.enable_x64(True):
        double = [jnp.asarray(array, jnp.float64) for array in arrays]
        return jax.grad(
            lambda *given: (formula(*given, **options) * weighted_by).sum(), tuple(range(len(double)))
        )(*double)
