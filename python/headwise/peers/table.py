"""The tables: Markdown that reads well in a terminal, too."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from headwise.peers.frameworks import FRAMEWORKS, load
from headwise.peers.measure import REFERENCE
from headwise.peers.summary import Spread, Summary


def short_time(seconds: float) -> str:
    """
    >>> from headwise.peers.table import short_time
    >>> short_time(0.0000512), short_time(0.01234), short_time(2.5)
    ('51.2 µs', '12.3 ms', '2.50 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            value = seconds / size
            digits = 0 if value >= 100 else 1 if value >= 10 else 2
            return f"{value:.{digits}f} {unit}"
    raise AssertionError


def short_ratio(spread: Spread) -> str:
    """
    >>> from headwise.peers.table import Spread, short_ratio
    >>> short_ratio(Spread(1.234, 1.2, 1.3)), short_ratio(Spread(17.2, 16.9, 18.4))
    ('1.23 (1.20–1.30)', '17 (17–18)')
    """
    digits = 0 if spread.median >= 10 else 2
    return f"{spread.median:.{digits}f} ({spread.low:.{digits}f}–{spread.high:.{digits}f})"


def _headwise_cell(s: Summary) -> str:
    if s.seconds is None or s.share is None:
        return s.why_not
    share = f"{100 * s.share.median:.0f}% ({100 * s.share.low:.0f}–{100 * s.share.high:.0f})"
    return f"{'~' if s.disturbed else ''}{short_time(s.seconds.median)}, {share}"


def _peer_cell(s: Summary, best: bool) -> str:
    if s.ratio is None:
        return "–"
    text = ("~" if s.disturbed else "") + ("=" if s.level else "") + short_ratio(s.ratio)
    return f"**{text}**" if best else text


def peers_of(row: Sequence[Summary]) -> list[Summary]:
    """Those with a ratio, of one row and thread count."""
    return [s for s in row if s.framework != REFERENCE and s.ratio is not None]


def fastest_peer(row: Sequence[Summary]) -> Summary | None:
    """Of one row and thread count."""
    return min(peers_of(row), key=lambda s: s.ratio.median, default=None)


def _width(text: str) -> int:
    return sum(unicodedata.combining(c) == 0 for c in text)


def aligned(cells: list[list[str]]) -> str:
    """A Markdown table; the first row of cells is the head."""
    widths = [max(_width(row[i]) for row in cells) for i in range(len(cells[0]))]
    lines = ["| " + " | ".join(c + " " * (w - _width(c)) for c, w in zip(row, widths, strict=True)) + " |"
             for row in cells]
    return "\n".join([lines[0], "|" + "|".join("-" * (w + 2) for w in widths) + "|", *lines[1:]])


def by_row(summaries: Sequence[Summary]) -> dict[tuple[int, str], dict[str, Summary]]:
    """(threads, row id) → framework → summary, in order."""
    rows: dict[tuple[int, str], dict[str, Summary]] = {}
    for s in summaries:
        rows.setdefault((s.threads, s.row.id), {})[s.framework] = s
    return rows


def tables(summaries: Sequence[Summary]) -> str:
    """One for each number of threads and group of rows."""
    keys = [key for key in FRAMEWORKS if key != REFERENCE and any(s.framework == key for s in summaries)]
    grouped: dict[tuple[int, str], list[dict[str, Summary]]] = {}
    for (threads, _), row in by_row(summaries).items():
        group = next(iter(row.values())).row.group
        grouped.setdefault((threads, group), []).append(row)
    text = []
    for (threads, group), rows in grouped.items():
        head = [f"{group}, {threads} thread{'s' if threads > 1 else ''}", "shape", "Headwise",
                *(load(key).name for key in keys)]
        text.append(aligned([head, *(_cells(row, keys) for row in rows)]))
    return "\n\n".join(text)


def _cells(row: dict[str, Summary], keys: list[str]) -> list[str]:
    any_summary = next(iter(row.values()))
    best = fastest_peer(list(row.values()))
    cells = [any_summary.row.label, any_summary.row.shape]
    cells.append(_headwise_cell(row[REFERENCE]) if REFERENCE in row else "–")
    return cells + [_peer_cell(row[key], row[key] is best) if key in row else "–" for key in keys]


def reasons(summaries: Sequence[Summary]) -> str:
    """Who did not compute which rows, and why."""
    found: dict[tuple[str, str], list[str]] = {}
    for s in summaries:
        if s.why_not:
            found.setdefault((s.framework, s.why_not), []).append(s.row.id)
    lines = [f"- {load(key).name}: {why} ({', '.join(dict.fromkeys(ids))})" for (key, why), ids in found.items()]
    return "\n".join(lines)


def differences(summaries: Sequence[Summary]) -> str:
    """The largest difference from Headwise's outputs, of every framework."""
    largest: dict[str, Summary] = {}
    for s in summaries:
        known = largest.get(s.framework)
        if s.framework != REFERENCE and s.difference is not None and (
                known is None or s.difference > known.difference):
            largest[s.framework] = s
    return "\n".join(f"- {load(key).name}: {s.difference:.1e} ({s.row.id})" for key, s in largest.items())
