"""Keras's masks, joined: True means attend."""

from __future__ import annotations

from typing import Any

from keras import ops


def join(query_mask: Any, value_mask: Any, key_mask: Any, attention_mask: Any) -> Any:
    """The masks of the inputs, (B, T), (B, S), (B, S), and (B, T, S), as one; None if there is none.

    >>> import numpy
    >>> tuple(join(None, numpy.ones((2, 5)), None, numpy.ones((2, 3, 5))).shape)
    (2, 3, 5)
    """
    parts = [
        None if query_mask is None else ops.expand_dims(ops.cast(query_mask, "bool"), -1),
        None if value_mask is None else ops.expand_dims(ops.cast(value_mask, "bool"), -2),
        None if key_mask is None else ops.expand_dims(ops.cast(key_mask, "bool"), -2),
        None if attention_mask is None else ops.cast(attention_mask, "bool"),
    ]
    joined = None
    for part in parts:
        if part is not None:
            joined = part if joined is None else ops.logical_and(joined, part)
    return joined


def expand(mask: Any, shape: tuple, attended: int) -> Any:
    """To the rank of scores: the axes that a mask lacks are those before the attended ones, as Keras has it.

    >>> import numpy
    >>> tuple(expand(numpy.ones((2, 3, 5), bool), (2, 8, 3, 5), attended=1).shape)
    (2, 1, 3, 5)
    """
    mask, given = ops.cast(mask, "bool"), mask.shape
    if not 2 * attended <= len(given) <= len(shape):
        raise ValueError(f"A mask must have {2 * attended} to {len(shape)} axes. Received: mask.shape={tuple(given)}")
    for _ in range(len(shape) - len(given)):
        mask = ops.expand_dims(mask, -2 * attended - 1)
    for size, wanted in zip(mask.shape, shape, strict=True):
        if isinstance(size, int) and isinstance(wanted, int) and size not in (1, wanted):
            known = tuple(n if isinstance(n, int) else None for n in shape)
            raise ValueError(
                f"Each axis of a mask must be 1 or as in the scores, {known}. Received: mask.shape={tuple(given)}"
            )
    return mask
