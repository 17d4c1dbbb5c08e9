"""Models that were made with Keras's layers, or loaded from their files, get Headwise's; and back."""

from __future__ import annotations

from typing import Any

import keras
from keras.layers import EinsumDense

from headwise.keras import _ops
from headwise.keras._layers import GroupedQueryAttention, MultiHeadAttention
from headwise.keras._projection import give_back, take_over

_OURS = {
    keras.layers.MultiHeadAttention: MultiHeadAttention,
    keras.layers.GroupQueryAttention: GroupedQueryAttention,
}
_THEIRS = {ours: theirs for theirs, ours in _OURS.items()}


def swap(model: Any) -> Any:
    """Makes every attention layer of a built model, or the layer itself, Headwise's, in place; returns the model.

    Weights, names, masks and the optimizer's state stay what they are.

    >>> import keras
    >>> x = keras.Input((5, 8))
    >>> model = swap(keras.Model(x, keras.layers.MultiHeadAttention(2, 4)(x, x)))
    >>> type(model.layers[1]).__module__
    'headwise.keras._layers'
    """
    return _exchange(model, _OURS)


def swap_back(model: Any) -> Any:
    """Makes them Keras's own.

    >>> import keras
    >>> x = keras.Input((5, 8))
    >>> model = swap_back(keras.Model(x, MultiHeadAttention(2, 4)(x, x)))
    >>> type(model.layers[1]) is keras.layers.MultiHeadAttention
    True
    """
    return _exchange(model, _THEIRS)


def _exchange(model: Any, classes: dict[type, type]) -> Any:
    if not isinstance(model, keras.Layer):
        raise TypeError(f"`model` must be a Keras model or layer. Received: {model!r} of type {type(model).__name__}")
    layers = [layer for layer in model._flatten_layers() if type(layer) in classes]
    for layer in layers:
        if not layer.built:
            raise ValueError(
                f"The layer {layer.name!r} is not built yet, so its projections cannot be exchanged. "
                "Build the model, or call it once."
            )
    for layer in layers:
        # The layer stays the same object, for the graph, the optimizer and whoever else holds it.
        object.__setattr__(layer, "__class__", classes[type(layer)])
        ours = type(layer) in _THEIRS
        layer.supports_jit = _ops.SUPPORTS_JIT if ours else True
        for dense in layer._flatten_layers(include_self=False, recursive=False):
            if isinstance(dense, EinsumDense):
                (take_over if ours else give_back)(dense)
    for function in ("train_function", "test_function", "predict_function"):
        if getattr(model, function, None) is not None:  # compiled with the other layers
            setattr(model, function, None)
    return model
