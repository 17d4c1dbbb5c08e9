"""The operators on JAX: those of headwise.jax, and a sigmoid."""

from __future__ import annotations

import sys
from typing import Any

import jax
import jax.numpy as jnp

import headwise.jax
from headwise.jax import linear as linear
from headwise.jax._ffi import foreign_call

SUPPORTS_JIT = True


def in_export() -> bool:
    """Keras exports JAX's functions as TensorFlow's, by jax2tf: while a graph is made."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and tensorflow.inside_function()


@jax.custom_vjp
def sigmoid(x: jax.Array) -> jax.Array:
    return foreign_call("headwise_sigmoid", [x.shape])(x)[0]


def _sigmoid_forward(x: jax.Array) -> tuple[jax.Array, jax.Array]:
    y = sigmoid(x)
    return y, y


def _sigmoid_backward(y: jax.Array, dy: jax.Array) -> tuple[jax.Array]:
    # Where nothing comes back nothing goes on, even if the gate is NaN because its query was.
    return (jnp.where(dy == 0, dy, dy * y * (1.0 - y)),)


sigmoid.defvjp(_sigmoid_forward, _sigmoid_backward)


def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, keep: jax.Array | None, seed: jax.Array | None, options: Any
) -> tuple[jax.Array, jax.Array | None]:
    made = headwise.jax.attention(
        q,
        k,
        v,
        mask=keep,
        scale=options.scale,
        is_causal=options.causal,
        window=None if options.window is None else options.window - 1,
        dropout_rate=options.dropout if seed is not None else 0.0,
        dropout_seed=None if seed is None else _seed(seed),
        return_weights=options.weights,
    )
    return made if options.weights else (made, None)


def _seed(words: jax.Array) -> jax.Array:
    """As _numpy.seed_of() has it."""
    return words.astype(jnp.uint32) & jnp.array([0x7FFFFFFF, 0xFFFFFFFF], jnp.uint32)
