"""Headwise in Hugging Face Transformers: attn_implementation="headwise".

>>> import headwise.transformers, transformers
>>> headwise.transformers.register()
>>> config = transformers.BertConfig(vocab_size=9, hidden_size=32, num_attention_heads=4, num_hidden_layers=1)
>>> model = transformers.AutoModel.from_config(config, attn_implementation="headwise")
>>> model.config._attn_implementation
'headwise'
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, pytorch_utils
from transformers.masking_utils import sdpa_mask

from headwise.torch import _operators, _swap
from headwise.torch._calls import (
    Masks,
    check_mask,
    check_tensor,
    checked_dropout,
    checked_scale,
    common_dtype,
    expected,
)
from headwise.torch._packed import Packs
from headwise.torch.functional import attend
from headwise.torch.linear import rows_of

_NAME = "headwise attention"
# What models pass along and this function need not know: masks tell it already, or it is for others. What is
# not named here may change the result, and is refused.
_HARMLESS = frozenset({
    "cache_position", "deterministic", "encoder_attention_mask", "encoder_hidden_states", "logits_to_keep",
    "max_length_k", "max_length_q", "num_items_in_batch", "output_hidden_states", "output_router_logits",
    "past_key_values", "position_ids", "return_dict", "seq_idx", "sliding_window", "token_type_ids", "use_cache",
})
# Where packed sequences begin: told by the mask, if there is one.
_PACKED = ("cu_seq_lens_q", "cu_seq_lens_k")


class Conv1D(Packs, pytorch_utils.Conv1D):
    """GPT-2's linear layer, by Headwise: its rows do not depend on the rows beside them.

    >>> import headwise.torch, headwise.transformers, transformers
    >>> layer = headwise.torch.swap(transformers.pytorch_utils.Conv1D(32, 64), linear=True)
    >>> type(layer)
    <class 'headwise.transformers.Conv1D'>
    """

    def forward(self, x: Tensor) -> Tensor:
        return rows_of("Conv1D", self, x, by_columns=True)

    def row_size(self) -> int:
        return self.nx


_swap.LINEAR[pytorch_utils.Conv1D] = Conv1D


def register(name: str = "headwise") -> None:
    """Makes attn_implementation=name known to every model that has exchangeable attention.

    >>> import headwise.transformers
    >>> headwise.transformers.register()
    """
    AttentionInterface.register(name, attention_forward)
    # Of bool, (B,1,T,S) with True = attend, or None where all or the causal part is attended.
    AttentionMaskInterface.register(name, sdpa_mask)


def attention_forward(
    module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None,
    dropout: float = 0.0, scaling: float | None = None, is_causal: bool | None = None,
    softcap: float | None = None, position_bias: Tensor | None = None, output_attentions: bool = False,
    indices: Tensor | None = None, **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """query (B,Hq,T,d), key and value (B,Hkv,S,d) → output (B,T,Hq,d) and, if asked for, weights (B,Hq,T,S).

    Without a mask, a module that is causal hides the keys after each query, counted from the first of
    each, unless there is only one query, which is the last. indices (B,T,k): the only keys that a query
    attends, of those that the mask leaves.
    """
    _check_options(options, attention_mask)
    dtype = common_dtype(_NAME, {"query": query, "key": key, "value": value})
    dropout, scaling = checked_dropout(_NAME, "dropout", dropout), checked_scale(_NAME, "scaling", scaling)
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    masks = Masks(causal=bool(is_causal and attention_mask is None and query.shape[2] > 1))
    for name, mask in (("attention_mask", attention_mask), ("position_bias", position_bias)):
        if mask is not None:
            check_mask(_NAME, name, mask, query.device)
            masks.add(mask, keeps=True)
    if indices is not None:
        masks.add(_kept(indices, query, key), keeps=True)
    batch = max(query.shape[0], key.shape[0])  # learned queries come once for all sequences
    q, k, v = (x.float().expand(batch, -1, -1, -1).transpose(1, 2) for x in (query, key, value))
    request = _operators.PER_HEAD if output_attentions else _operators.NO_WEIGHTS
    output, weights = attend(q, k, v, masks, dropout=dropout, scale=scaling, softcap=softcap, weights=request)
    return output.to(dtype), None if weights is None else weights.to(dtype)


def _check_options(options: dict[str, Any], mask: Tensor | None) -> None:
    """ValueError for what would change the result, if this function had it."""
    for name, value in options.items():
        if value is None or value is False or name in _HARMLESS:
            continue
        if name not in _PACKED:
            raise ValueError(expected(_NAME, name, "None (this implementation has no such option)",
                                      type(value).__name__))
        if mask is None and len(value) > 2:
            raise ValueError(expected(_NAME, name, "one sequence, or a mask that tells them apart",
                                      f"{len(value) - 1} sequences"))


def _kept(indices: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """A mask (B,1,T,S) that leaves the keys of these numbers to each query."""
    check_tensor(_NAME, "indices", indices)
    shape = (query.shape[0], query.shape[2])
    if indices.dim() != 3 or indices.shape[:2] != shape:
        raise ValueError(expected(_NAME, "indices", f"shape ({shape[0]}, {shape[1]}, k)",
                                  f"shape {tuple(indices.shape)}"))
    nothing = torch.zeros(*shape, key.shape[2], dtype=torch.bool, device=indices.device)
    return nothing.scatter(2, indices.long(), True)[:, None]
