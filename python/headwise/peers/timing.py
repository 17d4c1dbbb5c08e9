"""Timing inside a worker: a sample is some runs, with what the machine could do just before and after them."""

from __future__ import annotations

import dataclasses
import pathlib
import statistics
import time
from collections.abc import Callable

import headwise

PEAK_SECONDS = 0.004


@dataclasses.dataclass(frozen=True)
class Sample:
    """One sample of one framework."""

    seconds: float  # of a run, the median of the sample's
    runs: int
    peak: float  # FLOP/s, the mean of just before and just after
    calm: float  # speed of the first cache, the lower of before and after
    waited: float  # share of the time that threads were ready and others had their CPU
    stray: float = 0.0  # share of the time that workers which should have slept were running


def cpu_and_waiting_seconds(pid: int | str = "self") -> tuple[float, float]:
    """Of all threads of a process: seconds on a CPU, and seconds ready to run without one."""
    running = waiting = 0.0
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            words = task.read_text().split()
        except OSError:  # the thread has ended meanwhile
            continue
        running += float(words[0]) * 1e-9
        waiting += float(words[1]) * 1e-9
    return running, waiting


def run_times(run: Callable[[], object], seconds: float, least: int = 1) -> list[float]:
    """Of one run after the other, for that long."""
    times: list[float] = []
    end = time.perf_counter() + seconds
    while len(times) < least or time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        times.append(time.perf_counter() - begin)
    return times


class Stopwatch:
    """Takes samples on a number of threads."""

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._yardsticks = headwise.Yardsticks(headwise.default_target(), largest_bytes=1 << 16)

    def sample(self, run: Callable[[], object], seconds: float, expected: float) -> Sample:
        """expected: seconds of one run. Runs that are not long are warmed up, since others used the caches."""
        peak_before = self._yardsticks.peak(self._threads, PEAK_SECONDS)
        if expected < seconds:
            run_times(run, min(seconds / 4, 0.01))
        calm_before = self._yardsticks.calm(self._threads)
        waited_before = cpu_and_waiting_seconds()[1]
        begin = time.perf_counter()
        times = run_times(run, seconds)
        elapsed = time.perf_counter() - begin
        waited = (cpu_and_waiting_seconds()[1] - waited_before) / (elapsed * self._threads)
        calm_after = self._yardsticks.calm(self._threads)
        peak_after = self._yardsticks.peak(self._threads, PEAK_SECONDS)
        return Sample(statistics.median(times), len(times), (peak_before + peak_after) / 2.0,
                      min(calm_before, calm_after), waited)
