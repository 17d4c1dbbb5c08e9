"""The two operators that everything here is made of, and their gradients, as torch knows operators:
torch.ops.headwise.linear and torch.ops.headwise.attention.

Each has a fake kernel (shapes without numbers, for torch.compile and torch.export), a gradient and a
rule for vmap. They take float32; heads are the axis before the last: (B,T,H,d).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, List, Optional, Tuple  # noqa: UP035  custom_op reads these

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

import headwise
from headwise.torch._calls import Masks, check_device, context

# Which weights to return.
NO_WEIGHTS, PER_HEAD, AVERAGED = range(3)
REQUESTS = (None, headwise.all_weights(), headwise.averaged_weights())


def attention_options(
    masks: Masks, seed: Tensor | None, dropout: float, scale: float | None, softcap: float | None, tail: int
) -> dict[str, Any]:
    """Arguments that headwise.attention and headwise.attention_backward share."""
    dropped = None if seed is None else headwise.Dropout(dropout, int(seed))
    return {**masks.options(), "dropout": dropped, "scale": scale, "softcap": softcap,
            "unmasked_tail": tail, "context": context()}


def direct_attention(
    query: Tensor, key: Tensor, value: Tensor, weights: int, options: dict[str, Any]
) -> tuple[Tensor, headwise.AttentionResult, Tensor]:
    """Output, the library's result, weights (empty, if not asked for)."""
    output = query.new_empty(*query.shape[:3], value.shape[3])
    r = headwise.attention(query, key, value, weights=REQUESTS[weights], out=output, **options)
    return output, r, query.new_empty(0) if r.weights is None else torch.from_numpy(r.weights)


@torch.library.custom_op("headwise::linear", mutates_args=(), device_types="cpu")
def linear(input: Tensor, weight: Tensor, bias: Optional[Tensor]) -> Tensor:
    """input (…,in) · weight (out,in)ᵀ + bias (out)."""
    return torch.from_numpy(headwise.linear(input, weight.t(), bias, context=context()))


def _check_devices(operator: str, first: Tensor, *others: Tensor | None) -> None:
    """In fake kernels, which torch also calls when only some tensors have no numbers."""
    for other in others:
        if other is not None:
            check_device(operator, "arguments", other, first.device)


@linear.register_fake
def _(input, weight, bias):
    _check_devices("linear", input, weight, bias)
    return input.new_empty(*input.shape[:-1], weight.shape[0])


@torch.library.custom_op("headwise::linear_backward", mutates_args=(), device_types="cpu")
def linear_backward(input: Tensor, weight: Tensor, output_gradient: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """Gradients of input, weight and bias."""
    g = headwise.linear_backward(input, weight.t(), output_gradient, context=context())
    return torch.from_numpy(g.input), torch.from_numpy(g.kernel).t(), torch.from_numpy(g.bias)


@linear_backward.register_fake
def _(input, weight, output_gradient):
    _check_devices("linear_backward", input, weight, output_gradient)
    outputs, inputs = weight.shape
    return (input.new_empty(input.shape), weight.new_empty(inputs, outputs).t(), weight.new_empty(outputs))


def _keep_linear(ctx, inputs, output):
    input, weight, bias = inputs
    ctx.save_for_backward(input, weight)


def _differentiate_linear(ctx, output_gradient):
    input, weight = ctx.saved_tensors
    wants_input, wants_weight, wants_bias = ctx.needs_input_grad
    if not (wants_weight or wants_bias):  # frozen: the same numbers for a part of the work
        return linear(output_gradient, weight.t(), None), None, None
    gradients = linear_backward(input, weight, output_gradient)
    return tuple(g if wanted else None for g, wanted in zip(gradients, ctx.needs_input_grad, strict=True))


linear.register_autograd(_differentiate_linear, setup_context=_keep_linear)


@torch.library.custom_op("headwise::attention", mutates_args=(), device_types="cpu")
def attention(
    query: Tensor, key: Tensor, value: Tensor, keep: List[Tensor], bias: List[Tensor], seed: Optional[Tensor],
    dropout: float, causal: bool, scale: Optional[float], softcap: Optional[float], tail: int, weights: int,
) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    """Output (B,T,H,dv); two numbers per row, (B,H,T), for the gradient; weights, as asked for, or empty."""
    options = attention_options(Masks(keep, bias, causal), seed, dropout, scale, softcap, tail)
    output, r, matrix = direct_attention(query, key, value, weights, options)
    return output, torch.from_numpy(r.row_reference), torch.from_numpy(r.row_sum), matrix


@attention.register_fake
def _(query, key, value, keep, bias, seed, dropout, causal, scale, softcap, tail, weights):
    _check_devices("attention", query, key, value, *keep, *bias, seed)
    batch, queries, heads, _ = query.shape
    rows = (batch, heads, queries)
    matrix = {NO_WEIGHTS: (0,), PER_HEAD: (*rows, key.shape[1]), AVERAGED: (batch, queries, key.shape[1])}
    return (query.new_empty(batch, queries, heads, value.shape[3]), query.new_empty(rows),
            query.new_empty(rows), query.new_empty(matrix[weights]))


@torch.library.custom_op("headwise::attention_backward", mutates_args=(), device_types="cpu")
def attention_backward(
    query: Tensor, key: Tensor, value: Tensor, output: Tensor, row_reference: Tensor, row_sum: Tensor,
    output_gradient: Tensor, keep: List[Tensor], bias: List[Tensor], seed: Optional[Tensor], dropout: float,
    causal: bool, scale: Optional[float], softcap: Optional[float], tail: int, bias_gradient: bool,
) -> List[Tensor]:
    """Gradients of query, key and value, and if asked for of every bias."""
    options = attention_options(Masks(keep, bias, causal), seed, dropout, scale, softcap, tail)
    r = headwise.AttentionResult.from_arrays(output, row_reference, row_sum)
    g = headwise.attention_backward(query, key, value, r, output_gradient, bias_gradient=bias_gradient, **options)
    return [torch.from_numpy(array) for array in (g.query, g.key, g.value, *g.bias)]


@attention_backward.register_fake
def _(query, key, value, output, row_reference, row_sum, output_gradient, keep, bias, seed, dropout, causal,
      scale, softcap, tail, bias_gradient):
    _check_devices("attention_backward", query, key, value, output, row_reference, row_sum, output_gradient,
                   *keep, *bias, seed)
    return [x.new_empty(x.shape) for x in (query, key, value, *(bias if bias_gradient else ()))]


def _keep_attention(ctx, inputs, output):
    query, key, value, keep, bias, seed, *ctx.numbers, ctx.weights = inputs
    result, row_reference, row_sum, matrix = output
    # An empty matrix stands for none: nothing can come back through it.
    ctx.mark_non_differentiable(row_reference, row_sum, *([matrix] if ctx.weights == NO_WEIGHTS else []))
    ctx.set_materialize_grads(False)
    ctx.counts = len(keep), len(bias)
    ctx.save_for_backward(query, key, value, result, row_reference, row_sum, seed, *keep, *bias)


def _differentiate_attention(ctx, output_gradient, _reference, _sum, weights_gradient):
    saved = ctx.saved_tensors  # once: torch.utils.checkpoint computes them again, and gives them away once
    query, key, value, *result, seed = saved[:7]
    keeps, biases = ctx.counts
    keep, bias = list(saved[7 : 7 + keeps]), list(saved[7 + keeps :])
    wants_bias = any(ctx.needs_input_grad[4])
    dropout, *rest = ctx.numbers
    gradients = [None] * (3 + (biases if wants_bias else 0))
    if output_gradient is not None:
        gradients = attention_backward(query, key, value, *result, output_gradient, keep, bias, seed, dropout,
                                       *rest, wants_bias)
    if weights_gradient is not None:
        through = _through_weights(query, key, weights_gradient, ctx.weights, keep, bias, rest, wants_bias)
        gradients = [a if b is None else b if a is None else a + b
                     for a, b in zip(gradients, through, strict=True)]
    of_bias = list(gradients[3:]) if wants_bias else [None] * biases
    return (*gradients[:3], [None] * keeps, of_bias, None, None, None, None, None, None, None)


def _through_weights(query, key, gradient, request, keep, bias, numbers, wants_bias):
    """Weights are attention to the rows of the identity: so the same operator differentiates them."""
    batch, keys, kv_heads, _ = key.shape
    if request == AVERAGED:
        gradient = (gradient / query.shape[2]).unsqueeze(1)
    gradient = gradient.expand(batch, query.shape[2], -1, -1).transpose(1, 2)
    identity = torch.eye(keys, dtype=key.dtype, device=key.device)[None, :, None].expand(batch, -1, kv_heads, -1)
    result = attention(query, key, identity, keep, bias, None, 0.0, *numbers, NO_WEIGHTS)[:3]
    g = attention_backward(query, key, identity, *result, gradient, keep, bias, None, 0.0, *numbers, wants_bias)
    return [*g[:2], None, *g[3:]]


attention.register_autograd(_differentiate_attention, setup_context=_keep_attention)


def _refuse_second(ctx, *gradients):
    raise NotImplementedError("headwise.torch has no second derivatives")


for _backward in (linear_backward, attention_backward):
    _backward.register_autograd(_refuse_second)


def _one_by_one(operator: Callable[..., Any]) -> Callable[..., Any]:
    """vmap as a loop: each turn already uses all threads."""

    def rule(info, in_dims, *arguments):
        leaves, structure = pytree.tree_flatten(arguments)
        # in_dims has None for a whole list that is not mapped, or for an empty one.
        dims = pytree._broadcast_to_and_flatten(in_dims, structure)
        turns = []
        for i in range(info.batch_size):
            turn = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims, strict=True)]
            turns.append(operator(*pytree.tree_unflatten(turn, structure)))
        if isinstance(turns[0], Tensor):
            return torch.stack(turns), 0
        stacked = [torch.stack(parts) for parts in zip(*turns, strict=True)]
        made = type(turns[0])
        return made(stacked), made([0] * len(stacked))

    return rule


for _operator in (linear, linear_backward, attention, attention_backward):
    _operator.register_vmap(_one_by_one(_operator))
