"""torch.nn.MultiheadAttention, by Headwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import headwise
from headwise.torch import _operators
from headwise.torch._calls import (
    Masks,
    check_mask,
    common_dtype,
    context,
    expected,
    is_plain_float32,
    is_watched,
)
from headwise.torch._packed import Packs
from headwise.torch.functional import attend

_NAME = "MultiheadAttention"


class MultiheadAttention(Packs, nn.MultiheadAttention):
    """torch.nn.MultiheadAttention: its constructor, parameters, state_dict and forward, by Headwise.

    docs/torch.md lists where it deliberately differs.

    >>> import headwise.torch, torch
    >>> layer = headwise.torch.MultiheadAttention(embed_dim=64, num_heads=8, batch_first=True)
    >>> x = torch.randn(2, 5, 64)
    >>> output, weights = layer(x, x, x)
    >>> output.shape, weights.shape
    (torch.Size([2, 5, 64]), torch.Size([2, 5, 5]))
    """

    def _reset_parameters(self) -> None:
        self._qkv_same_embed_dim = self.in_proj_weight is not None
        super()._reset_parameters()
        self.avoid_fused_encoder()

    def avoid_fused_encoder(self) -> None:
        """nn.TransformerEncoderLayer in evaluation mode takes the parameters of a layer of which this is
        True, and never calls it."""
        self._qkv_same_embed_dim = False

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None = None,
        need_weights: bool = True, attn_mask: Tensor | None = None, average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """As torch.nn.MultiheadAttention.forward. The weights returned are those before dropout."""
        if query.is_nested or key.is_nested or value.is_nested:
            return self._forward_nested(query, key, value, key_padding_mask, need_weights, attn_mask,
                                        average_attn_weights)
        inputs = _Inputs(query, key, value, self.batch_first)
        inputs.check(self)
        if is_causal and attn_mask is None:
            raise RuntimeError(expected(_NAME, "attn_mask", "a mask beside the hint is_causal", None))
        # As torch does: only here the hint replaces the mask.
        masks = Masks(causal=is_causal and key_padding_mask is None and not need_weights)
        if attn_mask is not None and not masks.causal:
            masks.add(inputs.pair_mask(attn_mask, self.num_heads), keeps=False)
        if key_padding_mask is not None:
            masks.add(inputs.key_mask(key_padding_mask), keeps=False)
        request = _operators.NO_WEIGHTS
        if need_weights:
            request = _operators.AVERAGED if average_attn_weights else _operators.PER_HEAD
        output, weights = self._compute(inputs, masks, request)
        if inputs.unbatched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output, weights

    def _compute(self, inputs: _Inputs, masks: Masks, request: int) -> tuple[Tensor, Tensor | None]:
        parameters = {
            "in_proj_weight": self.in_proj_weight, "q_proj_weight": self.q_proj_weight,
            "k_proj_weight": self.k_proj_weight, "v_proj_weight": self.v_proj_weight,
            "in_proj_bias": self.in_proj_bias, "bias_k": self.bias_k, "bias_v": self.bias_v,
            "out_proj.weight": self.out_proj.weight, "out_proj.bias": self.out_proj.bias,
        }
        given = tuple(parameters.values())
        tensors = (inputs.query, inputs.key, inputs.value, *given, *masks.keep, *masks.bias)
        if not is_watched(tensors) and self.may_pack(given) and is_plain_float32((*tensors[:3], *given)):
            layer = self.packed(given, lambda: self._layer(parameters))
            return _run(layer, inputs, masks, request)
        dtype = common_dtype(_NAME, {"query": inputs.query, "key": inputs.key, "value": inputs.value, **parameters})
        output, weights = self._compose(inputs, masks, request)
        return output.to(dtype), None if weights is None else weights.to(dtype)

    def _layer(self, parameters: dict[str, Tensor | None]) -> headwise.MultiHeadAttention:
        config = headwise.presets.torch(
            self.embed_dim, self.num_heads, bias=self.in_proj_bias is not None,
            add_bias_kv=self.bias_k is not None, add_zero_attn=self.add_zero_attn,
            kdim=self.kdim, vdim=self.vdim)
        present = {name: p.detach() for name, p in parameters.items() if p is not None}
        return headwise.MultiHeadAttention(config, headwise.presets.torch_weights(config, present))

    def _compose(self, inputs: _Inputs, masks: Masks, request: int) -> tuple[Tensor, Tensor | None]:
        """The layer out of differentiable operators. Each of its numbers is the same sum in the same
        order as in the library's own layer, so the bits are, too."""
        q, k, v = (inputs.batch_first(x) for x in self._projected(inputs))
        tail = 0
        if self.bias_k is not None:
            k = torch.cat([k, self.bias_k.float().expand(k.shape[0], 1, -1)], dim=1)
            v = torch.cat([v, self.bias_v.float().expand(v.shape[0], 1, -1)], dim=1)
            tail += 1
        if self.add_zero_attn:
            k, v = (nn.functional.pad(x, (0, 0, 0, 1)) for x in (k, v))
            tail += 1
        q, k, v = (x.unflatten(2, (self.num_heads, self.head_dim)) for x in (q, k, v))
        heads, weights = attend(q, k, v, masks, dropout=self.dropout if self.training else 0.0, tail=tail,
                                weights=request)
        return _linear(inputs.as_given(heads.flatten(2)), self.out_proj.weight, self.out_proj.bias), weights

    def _projected(self, inputs: _Inputs) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = inputs.query, inputs.key, inputs.value
        if self.in_proj_weight is not None:
            if query is key and key is value:
                return _linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(map(_linear, (query, key, value), weights, biases))

    def _forward_nested(self, query, key, value, key_padding_mask, need_weights, attn_mask, average):
        """Sequences of several lengths, as nn.TransformerEncoder packs them: padded, and masked."""
        plain = query is key and key is value and key_padding_mask is None and attn_mask is None
        if not (plain and self.batch_first):
            raise AssertionError(expected(
                _NAME, "query", "a NestedTensor only as query, key and value at once, with batch_first and no masks",
                "another combination"))
        x = query.to_padded_tensor(0.0)
        lengths = query._nested_tensor_size()[:, 0]
        padding = torch.arange(x.shape[1]) >= lengths[:, None]
        output, weights = self.forward(x, x, x, padding, need_weights, average_attn_weights=average)
        rows = [one[:length] for one, length in zip(output, lengths.tolist(), strict=True)]
        return torch.nested.as_nested_tensor(rows), weights


class _Inputs:
    """query, key and value with a batch axis, and where it is."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, batch_first: bool) -> None:
        if query.dim() not in (2, 3):
            raise AssertionError(expected(_NAME, "query", "2 axes, or 3 with a batch", f"shape {tuple(query.shape)}"))
        for name, x in (("key", key), ("value", value)):
            if x.dim() != query.dim():
                raise AssertionError(expected(_NAME, name, f"{query.dim()} axes, as query has",
                                              f"shape {tuple(x.shape)}"))
        self.unbatched = query.dim() == 2
        self.batch_axis = 0 if batch_first or self.unbatched else 1
        if self.unbatched:
            same = query is key and key is value
            query = query.unsqueeze(0)
            key, value = (query, query) if same else (key.unsqueeze(0), value.unsqueeze(0))
        self.query, self.key, self.value = query, key, value

    def batch_first(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1) if self.batch_axis == 1 else x

    as_given = batch_first  # and back

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Batch, queries, keys."""
        axis = self.batch_axis
        return self.query.shape[axis], self.query.shape[1 - axis], self.key.shape[1 - axis]

    def check(self, layer: MultiheadAttention) -> None:
        features = (("query", self.query, layer.embed_dim), ("key", self.key, layer.kdim),
                    ("value", self.value, layer.vdim))
        for name, x, size in features:
            if x.shape[2] != size:
                raise AssertionError(expected(_NAME, name, f"a last axis of {size}", f"shape {tuple(x.shape)}"))
        batch, _, keys = self.sizes
        if self.key.shape[self.batch_axis] != batch:
            raise AssertionError(expected(_NAME, "key", f"a batch of {batch}, as query has",
                                          f"shape {tuple(self.key.shape)}"))
        if self.value.shape[:2] != self.key.shape[:2]:
            raise AssertionError(expected(_NAME, "value", f"the axes of key, {tuple(self.key.shape[:2])}",
                                          f"shape {tuple(self.value.shape)}"))

    def pair_mask(self, mask: Tensor, heads: int) -> Tensor:
        """attn_mask with axes (B,H,T,S)."""
        check_mask(_NAME, "attn_mask", mask, no_mask=AssertionError)
        batch, queries, keys = self.sizes
        shapes = {2: (queries, keys), 3: (batch * heads, queries, keys)}
        if mask.dim() not in shapes:
            raise AssertionError(expected(_NAME, "attn_mask", "2 or 3 axes", f"shape {tuple(mask.shape)}"))
        if mask.shape != shapes[mask.dim()]:
            raise RuntimeError(expected(_NAME, "attn_mask", f"shape {shapes[2]} or {shapes[3]}",
                                        f"shape {tuple(mask.shape)}"))
        return mask[None, None] if mask.dim() == 2 else mask.unflatten(0, (batch, heads))

    def key_mask(self, mask: Tensor) -> Tensor:
        """key_padding_mask with axes (B,1,1,S)."""
        check_mask(_NAME, "key_padding_mask", mask, no_mask=AssertionError)
        if self.unbatched and mask.dim() == 1:
            mask = mask[None]
        batch, _, keys = self.sizes
        if mask.shape != (batch, keys):
            wanted = (keys,) if self.unbatched else (batch, keys)
            raise AssertionError(expected(_NAME, "key_padding_mask", f"shape {wanted}", f"shape {tuple(mask.shape)}"))
        return mask[:, None, None]


def _linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    bias = None if bias is None else bias.float()
    return torch.ops.headwise.linear(input.float(), weight.float(), bias)


def _run(
    layer: headwise.MultiHeadAttention, inputs: _Inputs, masks: Masks, request: int
) -> tuple[Tensor, Tensor | None]:
    """The library's own layer, with nothing in between."""
    query = inputs.batch_first(inputs.query)
    same = inputs.key is inputs.query
    key = None if same else inputs.batch_first(inputs.key)
    value = None if inputs.value is inputs.key else inputs.batch_first(inputs.value)
    output = torch.empty(inputs.query.shape)
    r = layer.forward(query, key, value, out=inputs.batch_first(output), context=context(),
                      weights=_operators.REQUESTS[request], **masks.options())
    return output, None if r.weights is None else torch.from_numpy(r.weights)
