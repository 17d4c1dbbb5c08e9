"""torch.nn.functional.scaled_dot_product_attention, by Headwise."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.torch import _operators
from headwise.torch._calls import (
    Masks,
    check_mask,
    checked_dropout,
    checked_scale,
    common_dtype,
    expected,
    is_plain,
    is_traced,
    refuse_transforms,
)

_NAME = "scaled_dot_product_attention"


def attend(
    query: Tensor, key: Tensor, value: Tensor, masks: Masks, *, dropout: float = 0.0, scale: float | None = None,
    softcap: float | None = None, tail: int = 0, weights: int = _operators.NO_WEIGHTS,
) -> tuple[Tensor, Tensor | None]:
    """Heads (B,T,H,d) of float32 → output (B,T,H,dv) and weights, by the operator or directly."""
    # Drawn from torch's generator, so that torch.manual_seed decides what is dropped.
    seed = torch.randint(2**62, (), device=query.device) if dropout > 0 else None
    direct = not is_traced() and all(map(is_plain, (query, key, value))) and masks.is_plain()
    if not direct:
        refuse_transforms((query, key, value, *masks.bias))
        output, _, _, matrix = torch.ops.headwise.attention(
            query, key, value, masks.keep, masks.bias, seed, dropout, masks.causal, scale, softcap, tail, weights)
    else:
        options = _operators.attention_options(masks, seed, dropout, scale, softcap, tail)
        output, _, matrix = _operators.direct_attention(query, key, value, weights, options)
    return output, None if weights == _operators.NO_WEIGHTS else matrix


def project(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """input (…,in) · weight (out,in)ᵀ + bias (out), in float32."""
    refuse_transforms((input, weight, bias))
    bias = None if bias is None else bias.float()
    return torch.ops.headwise.linear(input.float(), weight.float(), bias)


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, *, scale: float | None = None, enable_gqa: bool = False,
) -> Tensor:
    """query (…,Hq,T,d), key (…,Hkv,S,d), value (…,Hkv,S,dv) → (…,Hq,T,dv), as torch's own computes it.

    attn_mask: of any shape that broadcasts to (…,Hq,T,S); of bool, True = attend, or of float, added.
    is_causal: no key after the query, counted from the first of each; beside attn_mask both hold.
    docs/torch.md lists where this deliberately differs.

    >>> import headwise.torch, torch
    >>> x = torch.ones(2, 8, 5, 64)
    >>> headwise.torch.scaled_dot_product_attention(x, x, x, is_causal=True).shape
    torch.Size([2, 8, 5, 64])
    """
    dtype = common_dtype(_NAME, {"query": query, "key": key, "value": value})
    shapes = _Shapes(query, key, value, enable_gqa)
    pairs = ((query, shapes.query), (key, shapes.key), (value, shapes.value))
    q, k, v = (_rank_4(x.float().expand(shape)).transpose(1, 2) for x, shape in pairs)
    if k.shape[2] != v.shape[2]:  # both divide the query's heads
        heads = math.lcm(k.shape[2], v.shape[2])
        k, v = (x.repeat_interleave(heads // x.shape[2], dim=2) for x in (k, v))
    masks = Masks(causal=is_causal)
    if attn_mask is not None:
        check_mask(_NAME, "attn_mask", attn_mask, query.device)
        masks.add(shapes.rank_4(attn_mask), keeps=True)
    output, _ = attend(q, k, v, masks, dropout=checked_dropout(_NAME, "dropout_p", dropout_p),
                       scale=checked_scale(_NAME, "scale", scale))
    return output.transpose(1, 2).reshape(*shapes.query[:-1], value.shape[-1]).to(dtype)


class _Shapes:
    """The shapes of the three arguments after broadcasting, checked."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, grouped: bool) -> None:
        for name, x in (("query", query), ("key", key), ("value", value)):
            if x.dim() < (3 if grouped else 2):
                raise RuntimeError(expected(_NAME, name, "axes (…,H,T,d)", f"shape {tuple(x.shape)}"))
        if key.shape[-1] != query.shape[-1]:
            raise RuntimeError(expected(_NAME, "key", f"a last axis of {query.shape[-1]}, as query has",
                                        f"shape {tuple(key.shape)}"))
        if value.shape[-2] != key.shape[-2]:
            raise RuntimeError(expected(_NAME, "value", f"{key.shape[-2]} positions, as key has",
                                        f"shape {tuple(value.shape)}"))
        own = -3 if grouped else -2  # axes that are not broadcast
        try:
            batch = torch.broadcast_shapes(query.shape[:own], key.shape[:own], value.shape[:own])
        except RuntimeError:
            shapes = [tuple(x.shape) for x in (query, key, value)]
            raise RuntimeError(expected(_NAME, "key, value", "batch axes that broadcast to query's", shapes)) from None
        if grouped and any(x.shape[-3] == 0 or query.shape[-3] % x.shape[-3] != 0 for x in (key, value)):
            raise RuntimeError(expected(_NAME, "key, value", f"heads that divide query's {query.shape[-3]}",
                                        f"{key.shape[-3]} and {value.shape[-3]}"))
        self.query, self.key, self.value = (torch.Size((*batch, *x.shape[own:])) for x in (query, key, value))

    def rank_4(self, mask: Tensor) -> Tensor:
        """A mask that broadcasts to (…,H,T,S) as (B,H,T,S), with 1 where it is broadcast."""
        scores = (*self.query[:-1], self.key[-2])
        fits = mask.dim() <= len(scores) and all(
            m in (1, s) for m, s in zip(reversed(mask.shape), reversed(scores), strict=False))
        if not fits:
            raise RuntimeError(expected(_NAME, "attn_mask", f"a shape that broadcasts to {tuple(scores)}",
                                        f"shape {tuple(mask.shape)}"))
        if len(scores) > 4 and mask.dim() > 3:  # several axes become the batch
            mask = mask.expand(*scores[:-3], -1, -1, -1)
        return _rank_4(mask)


def _rank_4(x: Tensor) -> Tensor:
    return x.flatten(0, -4) if x.dim() > 4 else x[(None,) * (4 - x.dim())]
