"""Keras's two attention layers, computed by Headwise."""

from __future__ import annotations

from typing import Any, NoReturn

import keras
from keras import ops
from keras.layers import EinsumDense
from keras.src.backend import get_keras_mask, set_keras_mask

from headwise.keras import _masks, _ops
from headwise.keras._axes import Axes
from headwise.keras._projection import take_over


class _Attention:
    """What both layers share; stands before Keras's layer among the bases, and says `super()` for it."""

    # Where Keras's layers keep these differs.
    _scale: float
    _window: int | None
    _gated: bool
    _axes: tuple[int, ...]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.supports_jit = _ops.SUPPORTS_JIT

    def build(self, query_shape: Any, value_shape: Any, key_shape: Any = None) -> None:
        super().build(query_shape, value_shape, key_shape)
        for layer in self._flatten_layers(include_self=False, recursive=False):
            if isinstance(layer, EinsumDense):
                take_over(layer)

    def call(
        self,
        query: Any,
        value: Any,
        key: Any = None,
        query_mask: Any = None,
        value_mask: Any = None,
        key_mask: Any = None,
        attention_mask: Any = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        masks = query_mask, value_mask, key_mask, attention_mask
        if self._left_to_keras(return_attention_scores):
            return super().call(query, value, key, *masks, return_attention_scores, training, use_causal_mask)
        if _ops.in_export():
            self._refuse_export()
        key = value if key is None else key
        self._check_shapes(query, value, key)
        mask = _masks.join(self._take_query_mask(query_mask, (query, value, key)), *masks[1:])
        gate = self._gate_dense(query) if self._gated else None
        projected = self._query_dense(query), self._key_dense(key), self._value_dense(value)
        options = self._options(return_attention_scores, use_causal_mask, self._window)
        heads, scores = self._attend(projected, mask, training, options)
        output = self._output_dense(heads if gate is None else _gated(heads, gate))
        return (output, scores) if return_attention_scores else output

    def _trackable_children(self, save_type: str = "checkpoint", **kwargs: Any) -> Any:
        """TensorFlow asks for them when it saves; nothing else does."""
        if save_type == "savedmodel":
            self._refuse_export()
        return super()._trackable_children(save_type, **kwargs)

    def _refuse_export(self) -> NoReturn:
        raise ValueError(
            f"The layer {self.name!r} calls Headwise, which an exported model cannot hold. "
            "Call headwise.keras.swap_back(model) before model.export."
        )

    def _left_to_keras(self, scores: bool) -> bool:
        """Whether Keras's call() is to run, which comes back to _compute_attention()."""
        subclassed = type(self)._compute_attention.__module__ != __name__  # and expects what Keras would give it
        refused = self._flash_attention and scores  # by Keras, in its own words
        return subclassed or refused or not _ops.computes(self.compute_dtype)

    def _take_query_mask(self, given: Any, tensors: tuple[Any, Any, Any]) -> Any:
        return given

    def _attend(
        self, tensors: tuple[Any, Any, Any], mask: Any, training: Any, options: _ops.AttentionOptions
    ) -> tuple[Any, Any]:
        """Attention of projected query, key and value over the layer's axes: heads and scores."""
        query, key, value = (ops.convert_to_tensor(x) for x in tensors)
        axes = Axes(len(query.shape), self._axes)
        if (options.causal or options.window is not None) and len(axes.attended) != 1:
            raise ValueError(
                "`use_causal_mask` and `sliding_window` need positions along one axis. "
                f"Received: attention_axes={axes.attended}"
            )
        shape = axes.scores_shape(query, key)
        if mask is not None:
            mask = axes.fold_mask(_masks.expand(mask, shape, len(axes.attended)), shape)
        seed = self._draw_seed(training, options.dropout)
        folded = axes.fold(query), axes.fold(key), axes.fold(value)
        heads, scores = _ops.attention(folded, mask, seed, options, self.compute_dtype)
        return axes.unfold(heads, query), None if scores is None else ops.reshape(scores, shape)

    def _draw_seed(self, training: Any, dropout: float) -> Any:
        if dropout == 0 or not training:  # in this order: in a rematerialised call on JAX training is traced
            return None
        if dropout >= 1:
            raise ValueError(f"`dropout` must be less than 1 in training. Received: dropout={dropout}")
        return self._dropout_layer.seed_generator.next()

    def _check_shapes(self, query: Any, value: Any, key: Any) -> None:
        """That the inputs agree in all axes but the attended ones and the features, as far as they are known."""
        shapes = {name: tuple(x.shape) for name, x in (("query", query), ("value", value), ("key", key))}
        received = ", ".join(f"{name}.shape={shape}" for name, shape in shapes.items())
        if len({len(shape) for shape in shapes.values()}) > 1:
            raise ValueError(f"`query`, `value` and `key` must have as many axes as each other. Received: {received}")
        for axis in range(len(query.shape) - 1):
            names = ("value", "key") if axis in self._axes else ("query", "value", "key")
            sizes = {shapes[name][axis] for name in names}
            if len([size for size in sizes if isinstance(size, int)]) > 1:
                listed = " and ".join(f"`{name}`" for name in names)
                raise ValueError(f"{listed} must be equal along axis {axis}. Received: {received}")

    def _options(self, scores: bool, causal: bool, window: int | None = None) -> _ops.AttentionOptions:
        return _ops.AttentionOptions(self._scale, bool(causal), window, self._dropout_layer.rate, bool(scores))


@keras.saving.register_keras_serializable(package="headwise")
class MultiHeadAttention(_Attention, keras.layers.MultiHeadAttention):
    """keras.layers.MultiHeadAttention: the same arguments, weights and files.

    >>> import numpy
    >>> layer = MultiHeadAttention(num_heads=2, key_dim=4, value_dim=3)
    >>> x = numpy.ones((1, 5, 8), "float32")
    >>> output, scores = layer(x, x, use_causal_mask=True, return_attention_scores=True)
    >>> tuple(output.shape), tuple(scores.shape)
    ((1, 5, 8), (1, 2, 5, 5))
    """

    _scale = property(lambda self: self._inverse_sqrt_key_dim)
    _window = property(lambda self: self._sliding_window)
    _gated = property(lambda self: self._use_gate)
    _axes = property(lambda self: tuple(self._attention_axes))

    def _take_query_mask(self, given: Any, tensors: tuple[Any, Any, Any]) -> Any:
        # As Keras's layer does: the query's own mask counts, and the layers inside are not to see any.
        mask = get_keras_mask(tensors[0])
        for tensor in tensors:
            set_keras_mask(tensor, None)
        return mask

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        return_attention_scores: bool = False,
        use_causal_mask: bool = False,
    ) -> tuple[Any, Any]:
        if (self._flash_attention and return_attention_scores) or not _ops.computes(self.compute_dtype):
            return super()._compute_attention(
                query, key, value, attention_mask, training, return_attention_scores, use_causal_mask
            )
        options = self._options(return_attention_scores, use_causal_mask)
        return self._attend((query, key, value), attention_mask, training, options)


# Named as Keras's class is, because files name weights after the class; Keras exports it as GroupQueryAttention.
@keras.saving.register_keras_serializable(package="headwise")
class GroupedQueryAttention(_Attention, keras.layers.GroupQueryAttention):
    """keras.layers.GroupQueryAttention: the same arguments, weights and files.

    >>> import numpy
    >>> layer = GroupedQueryAttention(head_dim=4, num_query_heads=6, num_key_value_heads=2)
    >>> x = numpy.ones((1, 5, 8), "float32")
    >>> tuple(layer(x, x, use_causal_mask=True).shape)
    (1, 5, 8)
    """

    _scale = property(lambda self: self._inverse_sqrt_head_dim)
    _window = property(lambda self: self.sliding_window)
    _gated = property(lambda self: self.use_gate)
    _axes = (1,)

    def _compute_attention(
        self,
        query: Any,
        key: Any,
        value: Any,
        attention_mask: Any = None,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> tuple[Any, Any]:
        scores = self._return_attention_scores  # of the call that this one is part of
        if (self._flash_attention and scores) or not _ops.computes(self.compute_dtype):
            return super()._compute_attention(query, key, value, attention_mask, training, use_causal_mask)
        options = self._options(scores, use_causal_mask)
        return self._attend((query, key, value), attention_mask, training, options)


def _gated(heads: Any, gate: Any) -> Any:
    # A head that attended nothing stays 0, even if its gate is NaN because its query was.
    unused = ops.logical_and(ops.equal(heads, 0), ops.isnan(gate))
    return ops.multiply(heads, ops.where(unused, ops.zeros_like(gate), gate))
