"""A worker compares before it times: what differs or fails does not count, however fast it is."""

from __future__ import annotations

import pathlib
import time

import numpy as np
import pytest
from headwise.peers.peer import Peer, Unable, Way
from headwise.peers.rows import find
from headwise.peers.timing import Stopwatch, run_times
from headwise.peers.worker import Worker, largest_difference

ROW = find("tiny-1-512")
RIGHT = np.linspace(-1.0, 1.0, 8, dtype=np.float32)


def way(name: str, add: float = 0.0, seconds: float = 0.0) -> Way:
    def run() -> np.ndarray:
        time.sleep(seconds)
        return RIGHT + np.float32(add)

    return Way(name, run, lambda output: {"output": output})


def failing() -> Way:
    def run() -> None:
        raise RuntimeError("no such kernel\nand more about it")

    return Way("failing", run, lambda _: {})


class Given(Peer):
    name, packages, settings = "Given", (), ""

    def __init__(self, *ways: Way) -> None:
        self._ways = ways

    def ways(self, row, arrays):
        if not self._ways:
            raise Unable("cannot do that")
        yield from self._ways


@pytest.fixture
def reference(tmp_path) -> pathlib.Path:
    path = tmp_path / "outputs.npz"
    prepared = Worker(Given(way("ours")), 1).prepare(ROW, path, 0.0)
    assert (prepared.chosen, prepared.tried[0].difference) == ("ours", 0.0)
    return path


def test_the_fastest_right_way_counts(reference):
    worker = Worker(Given(way("slow", seconds=0.02), way("right", 1e-6, 0.002), way("wrong", 1e-4), failing()), 1)
    prepared = worker.prepare(ROW, reference, 0.0)
    assert prepared.chosen == "right"
    told = {t.way: t.failure for t in prepared.tried}
    assert told == {"slow": "", "right": "", "wrong": "differs", "failing": "RuntimeError: no such kernel"}
    taken = worker.sample(0.01)
    assert 0.002 <= taken.seconds < 0.02 and taken.runs >= 1 and taken.peak > 1e8 and taken.calm > 1e8


def test_nothing_right_is_no_time(reference):
    prepared = Worker(Given(way("wrong", 1e-4), way("infinite", np.inf)), 1).prepare(ROW, reference, 0.0)
    assert prepared.chosen is None
    assert prepared.tried[0].difference == pytest.approx(1e-4, rel=1e-2)
    assert prepared.tried[1].failure == "differs"


def test_unable_says_why(reference):
    assert Worker(Given(), 1).prepare(ROW, reference, 0.0).unable == "cannot do that"


def test_other_outputs_are_an_error():
    with pytest.raises(ValueError, match=r"expected the outputs \['output'\], got \['key'\]"):
        largest_difference({"output": RIGHT}, {"key": RIGHT})
    with pytest.raises(ValueError, match=r"output: expected the shape \(8,\), got \(4,\)"):
        largest_difference({"output": RIGHT}, {"output": RIGHT[:4]})


def test_nan_is_a_difference():
    assert largest_difference({"output": RIGHT}, {"output": RIGHT * np.float32("nan")}) == float("inf")


def test_runs_at_least_so_often():
    assert len(run_times(lambda: None, 0.0, least=3)) == 3
    assert Stopwatch(1).sample(lambda: time.sleep(0.001), 0.0, 1.0).runs == 1
