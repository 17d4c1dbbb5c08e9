"""Where Headwise is first, level or behind, row by row."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.peers.frameworks import load
from headwise.peers.summary import Summary
from headwise.peers.table import by_row, fastest_peer, peers_of, short_ratio

FIRST, LEVEL, BEHIND = "first", "level", "behind"


def standing(row: Sequence[Summary]) -> str | None:
    """Of one row and thread count: whether quartiles are beside 1, and on which side; None without a peer.

    >>> from headwise.peers.rows import find
    >>> from headwise.peers.summary import Spread
    >>> from headwise.peers.verdict import standing
    >>> peer = Summary(find("tiny-8-256"), 1, "torch", ratio=Spread(1.02, 0.99, 1.04))
    >>> standing([peer])
    'level'
    """
    peers = peers_of(row)
    if not peers:
        return None
    if any(s.ratio.high < 1.0 for s in peers):
        return BEHIND
    return LEVEL if any(s.level for s in peers) else FIRST


def standings(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Standing → the fastest peer of each row that has it."""
    found: dict[str, list[Summary]] = {FIRST: [], LEVEL: [], BEHIND: []}
    for row in by_row(summaries).values():
        kind = standing(list(row.values()))
        if kind is not None:
            found[kind].append(fastest_peer(list(row.values())))
    return found


def verdict(summaries: Sequence[Summary]) -> str:
    """In how many rows Headwise is first, and in which not."""
    found = standings(summaries)
    first, level, behind = (len(found[kind]) for kind in (FIRST, LEVEL, BEHIND))
    lines = [f"Headwise is first in {first} of {first + level + behind} rows, level in {level}, behind in {behind}."]
    for kind, title in ((LEVEL, "Level, since the quartiles include 1:"), (BEHIND, "Behind:")):
        if found[kind]:
            lines += ["", title, "", *(_line(s) for s in found[kind])]
    return "\n".join(lines)


def _line(s: Summary) -> str:
    return (f"- {s.row.id}, {s.threads} thread{'s' if s.threads > 1 else ''}: {load(s.framework).name} takes "
            f"{short_ratio(s.ratio)} of Headwise's time ({s.way})")


def as_json(summaries: Sequence[Summary]) -> dict[str, list[dict[str, object]]]:
    """Standing → rows, each with its fastest peer."""
    return {kind: [{"id": s.row.id, "threads": s.threads, "framework": s.framework} for s in peers]
            for kind, peers in standings(summaries).items()}
