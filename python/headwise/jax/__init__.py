"""Headwise in JAX: attention and linear maps that jit, grad, vmap and checkpoint know.

    headwise.jax.dot_product_attention   as jax.nn.dot_product_attention
    headwise.jax.attention_fn            for Flax's own attention modules
    headwise.jax.linen, headwise.jax.nnx Flax modules with Headwise's projections as well

>>> import headwise.jax, jax
>>> x = jax.numpy.ones((2, 3, 8, 64))
>>> jax.jit(headwise.jax.dot_product_attention)(x, x, x).shape
(2, 3, 8, 64)
"""

from headwise.jax._ffi import set_threads
from headwise.jax._flax import attention_fn
from headwise.jax._functions import attention, dot_product_attention
from headwise.jax._linear import linear

__all__ = ["attention", "attention_fn", "dot_product_attention", "linear", "set_threads"]
