"""Keras's own tests of its layers, which its package brings along, run on Headwise's subclasses."""

from __future__ import annotations

from typing import Any

import headwise.keras
import keras.src.layers.attention.grouped_query_attention_test as grouped_query
import keras.src.layers.attention.multi_head_attention_test as multi_head


class _WithOurs:
    """keras.src.layers, with two classes replaced."""

    MultiHeadAttention = headwise.keras.MultiHeadAttention
    GroupedQueryAttention = headwise.keras.GroupedQueryAttention

    def __init__(self, layers: Any) -> None:
        self._layers = layers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._layers, name)


for module in (multi_head, grouped_query):
    module.layers = _WithOurs(module.layers)

MultiHeadAttentionTest = multi_head.MultiHeadAttentionTest
GroupedQueryAttentionTest = grouped_query.GroupedQueryAttentionTest
