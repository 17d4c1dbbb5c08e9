"""The process of one framework: it sleeps on a pipe, and does what it is told."""

from __future__ import annotations

import dataclasses
import gc
import pathlib
import sys
import traceback
from multiprocessing.connection import Connection

import numpy as np

from headwise.peers.frameworks import load
from headwise.peers.peer import Peer, Unable, Way
from headwise.peers.rows import Arrays, Row, make_arrays
from headwise.peers.timing import Sample, Stopwatch, run_times

# Against Headwise: of the largest number of each output, or of 1 if all are smaller. Sums of gradients run
# over all rows of the batch.
TOLERANCE = 5e-6
TRAINING_TOLERANCE = 2e-5


@dataclasses.dataclass(frozen=True)
class Tried:
    """A way to compute the row that was tried out."""

    way: str
    difference: float | None = None  # from Headwise's outputs, the largest
    seconds: float | None = None
    failure: str = ""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """Which way will be timed, and all that were tried; or why there is none."""

    chosen: str | None
    tried: list[Tried]
    unable: str = ""


def largest_difference(ours: Arrays, theirs: Arrays) -> float:
    """Over all outputs, relative to the largest number of each, or to 1 if that is larger.

    >>> import numpy
    >>> from headwise.peers.worker import largest_difference
    >>> ones = numpy.ones(3, numpy.float32)
    >>> largest_difference({"output": ones, "query": 8 * ones}, {"output": ones + 0.25, "query": 8 * ones})
    0.25
    """
    if ours.keys() != theirs.keys():
        raise ValueError(f"expected the outputs {sorted(ours)}, got {sorted(theirs)}")
    worst = 0.0
    for name, mine in ours.items():
        other = theirs[name]
        if mine.shape != other.shape:
            raise ValueError(f"{name}: expected the shape {mine.shape}, got {other.shape}")
        difference = float(np.abs(mine - other).max()) / max(1.0, float(np.abs(mine).max()))
        worst = max(worst, difference if np.isfinite(difference) else float("inf"))
    return worst


class Worker:
    """Holds the framework and the row it is at."""

    def __init__(self, peer: Peer, threads: int) -> None:
        self._peer = peer
        self._stopwatch = Stopwatch(threads)
        self._way: Way | None = None
        self._expected = 0.0

    def prepare(self, row: Row, reference: pathlib.Path, seconds: float) -> Prepared:
        """Tries all ways, for some seconds each, and keeps the fastest that agrees with the reference.

        reference: a file of outputs; the first worker, Headwise's own, writes it.
        """
        tried: list[Tried] = []
        best: tuple[float, Way] | None = None
        try:
            for way in self._peer.ways(row, make_arrays(row)):
                result = self._try(way, row, reference, seconds)
                tried.append(result)
                if result.seconds is not None and (best is None or result.seconds < best[0]):
                    best = result.seconds, way
        except Unable as reason:
            return Prepared(None, tried, str(reason))
        except Exception as error:  # noqa: BLE001: of any kind; the table shows it
            tried.append(Tried("preparing", failure=_short(error)))
        if best is None:
            return Prepared(None, tried)
        self._expected, self._way = best
        gc.collect()
        return Prepared(self._way.name, tried)

    @staticmethod
    def _try(way: Way, row: Row, reference: pathlib.Path, seconds: float) -> Tried:
        try:
            outputs = way.outputs(way.run())
            if not reference.exists():
                np.savez(reference, **outputs)
            difference = largest_difference(dict(np.load(reference)), outputs)
            if difference > (TRAINING_TOLERANCE if row.training else TOLERANCE):
                return Tried(way.name, difference, failure="differs")
            return Tried(way.name, difference, min(run_times(way.run, seconds, least=2)))
        except Exception as error:  # noqa: BLE001
            return Tried(way.name, failure=_short(error))

    def sample(self, seconds: float) -> Sample:
        assert self._way is not None
        gc.disable()
        try:
            return self._stopwatch.sample(self._way.run, seconds, self._expected)
        finally:
            gc.enable()

    def release(self) -> None:
        self._way = None
        gc.collect()


def _short(error: Exception) -> str:
    traceback.print_exception(error)  # the whole of it is for the log
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def main() -> None:
    """Arguments: the framework, the number of threads, the pipe's file descriptor."""
    key, threads, descriptor = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    pipe = Connection(descriptor)
    try:
        worker = Worker(load(key)(threads), threads)
    except Exception as error:  # noqa: BLE001
        pipe.send(error_text := _short(error))
        sys.exit(error_text)
    pipe.send("")
    while True:
        try:
            order, arguments = pipe.recv()
        except EOFError:  # the program that started this one is gone
            return
        pipe.send(getattr(worker, order)(*arguments))
