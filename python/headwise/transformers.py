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
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from headwise.torch import _operators
from headwise.torch._calls import Masks, check_mask, checked_dropout, checked_scale, common_dtype, expected
from headwise.torch.functional import attend

_NAME = "headwise attention"
# What some models ask of an attention function, and this one cannot do: to be said, not to be ignored.
_REFUSED = ("s_aux", "cache")


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
    **options: Any,
) -> tuple[Tensor, Tensor | None]:
    """query (B,Hq,T,d), key and value (B,Hkv,S,d) → output (B,T,Hq,d) and, if asked for, weights (B,Hq,T,S).

    Without a mask, a module that is causal hides the keys after each query, counted from the first of
    each, unless there is only one query, which is the last.
    """
    for name in _REFUSED:
        if options.get(name) is not None:
            raise ValueError(expected(_NAME, name, "None (this implementation has no such option)", "a value"))
    dtype = common_dtype(_NAME, {"query": query, "key": key, "value": value})
    dropout, scaling = checked_dropout(_NAME, "dropout", dropout), checked_scale(_NAME, "scaling", scaling)
    if is_causal is None:
        is_causal = getattr(module, "is_causal", True)
    masks = Masks(causal=bool(is_causal and attention_mask is None and query.shape[2] > 1))
    for name, mask in (("attention_mask", attention_mask), ("position_bias", position_bias)):
        if mask is not None:
            check_mask(_NAME, name, mask, query.device)
            masks.add(mask, keeps=True)
    batch = max(query.shape[0], key.shape[0])  # learned queries come once for all sequences
    q, k, v = (x.float().expand(batch, -1, -1, -1).transpose(1, 2) for x in (query, key, value))
    request = _operators.PER_HEAD if output_attentions else _operators.NO_WEIGHTS
    output, weights = attend(q, k, v, masks, dropout=dropout, scale=scaling, softcap=softcap, weights=request)
    return output.to(dtype), None if weights is None else weights.to(dtype)
