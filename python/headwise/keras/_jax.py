"""The operators on JAX: those of headwise.jax, a sigmoid, and the gradient through attention weights."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

import headwise.jax
from headwise.jax import linear as linear
from headwise.jax._ffi import foreign_call

SUPPORTS_JIT = True


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
        **_arguments(options),
        mask=keep,
        dropout_rate=options.dropout if seed is not None else 0.0,
        dropout_seed=None if seed is None else _seed(seed),
        return_weights=options.weights,
    )
    if not options.weights:
        return made, None
    return made[0], _differentiable(options, q, k, keep, made[1])


def _seed(words: jax.Array) -> jax.Array:
    """As _numpy.seed_of() has it."""
    return words.astype(jnp.uint32) & jnp.array([0x7FFFFFFF, 0xFFFFFFFF], jnp.uint32)


def _arguments(options: Any) -> dict[str, Any]:
    window = None if options.window is None else options.window - 1
    return {"scale": options.scale, "is_causal": options.causal, "window": window}


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _differentiable(options: Any, q: Any, k: Any, keep: Any, weights: jax.Array) -> jax.Array:
    """The weights, which are constants to headwise.jax, with their gradient."""
    return weights


def _differentiable_forward(options: Any, q: Any, k: Any, keep: Any, weights: jax.Array) -> tuple[jax.Array, Any]:
    return weights, (q, k, keep)


def _differentiable_backward(options: Any, residuals: Any, gradient: jax.Array) -> tuple[Any, ...]:
    q, k, keep = residuals
    sequences, keys, heads = k.shape[:3]
    # The weights are the output for values that are the identity matrix, so their gradient is that output's.
    identity = jnp.broadcast_to(jnp.eye(keys)[None, :, None, :], (sequences, keys, heads, keys))
    _, pull = jax.vjp(lambda q, k: headwise.jax.attention(q, k, identity, mask=keep, **_arguments(options)), q, k)
    return (*pull(gradient.transpose(0, 2, 1, 3)), None, None)


_differentiable.defvjp(_differentiable_forward, _differentiable_backward)
