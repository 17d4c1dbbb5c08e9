"""Made-up measurements."""

from __future__ import annotations

from headwise.peers.measure import Measurement
from headwise.peers.rows import Row, find
from headwise.peers.timing import Sample
from headwise.peers.worker import Prepared, Tried


def sample(seconds: float, calm: float = 200e9, waited: float = 0.0, stray: float = 0.0) -> Sample:
    return Sample(seconds, runs=10, peak=100e9, calm=calm, waited=waited, stray=stray)


def measurement(framework: str, seconds: list[float], row: Row | None = None, threads: int = 1) -> Measurement:
    tried = Tried(f"{framework}'s way", difference=2e-7, seconds=seconds[0])
    return Measurement(row or find("attention-128"), threads, framework, Prepared(tried.way, [tried]),
                       {i: sample(s) for i, s in enumerate(seconds)})


def unable(framework: str, why: str) -> Measurement:
    return Measurement(find("attention-128"), 1, framework, Prepared(None, [], why))
