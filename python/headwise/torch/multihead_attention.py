"""torch.nn.MultiheadAttention, by Headwise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import headwise
from headwise.torch import _operators
from headwise.torch._calls import (
    NO_MASKS,
    Masks,
    check_mask,
    check_tensor,
    checked_dropout,
    common_dtype,
    context,
    expected,
    is_plain,
    is_traced,
)
from headwise.torch._packed import Packs
from headwise.torch.functional import attend, project

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
        if is_causal and attn_mask is None:
            raise RuntimeError(expected(_NAME, "attn_mask", "a mask beside the hint is_causal", None))
        request = _operators.NO_WEIGHTS
        if need_weights:
            request = _operators.AVERAGED if average_attn_weights else _operators.PER_HEAD
        if query is key and key is value and attn_mask is None and key_padding_mask is None:
            both = self._alone(query, request)
            if both is not None:
                return both
        for name, x in (("query", query), ("key", key), ("value", value)):
            check_tensor(_NAME, name, x)
        if query.is_nested or key.is_nested or value.is_nested:
            return self._forward_nested(query, key, value, key_padding_mask, need_weights, attn_mask,
                                        average_attn_weights)
        inputs = _Inputs(query, key, value, self.batch_first)
        if attn_mask is None and key_padding_mask is None:
            masks = NO_MASKS
        else:
            inputs.check(self)
            # As torch does: only here the hint replaces the mask.
            masks = Masks(causal=is_causal and key_padding_mask is None and not need_weights)
            if attn_mask is not None:
                inputs.check_pair_mask(attn_mask)
                if not masks.causal:
                    masks.add(inputs.pair_mask(attn_mask, self.num_heads), keeps=False)
            if key_padding_mask is not None:
                masks.add(inputs.key_mask(key_padding_mask), keeps=False)
        output, weights = self._compute(inputs, masks, request)
        if inputs.unbatched:
            return output.squeeze(0), None if weights is None else weights.squeeze(0)
        return output, weights

    def _alone(self, x: Tensor, request: int) -> tuple[Tensor, Tensor | None] | None:
        """Self-attention with nothing else, recorded by nobody: the call of least cost. None if it is not so."""
        if is_traced() or not is_plain(x) or x.dim() != 3 or x.is_nested:
            return None
        layer = self.packed_layer(x.numel())
        if layer is None:
            return None
        output = torch.empty_like(x, memory_format=torch.contiguous_format)
        matrix = _operators.REQUESTS[request]
        try:
            if self.batch_first:
                r = layer.forward(x, weights=matrix, out=output, context=context())
            else:
                r = layer.forward(x.transpose(0, 1), weights=matrix, out=output.transpose(0, 1), context=context())
        except headwise.ArgumentError:  # said in torch's way elsewhere
            return None
        return output, None if matrix is None else torch.from_numpy(r.weights)

    def row_size(self) -> int:
        return self.embed_dim

    def packed_layer(self, numbers: int) -> headwise.MultiHeadAttention | None:
        """The library's own layer with these parameters, for a query of so many numbers; None in training mode or
        if autograd records them."""
        # Not by name, one at a time: nn.Module looks a name up slowly.
        parameters = [*self._parameters.values(), *self._modules["out_proj"]._parameters.values()]
        return self.packed(parameters, numbers, lambda: self._layer(parameters))

    def _compute(self, inputs: _Inputs, masks: Masks, request: int) -> tuple[Tensor, Tensor | None]:
        if not is_traced() and inputs.are_plain() and (masks is NO_MASKS or masks.is_plain()):
            layer = self.packed_layer(inputs.query.numel())
            if layer is not None:
                try:
                    return _run(layer, inputs, masks, request)
                except headwise.ArgumentError as mistake:
                    inputs.check(self)  # raises what torch would
                    raise RuntimeError(str(mistake)) from None
        inputs.check(self)
        dtype = common_dtype(_NAME, {"query": inputs.query, "key": inputs.key, "value": inputs.value,
                                     **self._named_tensors()})
        output, weights = self._compose(inputs, masks, request)
        return output.to(dtype), None if weights is None else weights.to(dtype)

    def _named_tensors(self) -> dict[str, Tensor]:
        names = ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "in_proj_bias",
                 "bias_k", "bias_v")
        tensors = {name: getattr(self, name) for name in names}
        tensors |= {"out_proj.weight": self.out_proj.weight, "out_proj.bias": self.out_proj.bias}
        return {name: tensor for name, tensor in tensors.items() if tensor is not None}

    def _layer(self, parameters: list[Tensor | None]) -> headwise.MultiHeadAttention | None:
        tensors = self._named_tensors()
        if not {*map(id, tensors.values())} <= {*map(id, parameters)}:
            return None  # some are computed, as pruning and torch.nn.utils.parametrize do it
        config = headwise.presets.torch(
            self.embed_dim, self.num_heads, bias=self.in_proj_bias is not None,
            add_bias_kv=self.bias_k is not None, add_zero_attn=self.add_zero_attn,
            kdim=self.kdim, vdim=self.vdim)
        plain = {name: tensor.detach() for name, tensor in tensors.items()}
        return headwise.MultiHeadAttention(config, headwise.presets.torch_weights(config, plain))

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
        dropout = checked_dropout(_NAME, "dropout", self.dropout, mistake=ValueError) if self.training else 0.0
        heads, weights = attend(q, k, v, masks, dropout=dropout, tail=tail, weights=request)
        return project(inputs.as_given(heads.flatten(2)), self.out_proj.weight, self.out_proj.bias), weights

    def _projected(self, inputs: _Inputs) -> tuple[Tensor, Tensor, Tensor]:
        query, key, value = inputs.query, inputs.key, inputs.value
        if self.in_proj_weight is not None:
            if query is key and key is value:
                return project(query, self.in_proj_weight, self.in_proj_bias).chunk(3, dim=-1)
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(map(project, (query, key, value), weights, biases))

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

    __slots__ = ("batch", "batch_axis", "key", "keys", "queries", "query", "unbatched", "value")

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, batch_first: bool) -> None:
        rank = query.dim()
        self.unbatched = rank == 2
        self.batch_axis = 0 if batch_first or self.unbatched else 1
        if rank != 3 or key.dim() != 3 or value.dim() != 3:
            query, key, value = _with_batch(query, key, value)
        self.query, self.key, self.value = query, key, value

    def batch_first(self, x: Tensor) -> Tensor:
        return x.transpose(0, 1) if self.batch_axis == 1 else x

    as_given = batch_first  # and back

    def are_plain(self) -> bool:
        same = self.query is self.key and self.key is self.value
        return is_plain(self.query) and (same or (is_plain(self.key) and is_plain(self.value)))

    def check(self, layer: MultiheadAttention) -> None:
        """The axes, as torch does it; and what they are called from here on."""
        features = (("query", self.query, layer.embed_dim), ("key", self.key, layer.kdim),
                    ("value", self.value, layer.vdim))
        for name, x, size in features:
            if x.shape[2] != size:
                raise AssertionError(expected(_NAME, name, f"a last axis of {size}", f"shape {tuple(x.shape)}"))
        axis = self.batch_axis
        self.batch, self.queries = self.query.shape[axis], self.query.shape[1 - axis]
        self.keys = self.key.shape[1 - axis]
        if self.key.shape[axis] != self.batch:
            raise AssertionError(expected(_NAME, "key", f"a batch of {self.batch}, as query has",
                                          f"shape {tuple(self.key.shape)}"))
        if self.value.shape[:2] != self.key.shape[:2]:
            raise AssertionError(expected(_NAME, "value", f"the axes of key, {tuple(self.key.shape[:2])}",
                                          f"shape {tuple(self.value.shape)}"))

    def check_pair_mask(self, mask: Tensor) -> None:
        """What torch asks of attn_mask even where the hint replaces it."""
        check_mask(_NAME, "attn_mask", mask, self.query.device, no_mask=AssertionError)
        if mask.dim() not in (2, 3):
            raise AssertionError(expected(_NAME, "attn_mask", "2 or 3 axes", f"shape {tuple(mask.shape)}"))

    def pair_mask(self, mask: Tensor, heads: int) -> Tensor:
        """attn_mask with axes (B,H,T,S)."""
        pairs = (self.queries, self.keys)
        shapes = {2: pairs, 3: (self.batch * heads, *pairs)}
        if mask.shape != shapes[mask.dim()]:
            raise RuntimeError(expected(_NAME, "attn_mask", f"shape {shapes[2]} or {shapes[3]}",
                                        f"shape {tuple(mask.shape)}"))
        return mask[None, None] if mask.dim() == 2 else mask.unflatten(0, (self.batch, heads))

    def key_mask(self, mask: Tensor) -> Tensor:
        """key_padding_mask with axes (B,1,1,S)."""
        check_mask(_NAME, "key_padding_mask", mask, self.query.device, no_mask=AssertionError)
        if self.unbatched and mask.dim() == 1:
            mask = mask[None]
        if mask.shape != (self.batch, self.keys):
            wanted = (self.keys,) if self.unbatched else (self.batch, self.keys)
            raise AssertionError(expected(_NAME, "key_padding_mask", f"shape {wanted}", f"shape {tuple(mask.shape)}"))
        return mask[:, None, None]


def _with_batch(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if query.dim() not in (2, 3):
        raise AssertionError(expected(_NAME, "query", "2 axes, or 3 with a batch", f"shape {tuple(query.shape)}"))
    for name, x in (("key", key), ("value", value)):
        if x.dim() != query.dim():
            raise AssertionError(expected(_NAME, name, f"{query.dim()} axes, as query has",
                                          f"shape {tuple(x.shape)}"))
    one = query.unsqueeze(0)
    if query is key and key is value:  # still the same object
        return one, one, one
    return one, key.unsqueeze(0), value.unsqueeze(0)


def _run(
    layer: headwise.MultiHeadAttention, inputs: _Inputs, masks: Masks, request: int
) -> tuple[Tensor, Tensor | None]:
    """The library's own layer, with nothing in between."""
    query = inputs.batch_first(inputs.query)
    key = None if inputs.key is inputs.query else inputs.batch_first(inputs.key)
    value = None if inputs.value is inputs.key else inputs.batch_first(inputs.value)
    output = torch.empty_like(inputs.query, memory_format=torch.contiguous_format)
    options = {} if masks is NO_MASKS else masks.options()
    matrix = _operators.REQUESTS[request]
    r = layer.forward(query, key, value, weights=matrix, out=inputs.batch_first(output), context=context(), **options)
    return output, None if matrix is None else torch.from_numpy(r.weights)
