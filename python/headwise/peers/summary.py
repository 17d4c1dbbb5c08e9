"""Medians and quartiles of the rounds that nobody disturbed, and ratios to Headwise."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence

from headwise.peers.measure import REFERENCE, Measurement
from headwise.peers.rows import Row
from headwise.peers.timing import Sample

CALM = 0.93  # somebody on the same core leaves 0.6 or 0.7 of the first cache's speed
WAITED = 0.05  # beyond what the framework's own threads always wait for one another
MOST_WAITED = 0.25  # in all: who never waits less has been disturbed all the time, or waits for itself
STRAY = 0.02


def quantile(values: Iterable[float], part: float) -> float:
    """The value below which that part lies, between neighbours by straight line.

    >>> from headwise.peers.summary import quantile
    >>> quantile([4.0, 1.0, 2.0, 3.0], 0.25)
    1.75
    """
    ordered = sorted(values)
    place = part * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


@dataclasses.dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """
        >>> from headwise.peers.summary import Spread
        >>> Spread.of([1.0, 2.0, 3.0])
        Spread(median=2.0, low=1.5, high=2.5)
        """
        return cls(quantile(values, 0.5), quantile(values, 0.25), quantile(values, 0.75))


@dataclasses.dataclass(frozen=True)
class Summary:
    """What is told of a measurement. Without times `why_not` says why there are none."""

    row: Row
    threads: int
    framework: str
    why_not: str = ""
    way: str = ""
    difference: float | None = None
    seconds: Spread | None = None
    share: Spread | None = None  # of the FMA peak
    ratio: Spread | None = None  # its time over Headwise's
    disturbed: bool = False  # in all rounds
    rounds: int = 0  # that counted

    @property
    def level(self) -> bool:
        """With Headwise: its quartiles include 1."""
        return self.ratio is not None and self.ratio.low <= 1.0 <= self.ratio.high


class Quiet:
    """Which samples nobody disturbed; the calmest tenth of all samples says what calm is."""

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        calm: dict[int, list[float]] = {}
        waited: dict[tuple[str, int], list[float]] = {}
        for m in measurements:
            calm.setdefault(m.threads, []).extend(s.calm for s in m.samples.values())
            waited.setdefault((m.framework, m.threads), []).extend(s.waited for s in m.samples.values())
        self._calmest = {threads: quantile(values, 0.9) for threads, values in calm.items() if values}
        self._usual = {place: min(values) for place, values in waited.items() if values}

    def samples(self, m: Measurement) -> tuple[dict[int, Sample], bool]:
        """By round; all of them and True, if there is no quiet one."""
        if not m.samples:
            return {}, False
        calm = CALM * self._calmest[m.threads]
        waited = min(WAITED + self._usual[m.framework, m.threads], MOST_WAITED)
        quiet = {n: s for n, s in m.samples.items() if s.calm >= calm and s.waited <= waited and s.stray <= STRAY}
        return (quiet, False) if quiet else (dict(m.samples), True)


def why_not(m: Measurement) -> str:
    """Why there are no times; empty if there are."""
    if m.failure:
        return m.failure
    if m.prepared is None:
        return "Headwise has no result to compare with"
    if m.prepared.unable:
        return m.prepared.unable
    if m.prepared.chosen is None:
        tried = [f"{t.way}: {t.failure}" + ("" if t.difference is None else f" by {t.difference:.1e}")
                 for t in m.prepared.tried]
        return "; ".join(tried) or "no way to compute it"
    return ""


def ratio(mine: dict[int, Sample], reference: dict[int, Sample]) -> Spread:
    """Over the rounds that both have, so that what slowed one slowed the other; of medians, if there is none."""
    rounds = mine.keys() & reference.keys()
    if rounds:
        return Spread.of([mine[n].seconds / reference[n].seconds for n in rounds])
    base = quantile((s.seconds for s in reference.values()), 0.5)
    return Spread.of([s.seconds / base for s in mine.values()])


def summarise(measurements: Sequence[Measurement]) -> list[Summary]:
    """One for each measurement, in their order."""
    quiet = Quiet(measurements)
    references = {(m.row.id, m.threads): quiet.samples(m)[0] for m in measurements if m.framework == REFERENCE}
    return [_summary(m, quiet, references.get((m.row.id, m.threads), {})) for m in measurements]


def _summary(m: Measurement, quiet: Quiet, reference: dict[int, Sample]) -> Summary:
    reason = why_not(m)
    if reason or not m.samples:
        return Summary(m.row, m.threads, m.framework, reason or "not measured")
    assert m.prepared is not None
    samples, disturbed = quiet.samples(m)
    chosen = next(t for t in m.prepared.tried if t.way == m.prepared.chosen)
    return Summary(m.row, m.threads, m.framework, way=chosen.way, difference=chosen.difference,
                   seconds=Spread.of([s.seconds for s in samples.values()]),
                   share=Spread.of([m.row.flops / s.seconds / s.peak for s in samples.values()]),
                   ratio=ratio(samples, reference) if reference else None,
                   disturbed=disturbed, rounds=len(samples))
