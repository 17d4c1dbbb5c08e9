"""The three operators that the layers are made of, each with its gradient, on the backend that Keras uses.

A backend's module has linear(), sigmoid() and attention() on float32 tensors; dtypes are converted here.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import keras
from keras import ops

_BACKENDS = ("jax", "torch", "tensorflow")
# Whose results are float32's, rounded. Anything else Keras computes itself.
_DTYPES = ("float32", "bfloat16", "float16")

if keras.backend.backend() not in _BACKENDS:
    raise ImportError(
        f"headwise.keras works on the backends {', '.join(_BACKENDS)}; Keras uses {keras.backend.backend()!r}."
    )
_backend = importlib.import_module(f"headwise.keras._{keras.backend.backend()}")

# Whether a compiled model may go through the backend's own compiler.
SUPPORTS_JIT: bool = _backend.SUPPORTS_JIT


@dataclass(frozen=True)
class AttentionOptions:
    """What attention() is to do besides its tensors; nothing in it is a tensor.

    >>> AttentionOptions(scale=0.125, causal=True).window is None
    True
    """

    scale: float
    causal: bool = False
    window: int | None = None  # keeps |i − j| < window
    dropout: float = 0.0
    weights: bool = False  # returned too


def in_export() -> bool:
    """Whether this call is traced for a file of another program's, which could not call us.

    >>> in_export()
    False
    """
    return _backend.in_export()


def computes(dtype: str) -> bool:
    """Whether layers that compute in this dtype are Headwise's.

    >>> computes("float32"), computes("float64")
    (True, False)
    """
    return dtype in _DTYPES


def linear(x: Any, kernel: Any, bias: Any, dtype: str) -> Any:
    """(…, in) · kernel (in, out) + bias (out), or without one.

    >>> import numpy
    >>> tuple(linear(numpy.ones((2, 3)), numpy.ones((3, 4)), None, "float32").shape)
    (2, 4)
    """
    y = _backend.linear(_floats(x), _floats(kernel), None if bias is None else _floats(bias))
    return ops.cast(y, dtype)


def sigmoid(x: Any, dtype: str) -> Any:
    """The gate's sigmoid, of any shape.

    >>> import numpy
    >>> float(sigmoid(numpy.zeros(1), "float32")[0])
    0.5
    """
    return ops.cast(_backend.sigmoid(_floats(x)), dtype)


def attention(
    tensors: tuple[Any, Any, Any], keep: Any, seed: Any, options: AttentionOptions, dtype: str
) -> tuple[Any, Any]:
    """The output (N,T,Hq,dv) and the weights (N,Hq,T,S) before dropout, or None.

    tensors: query (N,T,Hq,dk), key (N,S,Hkv,dk), value (N,S,Hkv,dv). keep: bool, rank 4, True = attend, or None.
    seed: the two integers of a Keras seed generator, or None without dropout.

    >>> import numpy
    >>> x = numpy.ones((1, 3, 2, 4))
    >>> tuple(attention((x, x, x), None, None, AttentionOptions(scale=0.5, weights=True), "float32")[1].shape)
    (1, 2, 3, 3)
    """
    q, k, v = (_floats(x) for x in tensors)
    output, weights = _backend.attention(q, k, v, keep, seed, options)
    return ops.cast(output, dtype), None if weights is None else ops.cast(weights, dtype)


def _floats(x: Any) -> Any:
    return ops.cast(x, "float32")
