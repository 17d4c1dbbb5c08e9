"""Types of arguments, for annotations. At run time anything is looked at, and refused with a reason."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol, Union

import numpy
from numpy.typing import NDArray


class SupportsDLPack(Protocol):
    """An array of another library, such as torch.Tensor or jax.Array."""

    def __dlpack__(self, *, stream: Any = ...) -> Any: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


# float32, on the CPU, with any strides; never converted and never copied.
FloatArray = Union[NDArray[numpy.float32], SupportsDLPack, memoryview]
# The same of bool.
BoolArray = Union[NDArray[numpy.bool_], SupportsDLPack, memoryview]
# Integers of any width; copied.
Integers = Union[NDArray[numpy.integer[Any]], SupportsDLPack, Sequence[int], Sequence[Sequence[int]]]
# Of a file.
PathLike = Union[str, "os.PathLike[str]"]


class HasShape(Protocol):
    """An array, of which only the shape matters."""

    @property
    def shape(self) -> tuple[int, ...]: ...


class NamedShape(HasShape, Protocol):
    """What a file says of a tensor before it is read, as headwise.TensorInfo does."""

    @property
    def name(self) -> str: ...


class TensorSource(Protocol):
    """Where read_layer() takes tensors from, such as headwise.TensorFile."""

    def read(self, name: str) -> FloatArray: ...
