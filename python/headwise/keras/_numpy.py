"""The operators on numpy arrays, forward and backward, for backends that call Python."""

from __future__ import annotations

from typing import Any

import numpy as np

import headwise as hw

Array = np.ndarray


def seed_of(words: Array) -> int:
    """One number, of 63 bits, of the two that a Keras seed generator draws.

    >>> seed_of(np.array([1, 2], "uint32")) == (1 << 32) + 2
    True
    """
    high, low = (int(word) for word in words)
    return (high & 0x7FFFFFFF) << 32 | (low & 0xFFFFFFFF)


def forward(q: Array, k: Array, v: Array, keep: Array | None, seed: Array | None, options: Any) -> tuple[Array, ...]:
    """The output, what backward() needs of each row, and the weights if options ask for them.

    >>> from types import SimpleNamespace
    >>> x = np.ones((1, 3, 2, 4), "float32")
    >>> options = SimpleNamespace(scale=0.5, causal=True, window=None, dropout=0.0, weights=False)
    >>> [y.shape for y in forward(x, x, x, None, None, options)]
    [(1, 3, 2, 4), (1, 2, 3), (1, 2, 3)]
    """
    wanted = hw.all_weights() if options.weights else None
    r = hw.attention(q, k, v, weights=wanted, **_arguments(keep, seed, options))
    return (r.output, r.row_reference, r.row_sum, *((r.weights,) if options.weights else ()))


def backward(
    inputs: tuple[Array, Array, Array],
    results: tuple[Array, ...],
    gradients: tuple[Array, ...],
    keep: Array | None,
    seed: Array | None,
    options: Any,
) -> tuple[Array, Array, Array]:
    """Of query, key and value; results are forward()'s, gradients those of its output and of its weights.

    >>> from types import SimpleNamespace
    >>> x = np.ones((1, 3, 2, 4), "float32")
    >>> options = SimpleNamespace(scale=0.5, causal=True, window=None, dropout=0.0, weights=False)
    >>> results = forward(x, x, x, None, None, options)
    >>> [g.shape for g in backward((x, x, x), results, (x,), None, None, options)]
    [(1, 3, 2, 4), (1, 3, 2, 4), (1, 3, 2, 4)]
    """
    output, reference, total, *weights = results
    r = hw.AttentionResult.from_arrays(output, reference, total)
    g = hw.attention_backward(*inputs, r, gradients[0], **_arguments(keep, seed, options))
    if not weights or not gradients[1].any():
        return g.query, g.key, g.value
    through = _through_weights(inputs, (weights[0], reference, total), gradients[1], _arguments(keep, None, options))
    return g.query + through.query, g.key + through.key, g.value


def _through_weights(
    inputs: tuple[Array, Array, Array], results: tuple[Array, ...], gradient: Array, arguments: dict[str, Any]
) -> Any:
    """The weights are the output for values that are the identity matrix, so their gradient is that output's."""
    q, k, _ = inputs
    weights, reference, total = results
    sequences, keys, heads = k.shape[:3]
    identity = np.broadcast_to(np.eye(keys, dtype=np.float32)[None, :, None, :], (sequences, keys, heads, keys))
    r = hw.AttentionResult.from_arrays(weights.transpose(0, 2, 1, 3), reference, total)
    return hw.attention_backward(q, k, identity, r, gradient.transpose(0, 2, 1, 3), **arguments)


def _arguments(keep: Array | None, seed: Array | None, options: Any) -> dict[str, Any]:
    mask = hw.Mask() if keep is None else hw.keep(keep)
    if options.causal:
        mask = mask & hw.causal(hw.Alignment.TopLeft)
    if options.window is not None:
        mask = mask & hw.window(options.window - 1, options.window - 1) & hw.aligned(hw.Alignment.TopLeft)
    dropout = hw.Dropout(options.dropout, seed_of(seed)) if seed is not None else None
    return {"mask": mask, "scale": options.scale, "dropout": dropout}
