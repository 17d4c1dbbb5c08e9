"""attention_fn for Flax's modules, and their projections by Headwise's linear()."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from headwise.jax._functions import attention
from headwise.jax._linear import linear

Array = jax.Array


def _sow(module: Any, weights: Array) -> None:
    """Where the module's own API keeps what it shows of its inside."""
    from flax import linen, nnx

    collection = "intermediates" if isinstance(module, linen.Module) else nnx.Intermediate
    module.sow(collection, "attention_weights", weights)


def _promoted(arrays: tuple[Any, ...], dtype: Any) -> tuple[Array, ...]:
    """As Flax has it: to `dtype`, or to the type that can hold all of them and fractions."""
    if dtype is None:
        dtype = jnp.result_type(*arrays)
        if not jnp.issubdtype(dtype, jnp.inexact):
            dtype = jnp.promote_types(dtype, jnp.float32)
    return tuple(jnp.asarray(array, dtype) for array in arrays)


def attention_fn(
    query: Array,
    key: Array,
    value: Array,
    bias: Array | None = None,
    mask: Array | None = None,
    broadcast_dropout: bool = True,
    dropout_rng: Array | None = None,
    dropout_rate: float = 0.0,
    deterministic: bool = False,
    dtype: Any = None,
    precision: Any = None,
    module: Any = None,
    *,
    force_fp32_for_softmax: bool = False,
    promote_dtype: Callable[..., Any] | None = None,
    is_causal: bool = False,
    qk_attn_weights_einsum: Any = None,
    attn_weights_value_einsum: Any = None,
) -> Array:
    """flax.linen.dot_product_attention and flax.nnx.dot_product_attention, for the attention_fn of their
    modules. Grouped heads and value heads of another size work in both.

    Arithmetic is float32 whatever precision and force_fp32_for_softmax say. Dropout is Headwise's own,
    seeded from dropout_rng; with broadcast_dropout all sequences drop the same, but heads differ.

    >>> import flax.linen, headwise.jax, jax
    >>> layer = flax.linen.MultiHeadDotProductAttention(2, attention_fn=headwise.jax.attention_fn)
    >>> x = jax.numpy.ones((1, 3, 8))
    >>> layer.apply(layer.init(jax.random.key(0), x), x).shape
    (1, 3, 8)
    """
    if qk_attn_weights_einsum is not None or attn_weights_value_einsum is not None:
        raise ValueError(
            "[attention_fn] qk_attn_weights_einsum, attn_weights_value_einsum: expected None, got "
            "functions; headwise has no einsum that they could replace"
        )
    if promote_dtype is not None:
        query, key, value = promote_dtype((query, key, value), dtype=dtype)
    else:
        query, key, value = _promoted((query, key, value), dtype)
    seed = None
    if not deterministic and dropout_rate > 0.0:
        if dropout_rng is None:
            raise ValueError("[attention_fn] dropout_rng: expected a key, since dropout is on, got None")
        seed = jax.random.bits(dropout_rng, (2,), "uint32")
    made = attention(
        query, key, value,
        bias=bias,
        mask=None if mask is None else jnp.asarray(mask, bool),
        is_causal=is_causal,
        dropout_rate=0.0 if seed is None else dropout_rate,
        dropout_seed=seed,
        same_dropout_in_batch=broadcast_dropout,
        return_weights=module is not None,
    )
    if module is None:
        return made
    output, weights = made
    _sow(module, weights)
    return output


def project(inputs: Array, kernel: Array, bias: Array | None, axes: int) -> Array:
    """Flax's general dense layer over the last `axes` axes: the kernel is (in…, out…)."""
    split = inputs.ndim - axes
    features = kernel.shape[axes:]
    flat = inputs.reshape(*inputs.shape[:split], math.prod(inputs.shape[split:]))
    made = linear(
        flat,
        kernel.reshape(flat.shape[-1], math.prod(features)),
        None if bias is None else bias.reshape(math.prod(features)),
    )
    return made.reshape(*inputs.shape[:split], *features)
