"""Which class a saved layer becomes when a model is loaded; for `custom_objects`."""

from __future__ import annotations

import keras

from headwise.keras._layers import GroupedQueryAttention, MultiHeadAttention

# Files of plain Keras, read as Headwise's layers:
#     keras.saving.load_model("model.keras", custom_objects=headwise.keras.HEADWISE)
HEADWISE = {
    "MultiHeadAttention": MultiHeadAttention,
    "GroupedQueryAttention": GroupedQueryAttention,
    "GroupQueryAttention": GroupedQueryAttention,
}

# Files with Headwise's layers, read as plain Keras:
#     keras.saving.load_model("model.keras", custom_objects=headwise.keras.KERAS)
KERAS = {
    "headwise>MultiHeadAttention": keras.layers.MultiHeadAttention,
    "headwise>GroupedQueryAttention": keras.layers.GroupQueryAttention,
}
