"""Types of arguments, for annotations. At run time anything is looked at, and refused with a reason."""

from __future__ import annotations

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
