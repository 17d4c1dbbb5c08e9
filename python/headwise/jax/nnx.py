"""Flax nnx's attention module with Headwise's attention and projections.

>>> import flax.nnx, jax
>>> from headwise.jax import nnx
>>> layer = nnx.MultiHeadAttention(2, in_features=8, decode=False, rngs=flax.nnx.Rngs(0))
>>> layer(jax.numpy.ones((1, 3, 8))).shape
(1, 3, 8)
"""

from __future__ import annotations

from typing import Any

import flax.nnx

from headwise.jax._flax import attention_fn, project

__all__ = ["LinearGeneral", "MultiHeadAttention"]


class LinearGeneral(flax.nnx.LinearGeneral):
    """flax.nnx.LinearGeneral over the last axes, by Headwise's linear().

    >>> import flax.nnx, jax
    >>> from headwise.jax import nnx
    >>> nnx.LinearGeneral(8, (2, 4), rngs=flax.nnx.Rngs(0))(jax.numpy.ones((3, 8))).shape
    (3, 2, 4)
    """

    def __call__(self, inputs: Any, out_sharding: Any = None) -> Any:
        last = tuple(range(-len(self.axis), 0))
        plain = self.dot_general is None and self.dot_general_cls is None and not self.batch_axis
        if self.axis != last or not plain or out_sharding is not None:
            return super().__call__(inputs, out_sharding=out_sharding)
        bias = None if self.bias is None else self.bias[...]
        inputs, kernel, bias = self.promote_dtype((inputs, self.kernel[...], bias), dtype=self.dtype)
        return project(inputs, kernel, bias, len(self.axis))


class MultiHeadAttention(flax.nnx.MultiHeadAttention):
    """flax.nnx.MultiHeadAttention: the same arguments, parameters, masks, dropout and cache.

    >>> import flax.nnx, jax
    >>> from headwise.jax import nnx
    >>> layer = nnx.MultiHeadAttention(4, 8, num_kv_heads=2, decode=False, rngs=flax.nnx.Rngs(0))
    >>> layer.key.kernel.shape
    (8, 2, 2)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **{"attention_fn": attention_fn, **kwargs})
        for projection in (self.query, self.key, self.value, self.out):
            projection.__class__ = LinearGeneral  # the parameters are there already, and stay
