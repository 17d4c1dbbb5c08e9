"""What a framework's file has to offer: ways to compute a row, and how to read what they computed."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from headwise.peers.rows import Arrays, Row


class Unable(Exception):
    """The framework does not offer this computation; the text says why, and stands in the table."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to compute a row. Inputs are the framework's own tensors by then: only the computation is timed."""

    name: str
    run: Callable[[], Any]  # returns when the results are there
    outputs: Callable[[Any], Arrays]  # of what run returned; names and axes as Headwise's


class Peer(abc.ABC):
    """A framework in a process of its own. Only `__init__` and the methods may import it."""

    name: ClassVar[str]
    packages: ClassVar[tuple[str, ...]]  # as distributions are called
    settings: ClassVar[str]

    @staticmethod
    def environment(threads: int) -> dict[str, str]:
        """Variables that have to be there before the import."""
        return {"OMP_NUM_THREADS": str(threads)}

    @abc.abstractmethod
    def __init__(self, threads: int) -> None: ...

    @abc.abstractmethod
    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        """All ways worth trying; raises Unable if there is none. The fastest that is right will count."""
