"""The layers' projections: Keras's EinsumDense owns the variables, Headwise computes."""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops
from keras.layers import EinsumDense

from headwise.keras import _ops


class Projection(EinsumDense):
    """An EinsumDense that contracts the last axes of its input, computed by `headwise.linear`.

    Everything else is EinsumDense's own: variables, constraints, LoRA (whose kernel is the sum of both), and the
    quantised modes, which Keras computes by another method than call().

    >>> import keras, numpy
    >>> dense = EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")
    >>> dense.build((None, 5, 4))
    >>> Projection.take_over(dense)
    >>> dense(numpy.ones((1, 5, 4), "float32")).shape
    (1, 5, 2, 3)
    """

    @classmethod
    def take_over(cls, dense: EinsumDense) -> None:
        """Makes a Projection of what Keras built. Its variables, already made and tracked, stay where they are."""
        object.__setattr__(dense, "__class__", cls)

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        if not _ops.computes(self.compute_dtype):
            return super().call(inputs, training=training)
        kernel, width = self.kernel, self._contracted_axes()
        self._check_features(inputs.shape, kernel.shape[:width])
        rows = ops.shape(inputs)[:-width]
        features, outputs = math.prod(kernel.shape[:width]), math.prod(kernel.shape[width:])
        y = _ops.linear(
            inputs if width == 1 else ops.reshape(inputs, (*rows, features)),
            ops.reshape(kernel, (features, outputs)),
            None if self.bias is None else ops.reshape(self.bias, (outputs,)),
            self.compute_dtype,
        )
        y = ops.reshape(y, (*rows, *kernel.shape[width:]))
        if self.activation is keras.activations.sigmoid:
            return _ops.sigmoid(y, self.compute_dtype)
        return self.activation(y)

    def quantize(self, mode: Any = None, type_check: bool = True, config: Any = None) -> None:
        # Keras refuses subclasses, because it cannot know what they compute. This one computes the same.
        super().quantize(mode, type_check=False, config=config)

    def _contracted_axes(self) -> int:
        inputs, kernel = self.equation.split("->")[0].split(",")
        return sum(letter in kernel for letter in inputs)

    def _check_features(self, shape: tuple, expected: tuple) -> None:
        given = tuple(shape[-len(expected) :])
        if any(g is not None and g != e for g, e in zip(given, expected, strict=True)):
            raise ValueError(
                f"The projection {self.name!r} was built for inputs whose last axes are {tuple(expected)}. "
                f"Received: inputs.shape={tuple(shape)}"
            )
