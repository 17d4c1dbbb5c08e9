"""Parameters in the form that the library computes with, made once and kept while they stay the same."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import numpy
import torch
from torch import Tensor, get_num_threads, is_grad_enabled

from headwise._core import Watch

Packed = TypeVar("Packed")

# Numbers of a parameter that are looked at in every call: few, since they are not in the processor's cache then.
_SAMPLE = 64
# From so many rows of each thread on a call looks at all numbers: a tenth of the time of their products, or less.
_THOROUGH_ROWS = 128


def _dense(parameter: Tensor) -> numpy.ndarray:
    """A view of it by rows of memory."""
    array = parameter.detach().numpy()
    return array if array.flags.c_contiguous else array.T


def _spread(array: numpy.ndarray) -> numpy.ndarray:
    """A view of some _SAMPLE numbers, or of all if there are no more, from everywhere in the array."""
    columns, step = array.shape[-1], max(1, array.size // _SAMPLE)
    # By rows and the golden part of one, or so that the next row begins by that part later, and without a
    # common divisor: thus columns are met evenly, too.
    if 2 * step >= columns:
        step = round((round(step / columns - 0.618) + 0.618) * columns)
    else:
        step = round(columns / (columns // step + 0.618))
    while math.gcd(step, columns) > 1:
        step += 1
    return array.reshape(-1)[::step]


def _can_keep(parameter: Tensor | None) -> bool:
    # Tensors of inference mode do not count their changes.
    return parameter is None or (
        type(parameter) in (Tensor, torch.nn.Parameter)
        and parameter.dtype is torch.float32
        and parameter.is_cpu
        and not (parameter.is_inference() or parameter.is_neg())
        and (parameter.is_contiguous() or (parameter.dim() == 2 and parameter.t().is_contiguous()))
    )


class PackedCache:
    """Holds what was made from parameters until one of them changes. Copies and pickles as empty."""

    def __init__(self, row: int) -> None:
        """row: numbers in a row of what is multiplied by the parameters."""
        self._row = row
        self._kept: tuple[Watch, object] | None = None  # one attribute: threads see all of it or nothing

    def get(
        self, parameters: list[Tensor | None], numbers: int, build: Callable[[], Packed | None]
    ) -> Packed | None:
        """What build makes, now or before; None if the parameters are not plain float32 on the CPU.

        numbers: how many will be multiplied by them.
        """
        kept = self._kept
        if kept is not None and kept[0].is_current(parameters, numbers):
            return kept[1]
        if not all(map(_can_keep, parameters)):
            return None
        # torch does not count changes through tensor.data or numpy, as some moving averages and initialisers
        # make them; those change many numbers, so that a few of them show it.
        arrays = [_dense(p) for p in parameters if p is not None]
        # Before it is made: a change meanwhile must show.
        watch = Watch(parameters, [array.reshape(-1) for array in arrays], [_spread(array) for array in arrays],
                      _THOROUGH_ROWS * get_num_threads() * self._row)
        packed = build()
        self._kept = None if packed is None else (watch, packed)
        return packed

    def __reduce__(self) -> tuple[type, tuple[int]]:
        return PackedCache, (self._row,)


class Packs:
    """Of a module: keeps its parameters packed while in evaluation mode. train() and eval() forget them."""

    def row_size(self) -> int:
        """Numbers in a row of the input."""
        raise NotImplementedError

    def packed(
        self, parameters: list[Tensor | None], numbers: int, build: Callable[[], Packed | None]
    ) -> Packed | None:
        """As PackedCache.get; None also in training mode, and if autograd records the parameters."""
        if self.training:
            return None
        if is_grad_enabled() and any(p is not None and p.requires_grad for p in parameters):
            return None
        cache = self.__dict__.get("_packed_cache")
        if cache is None:  # made when needed: swap() turns modules into ours that were made by torch
            cache = self.__dict__["_packed_cache"] = PackedCache(self.row_size())
        return cache.get(parameters, numbers, build)

    def forget_packed(self) -> None:
        self.__dict__.pop("_packed_cache", None)

    def train(self, mode: bool = True):
        self.forget_packed()
        return super().train(mode)

    def __prepare_scriptable__(self):
        raise NotImplementedError(f"headwise.torch.{type(self).__name__} has no torch.jit.script; use torch.compile, "
                                  "torch.export or torch.jit.trace, or headwise.torch.swap_back first")
