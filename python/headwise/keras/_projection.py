"""The layers' projections: Keras's EinsumDense owns the variables, Headwise computes."""

from __future__ import annotations

import functools
import math
from typing import Any

import keras
from keras import ops
from keras.layers import EinsumDense

from headwise.keras import _ops


def take_over(dense: EinsumDense) -> None:
    """Lets `headwise.linear` compute a layer that contracts the last axes of its input.

    All else stays EinsumDense's own: variables, constraints, regularisers, LoRA (whose kernel is a sum), and the
    quantised modes, which Keras computes by another method than call(). A subclass would lose the last: Keras
    quantises no subclasses.

    >>> import numpy
    >>> dense = EinsumDense("abc,cde->abde", output_shape=(None, 2, 3), bias_axes="de")
    >>> dense.build((None, 5, 4))
    >>> take_over(dense)
    >>> tuple(dense(numpy.ones((1, 5, 4), "float32")).shape)
    (1, 5, 2, 3)
    """
    dense.call = functools.partial(_project, dense, _contracted_axes(dense.equation))
    dense.rematerialized_call = functools.partial(_rematerialized, dense)
    dense.supports_masking = True  # the attention layer looks after masks; no warning that one is lost here


def give_back(dense: EinsumDense) -> None:
    """Undoes take_over().

    >>> dense = EinsumDense("abc,cd->abd", output_shape=(None, 2))
    >>> take_over(dense)
    >>> give_back(dense)
    >>> "call" in vars(dense)
    False
    """
    del dense.call, dense.rematerialized_call
    dense.supports_masking = False


def _rematerialized(dense: EinsumDense, call: Any, *args: Any, **kwargs: Any) -> Any:
    # jax.checkpoint keeps what it traced for as long as the function lives, weights of that time included: it must
    # get a new one each time, as a method is.
    return EinsumDense.rematerialized_call(dense, functools.partial(call), *args, **kwargs)


def _project(dense: EinsumDense, axes: int, inputs: Any, training: bool | None = None) -> Any:
    if not _ops.computes(dense.compute_dtype):
        return EinsumDense.call(dense, inputs, training=training)
    kernel = dense.kernel
    contracted, made = tuple(kernel.shape[:axes]), tuple(kernel.shape[axes:])
    _check_features(dense.name, inputs.shape, contracted)
    rows = ops.shape(inputs)[:-axes]
    features, outputs = math.prod(contracted), math.prod(made)
    y = _ops.linear(
        inputs if axes == 1 else ops.reshape(inputs, (*rows, features)),
        ops.reshape(kernel, (features, outputs)),
        None if dense.bias is None else ops.reshape(dense.bias, (outputs,)),
        dense.compute_dtype,
    )
    y = ops.reshape(y, (*rows, *made))
    if dense.activation is keras.activations.sigmoid:
        return _ops.sigmoid(y, dense.compute_dtype)
    return dense.activation(y)


def _contracted_axes(equation: str) -> int:
    inputs, kernel = equation.split("->")[0].split(",")
    return sum(letter in kernel for letter in inputs)


def _check_features(name: str, shape: tuple, expected: tuple) -> None:
    given = tuple(shape[-len(expected) :])
    if any(g is not None and g != e for g, e in zip(given, expected, strict=True)):
        raise ValueError(
            f"The projection {name!r} was built for inputs whose last axes are {expected}. "
            f"Received: inputs.shape={tuple(shape)}"
        )
