"""Rounds: for every row all workers prepare, then they take turns, one sample each and round."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence

from headwise.peers.rows import Row
from headwise.peers.timing import Sample
from headwise.peers.worker import Prepared
from headwise.peers.workers import WorkerError, WorkerProcess

REFERENCE = "headwise"


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long to measure."""

    rounds: int = 11
    least_rounds: int = 5
    sample_seconds: float = 0.12
    peer_seconds: float = 8.0  # of one framework and row; slow ones get fewer rounds, but the least
    try_seconds: float = 0.08  # of every way a framework knows


QUICK = Effort(rounds=3, least_rounds=2, sample_seconds=0.03, peer_seconds=1.0, try_seconds=0.02)


@dataclasses.dataclass
class Measurement:
    """A framework at a row on a number of threads."""

    row: Row
    threads: int
    framework: str
    prepared: Prepared | None = None
    samples: dict[int, Sample] = dataclasses.field(default_factory=dict)  # by round
    failure: str = ""  # of the process, not of a way

    @property
    def spent(self) -> float:
        return sum(s.seconds * s.runs for s in self.samples.values())


@contextlib.contextmanager
def working(frameworks: Sequence[str], threads: int) -> Iterator[tuple[dict[str, WorkerProcess], dict[str, str]]]:
    """Workers that are ready, and why others are not. They start one after the other: it is hard work."""
    workers: dict[str, WorkerProcess] = {}
    failures: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for key in frameworks:
                worker = WorkerProcess(key, threads, pathlib.Path(folder) / f"{key}.log")
                workers[key] = worker
                try:
                    worker.wait_until_ready()
                except WorkerError as error:
                    failures[key] = str(error)
                    workers.pop(key).stop()
            yield workers, failures
        finally:
            for worker in workers.values():
                worker.stop()


class RowRun:
    """One row on all workers."""

    def __init__(self, row: Row, threads: int, workers: dict[str, WorkerProcess], effort: Effort,
                 progress: Callable[[str], None]) -> None:
        self._workers = workers
        self._effort = effort
        self._progress = progress
        self._row = row
        self.measurements = {key: Measurement(row, threads, key) for key in workers}

    def run(self) -> list[Measurement]:
        with tempfile.TemporaryDirectory() as folder:
            reference = pathlib.Path(folder) / "outputs.npz"
            for key in self._workers:  # Headwise is the first, and writes the file
                self._progress(f"{key} prepares")
                self._guarded(key, lambda m, w: self._prepare(m, w, reference))
                if key == REFERENCE and not reference.exists():
                    break  # nothing to compare with
        keys = list(self._workers)
        for number in range(self._effort.rounds):
            self._progress(f"round {number + 1}")
            start = number % len(keys)  # nobody is always the first
            for key in keys[start:] + keys[:start]:
                self._guarded(key, lambda m, w, n=number: self._sample(m, w, n))
        for key in keys:
            self._guarded(key, lambda _, w: w.order("release"))
        return list(self.measurements.values())

    def _guarded(self, key: str, step: Callable[[Measurement, WorkerProcess], object]) -> None:
        """A process that has ended is told in the report and does not stop the others."""
        measurement = self.measurements[key]
        if measurement.failure:
            return
        try:
            step(measurement, self._workers[key])
        except WorkerError as error:
            measurement.failure = str(error)
            measurement.samples.clear()

    def _prepare(self, measurement: Measurement, worker: WorkerProcess, reference: pathlib.Path) -> None:
        measurement.prepared = worker.order("prepare", self._row, reference, self._effort.try_seconds)
        worker.settle()

    def _sample(self, measurement: Measurement, worker: WorkerProcess, number: int) -> None:
        effort = self._effort
        prepared = measurement.prepared
        had_enough = len(measurement.samples) >= effort.least_rounds and measurement.spent > effort.peer_seconds
        if prepared is None or prepared.chosen is None or had_enough:
            return
        others = [other for other in self._workers.values() if other is not worker]
        before = sum(other.cpu_seconds() for other in others)
        sample = worker.order("sample", effort.sample_seconds)
        stray = sum(other.cpu_seconds() for other in others) - before
        measurement.samples[number] = dataclasses.replace(sample, stray=stray / (sample.seconds * sample.runs))
        worker.settle()


def measure(rows: Sequence[Row], frameworks: Sequence[str], threads: Sequence[int], effort: Effort,
            progress: Callable[[int, int, str], None]) -> tuple[list[Measurement], dict[str, str]]:
    """All rows on all thread counts; and which frameworks did not start, with the reason.

    A worker that died is gone for the rest of its thread count: the table says so at every row. An interrupt
    (Ctrl-C) ends it with the rows that are complete.
    """
    measurements: list[Measurement] = []
    failures: dict[str, str] = {}
    total = len(rows) * len(threads)
    with contextlib.suppress(KeyboardInterrupt):
        for t, count in enumerate(threads):
            progress(t * len(rows), total, f"{count} threads: starting {len(frameworks)} processes")
            with working(frameworks, count) as (workers, not_started):
                failures |= not_started
                if REFERENCE not in workers:
                    break
                for i, row in enumerate(rows):
                    done = t * len(rows) + i
                    run = RowRun(row, count, workers, effort,
                                 lambda text, done=done, row=row: progress(done, total, f"{row.id}: {text}"))
                    measurements += run.run()
    progress(total, total, "")
    return measurements, failures
