"""Keras's attention layers on Headwise, on the JAX, torch and TensorFlow backends.

`MultiHeadAttention` and `GroupQueryAttention` are subclasses of Keras's layers: the same constructors, weights,
names and files. `swap(model)` makes them of Keras's own in a model. docs/keras.md says what is the same, and the
few things that differ on purpose.

>>> import headwise.keras, numpy
>>> layer = headwise.keras.MultiHeadAttention(num_heads=8, key_dim=64)
>>> tuple(layer(numpy.ones((2, 5, 512), "float32"), numpy.ones((2, 7, 512), "float32")).shape)
(2, 5, 512)
"""

from __future__ import annotations

from headwise.keras._layers import GroupedQueryAttention, MultiHeadAttention
from headwise.keras._swap import swap, swap_back

# Keras exports the class by this name.
GroupQueryAttention = GroupedQueryAttention

__all__ = ["GroupedQueryAttention", "GroupQueryAttention", "MultiHeadAttention", "swap", "swap_back"]
