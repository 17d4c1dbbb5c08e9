"""The operators on torch: those of headwise.torch, and a sigmoid."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.torch import _operators
from headwise.torch._calls import context

SUPPORTS_JIT = True

in_export = torch.onnx.is_in_onnx_export


def linear(x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    return _operators.linear(x, kernel.t(), bias)


@torch.library.custom_op("headwise::sigmoid", mutates_args=(), device_types="cpu")
def sigmoid(x: Tensor) -> Tensor:
    """1/(1 + e⁻ˣ) of every number."""
    return torch.from_numpy(hw.sigmoid(x, context=context()))


@sigmoid.register_fake
def _(x):
    return x.new_empty(x.shape)


def _differentiate_sigmoid(ctx, dy):
    (y,) = ctx.saved_tensors
    # Where nothing comes back nothing goes on, even if the gate is NaN because its query was.
    return torch.where(dy == 0, dy, dy * y * (1.0 - y))


sigmoid.register_autograd(
    _differentiate_sigmoid, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output)
)
sigmoid.register_vmap(lambda info, in_dims, x: (sigmoid(x), in_dims[0]))


def attention(
    q: Tensor, k: Tensor, v: Tensor, keep: Tensor | None, seed: Tensor | None, options: Any
) -> tuple[Tensor, Tensor | None]:
    kept = [] if keep is None else [keep]
    if options.window is not None:
        kept.append(_band(q.shape[1], k.shape[1], options.window))
    request = _operators.PER_HEAD if options.weights else _operators.NO_WEIGHTS
    output, _, _, weights = _operators.attention(
        q, k, v, kept, [], None if seed is None else _one_number(seed), options.dropout, options.causal,
        options.scale, None, 0, request,
    )  # fmt: skip
    return output, weights if options.weights else None


def _band(queries: int, keys: int, window: int) -> Tensor:
    distance = torch.arange(queries)[:, None] - torch.arange(keys)[None, :]
    return (distance.abs() < window)[None, None]


def _one_number(words: Tensor) -> Tensor:
    """Of the two that a Keras seed generator draws, as _numpy.seed_of() has it."""
    high, low = words.to(torch.int64)
    return (high & 0x7FFFFFFF) << 32 | (low & 0xFFFFFFFF)
