"""The conventions of other libraries, one call each: configurations, and weights from their names and
layouts. The mappings hold what the framework itself stores, under its own names.

>>> import headwise
>>> headwise.presets.torch(embed_dim=512, num_heads=8).key_dim
64
"""

from headwise._core.presets import (
    d2l,
    d2l_weights,
    flax_weights,
    keras,
    keras_weights,
    paper,
    torch,
    torch_weights,
)

__all__ = [
    "d2l",
    "d2l_weights",
    "flax_weights",
    "keras",
    "keras_weights",
    "paper",
    "torch",
    "torch_weights",
]
