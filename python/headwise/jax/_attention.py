"""Attention as an operator of JAX: one foreign function forward, one backward."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy

from headwise.jax._ffi import foreign_call, of_each_shard

SymbolicZero = jax.custom_derivatives.SymbolicZero


@dataclasses.dataclass(frozen=True)
class Options:
    """What is known when a function is traced; None: not given."""

    scale: float | None = None
    softcap: float | None = None
    left: int | None = None
    right: int | None = None
    dropout: float = 0.0
    same_dropout_in_batch: bool = False
    weights: bool = False


class Operands(NamedTuple):
    """Arrays of a call, of which all but the first three may be None."""

    query: Any  # (B, T, N, dk)
    key: Any  # (B, S, K, dk)
    value: Any  # (B, S, K, dv)
    bias: Any = None  # (B | 1, N | 1, T | 1, S | 1)
    mask: Any = None  # the same, bool
    query_lengths: Any = None  # (B), int32
    key_lengths: Any = None  # (B), int32
    dropout_seed: Any = None  # (2), uint32: the high and the low half


class Results(NamedTuple):
    output: Any  # (B, T, N, dv)
    log_sum_exp: Any  # (B, N, T)
    weights: Any = None  # (B, N, T, S)


def _attributes(options: Options, operands: Operands) -> dict[str, Any]:
    """For the handler, which knows an absent operand or option by its absence here."""
    attributes: dict[str, Any] = {
        f"has_{name}": True
        for name in ("bias", "mask", "query_lengths", "key_lengths")
        if getattr(operands, name) is not None
    }
    if operands.dropout_seed is not None:
        attributes["has_dropout"] = True
        attributes["dropout"] = numpy.float32(options.dropout)
        attributes["same_dropout_in_batch"] = options.same_dropout_in_batch
    for name in ("scale", "softcap"):
        if (number := getattr(options, name)) is not None:
            attributes[name] = numpy.float32(number)
    for name in ("left", "right"):
        if (count := getattr(options, name)) is not None:
            attributes[name] = numpy.int64(count)
    return attributes


def _choices(operands: Operands) -> list[Any]:
    return [operand for operand in operands[3:] if operand is not None]


def _call(options: Options, operands: Operands) -> Sequence[jax.Array]:
    batch, queries, heads, _ = operands.query.shape
    rows = (batch, heads, queries)
    shapes: list[tuple[int, ...]] = [
        (batch, queries, heads, operands.value.shape[-1]), rows, rows, rows
    ]
    if options.weights:
        shapes.append((*rows, operands.key.shape[1]))
    return foreign_call("headwise_attention", shapes)(
        *operands[:3], *_choices(operands), **_attributes(options, operands)
    )


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _attention(options: Options, operands: Operands) -> Results:
    output, log_sum_exp, _, _, *weights = _call(options, operands)
    return Results(output, log_sum_exp, *weights)


def _forward(options: Options, primals: Operands) -> tuple[Results, Any]:
    # A bias' gradient costs a pass of its own. A residual's shape is static, so it can carry the answer.
    bias_gradient = () if primals.bias is not None and primals.bias.perturbed else None
    operands = jax.tree.map(lambda primal: primal.value, primals)
    output, log_sum_exp, reference, total, *weights = _call(options, operands)
    results = Results(output, log_sum_exp, *weights)
    return results, (operands, results, (reference, total), bias_gradient)


def _backward(options: Options, residuals: Any, gradients: Results) -> tuple[Operands]:
    operands, results, rows, bias_gradient = residuals
    made = Operands(None, None, None)
    if not isinstance(gradients.output, SymbolicZero):
        made = _gradients(options, operands, results.output, rows, gradients.output, bias_gradient)
    if gradients.weights is not None and not isinstance(gradients.weights, SymbolicZero):
        beside = _gradients_of_weights(options, operands, results.weights, rows, gradients.weights,
                                       bias_gradient)
        made = Operands(*(a if b is None else b if a is None else a + b for a, b in zip(made, beside)))
    return (made,)


def _gradients(options: Options, operands: Operands, output: Any, rows: tuple[Any, Any], gradient: Any,
               bias_gradient: Any) -> Operands:
    shapes = [operand.shape for operand in operands[:3]]
    if bias_gradient is not None:
        shapes.append(operands.bias.shape)
    of_query, of_key, of_value, *of_bias = foreign_call("headwise_attention_backward", shapes)(
        *operands[:3], output, *rows, gradient, *_choices(operands), **_attributes(options, operands)
    )
    return Operands(of_query, of_key, of_value, of_bias[0] if of_bias else None)


def _gradients_of_weights(options: Options, operands: Operands, weights: Any, rows: tuple[Any, Any],
                          gradient: Any, bias_gradient: Any) -> Operands:
    """The weights, before dropout, are the output for values that are the identity matrix."""
    batch, keys, heads, _ = operands.key.shape
    eye = jnp.eye(keys, dtype=jnp.float32)
    identity = jnp.broadcast_to(eye[None, :, None, :], (batch, keys, heads, keys))
    made = _gradients(
        options, operands._replace(value=identity, dropout_seed=None), jnp.swapaxes(weights, 1, 2), rows,
        jnp.swapaxes(gradient, 1, 2), bias_gradient,
    )
    return made._replace(value=None)


_attention.defvjp(_forward, _backward, symbolic_zeros=True)


def _float32(array: Any) -> Any:
    return None if array is None else array.astype(jnp.float32)


def _folded(array: Any, batch: tuple[int, ...], size: int) -> Any:
    """(batch…, a, b, c), where every axis may be 1 or missing, as (B | 1, a, b, c)."""
    if array is None:
        return None
    array = array.reshape((1,) * (len(batch) + 3 - array.ndim) + array.shape)
    own = array.shape[-3:]
    if all(extent == 1 for extent in array.shape[:-3]):
        return array.reshape(1, *own)
    return jnp.broadcast_to(array, batch + own).reshape(size, *own)


# Compiled by itself, so that a call outside of jit is one dispatch.
@functools.partial(jax.jit, static_argnums=0)
def run(options: Options, operands: Operands, scale: Any = None) -> Results:
    """Of arrays with any batch axes, float32 or shorter; bias and mask broadcast against the scores.
    scale: instead of that of the options, a number that is known only when the call runs."""
    *batch, queries, heads, _ = operands.query.shape
    size = math.prod(batch)

    def lengths(array: Any) -> Any:
        return None if array is None else array.reshape(size)

    query, key, value = (
        _float32(array).reshape(size, *array.shape[-3:]) for array in operands[:3]
    )
    if scale is not None:
        # Into the query, where it is differentiated as well. Its bits are others than those of an option, which
        # multiplies what comes out of the product.
        query, options = query * _float32(scale), dataclasses.replace(options, scale=1.0)
    made = _attention(options, Operands(*of_each_shard((
        query, key, value,
        _folded(_float32(operands.bias), tuple(batch), size),
        _folded(operands.mask, tuple(batch), size),
        lengths(operands.query_lengths),
        lengths(operands.key_lengths),
        operands.dropout_seed,
    ))))
    dtype = operands.query.dtype
    shape = (*batch, queries, heads, operands.value.shape[-1])
    rows = (*batch, heads, queries)
    weights = made.weights
    if weights is not None:
        weights = weights.reshape(*rows, weights.shape[-1]).astype(dtype)
    log_sum_exp = jax.lax.stop_gradient(made.log_sum_exp).reshape(rows).astype(dtype)
    return Results(made.output.reshape(shape).astype(dtype), log_sum_exp, weights)
