"""The operators on TensorFlow: numpy's, called at once or as nodes of a graph, with gradients; nothing is copied.

In a graph the call is made by a thread of TensorFlow's, which has a context of its own as every thread has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import headwise as hw
from headwise.keras import _numpy

# XLA cannot call back into Python.
SUPPORTS_JIT = False


def in_export() -> bool:
    """A graph that is traced may be any; TensorFlow asks the layers when it saves one."""
    return False


_ALIGNMENT = 64  # bytes


def linear(x: Any, kernel: Any, bias: Any) -> Any:
    x = tf.convert_to_tensor(x)  # it may be a tf.Variable, which Keras takes for a tensor
    return _linear(x, kernel) if bias is None else _linear_with_bias(x, kernel, bias)


@tf.custom_gradient
def _linear(x: Any, kernel: Any) -> Any:
    (y,) = _call(lambda x, w: (hw.linear(x, w),), (x, kernel), [(*x.shape[:-1], kernel.shape[-1])])
    return y, lambda dy: _linear_gradients(x, kernel, dy)[:2]


@tf.custom_gradient
def _linear_with_bias(x: Any, kernel: Any, bias: Any) -> Any:
    (y,) = _call(lambda x, w, b: (hw.linear(x, w, b),), (x, kernel, bias), [(*x.shape[:-1], kernel.shape[-1])])
    return y, lambda dy: _linear_gradients(x, kernel, dy)


def _linear_gradients(x: Any, kernel: Any, dy: Any) -> list[Any]:
    def compute(x: Any, w: Any, dy: Any) -> tuple[Any, ...]:
        g = hw.linear_backward(x, w, dy)
        return g.input, g.kernel, g.bias

    return _last_derivative(compute, (x, kernel, dy), [x.shape, kernel.shape, kernel.shape[-1:]])


@tf.custom_gradient
def sigmoid(x: Any) -> Any:
    (y,) = _call(lambda x: (hw.sigmoid(x),), (x,), [x.shape])
    # Where nothing comes back nothing goes on, even if the gate is NaN because its query was.
    return y, lambda dy: tf.where(dy == 0, dy, dy * y * (1.0 - y))


def attention(q: Any, k: Any, v: Any, keep: Any, seed: Any, options: Any) -> tuple[Any, Any]:
    q, k, v = (tf.convert_to_tensor(x) for x in (q, k, v))
    # A graph's nodes have no optional inputs: those that are there travel in a tuple behind q, k and v.
    extra = tuple(x for x in (keep, seed) if x is not None)

    def keep_and_seed(given: tuple[Any, ...]) -> tuple[Any, Any]:
        return None if keep is None else given[0], None if seed is None else given[-1]

    def forward(q: Any, k: Any, v: Any, *given: Any) -> tuple[Any, ...]:
        return _numpy.forward(q, k, v, *keep_and_seed(given), options)

    rows = (q.shape[0], q.shape[2], q.shape[1])
    shapes = [(*q.shape[:3], v.shape[-1]), rows, rows]
    if options.weights:
        shapes.append((*rows, k.shape[1]))

    def backward(*given: Any) -> tuple[Any, ...]:
        count = len(shapes)
        inputs, results, rest = given[:3], given[3 : 3 + count], given[3 + count :]
        gradients, given = rest[: 2 if options.weights else 1], rest[2 if options.weights else 1 :]
        return _numpy.backward(inputs, results, gradients, *keep_and_seed(given), options)

    @tf.custom_gradient
    def run(q: Any, k: Any, v: Any) -> Any:
        results = _call(forward, (q, k, v, *extra), shapes)

        def gradient(*upstream: Any) -> list[Any]:
            return _last_derivative(
                backward, (q, k, v, *results, *upstream, *extra), [q.shape, k.shape, v.shape]
            )

        return (results[0], *results[3:]), gradient

    output, *weights = run(q, k, v)
    return output, weights[0] if weights else None


def _call(function: Callable[..., tuple[Any, ...]], inputs: tuple[Any, ...], shapes: list[Any]) -> list[Any]:
    """function(*arrays), which returns float32 arrays of these shapes."""
    if tf.executing_eagerly():
        return [_tensor(y) for y in function(*(np.asarray(memoryview(x)) for x in inputs))]
    results = tf.numpy_function(function, inputs, [tf.float32] * len(shapes), stateful=False)
    for result, shape in zip(results, shapes, strict=True):
        result.set_shape(shape)
    return results


def _tensor(array: np.ndarray) -> Any:
    """Without a copy where TensorFlow can read it, as all arrays of the library's are aligned."""
    if array.ctypes.data % _ALIGNMENT == 0 and array.flags.c_contiguous:
        return tf.experimental.dlpack.from_dlpack(array.__dlpack__())
    return tf.convert_to_tensor(array)


def _last_derivative(function: Callable[..., tuple[Any, ...]], inputs: tuple[Any, ...], shapes: list[Any]) -> list[Any]:
    """_call() for a gradient. TensorFlow would take its derivative, which nobody wrote, for 0."""

    @tf.custom_gradient
    def run(*inputs: Any) -> Any:
        def refuse(*_: Any) -> Any:
            raise NotImplementedError("headwise.keras computes first derivatives only; this needs a second one.")

        return _call(function, inputs, shapes), refuse

    return run(*inputs)
