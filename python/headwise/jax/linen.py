"""Flax linen's attention module with Headwise's attention and projections.

>>> import jax
>>> from headwise.jax import linen
>>> layer = linen.MultiHeadDotProductAttention(num_heads=2)
>>> x = jax.numpy.ones((1, 3, 8))
>>> layer.apply(layer.init(jax.random.key(0), x), x).shape
(1, 3, 8)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen
from flax.core import meta

from headwise.jax._flax import attention_fn, project

__all__ = ["MultiHeadAttention", "MultiHeadDotProductAttention"]


def _axes(dense: flax.linen.DenseGeneral, inputs: Any) -> int | None:
    """How many of the last axes the layer maps; None if it is not one of attention's projections."""
    axes = (dense.axis,) if isinstance(dense.axis, int) else tuple(dense.axis)
    last = tuple(range(-len(axes), 0))
    plain = dense.dot_general is None and dense.dot_general_cls is None and not dense.batch_dims
    return len(axes) if axes == last and plain and inputs.ndim > len(axes) else None


def _project(next_call: Callable[..., Any], args: Any, kwargs: Any, context: Any) -> Any:
    """A DenseGeneral within the module maps by Headwise's linear(); everything else is Flax's own."""
    dense = context.module
    if type(dense) is not flax.linen.DenseGeneral or context.method_name != "__call__":
        return next_call(*args, **kwargs)
    inputs, = args
    axes = _axes(dense, inputs)
    if axes is None:
        return next_call(*args, **kwargs)
    if not dense.has_variable("params", "kernel"):
        next_call(*args, **kwargs)  # makes the parameters, as Flax would
    params = meta.unbox(dense.variables["params"])
    promote: Any = dense.promote_dtype
    inputs, kernel, bias = promote(inputs, params["kernel"], params.get("bias"), dtype=dense.dtype)
    return project(inputs, kernel, bias, axes)


class MultiHeadDotProductAttention(flax.linen.MultiHeadDotProductAttention):
    """flax.linen.MultiHeadDotProductAttention: the same arguments, parameters, masks, dropout and cache.

    >>> import jax
    >>> from headwise.jax import linen
    >>> layer = linen.MultiHeadDotProductAttention(num_heads=2, qkv_features=16)
    >>> variables = layer.init(jax.random.key(0), jax.numpy.ones((1, 3, 8)))
    >>> jax.tree.map(jax.numpy.shape, variables["params"]["query"])
    {'bias': (2, 8), 'kernel': (8, 2, 8)}
    """

    attention_fn: Callable[..., Any] = attention_fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with flax.linen.intercept_methods(_project):
            return super().__call__(*args, **kwargs)


class MultiHeadAttention(MultiHeadDotProductAttention):
    """The same by Flax's other name for it, which decides what unnamed layers are called.

    >>> from headwise.jax import linen
    >>> linen.MultiHeadAttention(num_heads=2).num_heads
    2
    """
