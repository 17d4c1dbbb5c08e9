"""Parameters in the form that the library computes with, made once and kept while they stay the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

Packed = TypeVar("Packed")

_SAMPLES = 16  # along each axis of a parameter


def _sample(parameter: Tensor) -> Tensor:
    """A view of some of its numbers."""
    return parameter.detach()[tuple(slice(None, None, max(1, n // _SAMPLES)) for n in parameter.shape)]


class _Seen:
    """A parameter as it was: which tensor, at which address, changed how often."""

    __slots__ = ("address", "numbers", "sample", "tensor", "version")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor
        self.address = tensor.data_ptr()
        self.version = tensor._version
        self.sample = _sample(tensor)
        self.numbers = self.sample.clone()

    def is_still(self, tensor: Tensor) -> bool:
        # torch does not count changes through tensor.data or numpy, as some moving averages and
        # initialisers make them; those change all numbers, so that a few show it.
        return (
            self.tensor is tensor
            and self.version == tensor._version
            and self.address == tensor.data_ptr()
            and torch.equal(self.sample, self.numbers)
        )


class PackedCache(Generic[Packed]):
    """Holds what `build` made from parameters until one of them changes. Copies and pickles as empty."""

    def __init__(self) -> None:
        self._kept: tuple[list[_Seen], Packed] | None = None  # one attribute: threads see both or neither

    def get(self, parameters: tuple[Tensor, ...], build: Callable[[], Packed]) -> Packed:
        if self._kept is not None:
            seen, packed = self._kept
            if len(seen) == len(parameters) and all(map(_Seen.is_still, seen, parameters)):
                return packed
        seen = [_Seen(parameter) for parameter in parameters]  # before: a change meanwhile must show
        packed = build()
        self._kept = seen, packed
        return packed

    def __reduce__(self):
        return PackedCache, ()


class Packs:
    """Of a module: keeps its parameters packed while in evaluation mode. train() and eval() forget them."""

    def packed(self, parameters: tuple[Tensor | None, ...], build: Callable[[], Packed]) -> Packed:
        # Made when needed: swap() turns modules into ours that were made by torch.
        cache: PackedCache[Any] = self.__dict__.setdefault("_packed_cache", PackedCache())
        return cache.get(tuple(p for p in parameters if p is not None), build)

    def may_pack(self, parameters: tuple[Tensor | None, ...]) -> bool:
        # Tensors of inference mode do not count their changes.
        return not self.training and not any(p is not None and p.is_inference() for p in parameters)

    def forget_packed(self) -> None:
        self.__dict__.pop("_packed_cache", None)

    def train(self, mode: bool = True):
        self.forget_packed()
        return super().train(mode)
