"""Attention over several axes, as attention over one: (B, …, H, d) ↔ (sequences, positions, H, d)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from keras import ops


@dataclass(frozen=True)
class Axes:
    """Which axes of a projected tensor are attended over; the others, but heads and features, number sequences.

    >>> axes = Axes(rank=5, attended=(2,))  # of (B, rows, columns, H, d): along the columns
    >>> axes.others
    (0, 1)
    """

    rank: int
    attended: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        return tuple(axis for axis in range(self.rank - 2) if axis not in self.attended)

    @property
    def trivial(self) -> bool:
        return self.rank == 4 and self.attended == (1,)

    def fold(self, x: Any) -> Any:
        if self.trivial:
            return x
        sizes = ops.shape(x)
        x = ops.transpose(x, (*self._order, self.rank - 2, self.rank - 1))
        counts = [math.prod(sizes[axis] for axis in axes) for axes in (self.others, self.attended)]
        return ops.reshape(x, (*counts, *sizes[-2:]))

    def unfold(self, folded: Any, like: Any) -> Any:
        """Back to the axes of `like`, which was folded before; the features are folded's own."""
        if self.trivial:
            return folded
        sizes = ops.shape(like)
        x = ops.reshape(folded, (*(sizes[axis] for axis in self._order), *ops.shape(folded)[-2:]))
        back = [self._order.index(axis) for axis in range(self.rank - 2)]
        return ops.transpose(x, (*back, self.rank - 2, self.rank - 1))

    def scores_shape(self, query: Any, key: Any) -> tuple:
        """(other axes, H, attended axes of the query, attended axes of the key): how Keras orders scores."""
        q, k = ops.shape(query), ops.shape(key)
        return (
            *(q[axis] for axis in self.others),
            q[-2],
            *(q[axis] for axis in self.attended),
            *(k[axis] for axis in self.attended),
        )

    def fold_mask(self, mask: Any, shape: tuple) -> Any:
        """A mask of scores_shape()'s rank, any axis of which may be 1, to rank 4."""
        if self.trivial:
            return mask
        ends = [len(self.others), len(self.others) + 1, len(self.others) + 1 + len(self.attended), len(shape)]
        wanted, counts = [], []
        for begin, end in zip([0, *ends], ends, strict=False):
            # A group of axes that are all 1 stays one axis of 1; otherwise they are one axis only at full size.
            group = mask.shape[begin:end] if all(n == 1 for n in mask.shape[begin:end]) else shape[begin:end]
            wanted.extend(group)
            counts.append(math.prod(group))
        return ops.reshape(ops.broadcast_to(mask, wanted), counts)

    @property
    def _order(self) -> tuple[int, ...]:
        return (*self.others, *self.attended)
