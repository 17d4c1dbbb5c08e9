"""One picture: for every row, how many times Headwise's time each peer takes, on a scale of powers of two."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from headwise.peers.frameworks import FRAMEWORKS, load
from headwise.peers.measure import REFERENCE
from headwise.peers.summary import Summary
from headwise.peers.table import by_row, fastest_peer, short_time

# Pixels.
MARGIN = 36.0
LABEL = 400.0  # text left of the first panel
PANEL = 470.0
GAP = 76.0
TOP = 150.0
ROW = 20.0
GROUP = 36.0

# Ratios at the panel's ends; what lies beyond is drawn at the end with an arrow.
LEAST, MOST = 0.5, 16.0

INK, FAINT, GRID, MISS = "#1d2733", "#7a8594", "#e1e6eb", "#c2293a"
# Colours that stay apart for the colour-blind, and a shape for each.
MARKS = {"torch": ("#d1581a", "circle"), "keras-tensorflow": ("#1b7a63", "square"), "keras-jax": ("#58a618", "square"),
         "keras-torch": ("#e0a400", "square"), "jax": ("#7a4fb5", "diamond"), "onnxruntime": ("#1f78b4", "triangle"),
         "openvino": ("#d6499a", "circle")}


class Canvas:
    """Elements of an SVG file."""

    def __init__(self) -> None:
        self._body: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> None:
        self._body.append(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' stroke='{colour}' "
                          f"stroke-width='{width}'/>")

    def text(self, x: float, y: float, text: str, size: float = 12.0, colour: str = INK, anchor: str = "start",
             bold: bool = False) -> None:
        weight = " font-weight='bold'" if bold else ""
        self._body.append(f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{colour}' "
                          f"text-anchor='{anchor}'{weight}>{html.escape(text, quote=False)}</text>")

    def mark(self, x: float, y: float, key: str, title: str = "") -> None:
        colour, shape = MARKS[key]
        points = {"square": "-4,-4 4,-4 4,4 -4,4", "diamond": "0,-5.4 5.4,0 0,5.4 -5.4,0", "triangle": "0,-5 5,4 -5,4"}
        inner = "<circle r='4.6'/>" if shape == "circle" else f"<polygon points='{points[shape]}'/>"
        note = f"<title>{html.escape(title, quote=False)}</title>" if title else ""
        self._body.append(f"<g transform='translate({x:.1f} {y:.1f})' fill='{colour}' fill-opacity='0.88' "
                          f"stroke='white' stroke-width='0.8'>{note}{inner}</g>")

    def document(self, width: float, height: float) -> str:
        return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
                f"viewBox='0 0 {width:.0f} {height:.0f}' "
                "font-family='DejaVu Sans, Verdana, Helvetica, Arial, sans-serif'>\n"
                "<rect width='100%' height='100%' fill='#fbfcfd'/>\n" + "\n".join(self._body) + "\n</svg>\n")


def place(ratio: float) -> float:
    """From 0 at LEAST to 1 at MOST.

    >>> from headwise.peers.chart import place
    >>> place(0.5), place(1000.0), round(place(1.0), 3)
    (0.0, 1.0, 0.2)
    """
    bounded = min(max(ratio, LEAST), MOST)
    return math.log(bounded / LEAST) / math.log(MOST / LEAST)


def _groups(summaries: Sequence[Summary]) -> dict[str, list[str]]:
    """Title → row ids."""
    groups: dict[str, list[str]] = {}
    for s in summaries:
        ids = groups.setdefault(s.row.group, [])
        if s.row.id not in ids:
            ids.append(s.row.id)
    return groups


def _scale(canvas: Canvas, left: float, top: float, bottom: float) -> None:
    for power in range(round(math.log2(LEAST)), round(math.log2(MOST)) + 1):
        ratio = 2.0**power
        x = left + PANEL * place(ratio)
        canvas.line(x, top, x, bottom, INK if ratio == 1.0 else GRID, 1.6 if ratio == 1.0 else 1.0)
        label = "Headwise" if ratio == 1.0 else f"{ratio:g}×"
        canvas.text(x, top - 6, label, 10.5, INK if ratio == 1.0 else FAINT, "middle", ratio == 1.0)


def _row(canvas: Canvas, row: dict[str, Summary], left: float, y: float) -> None:
    measured = {key: s for key, s in row.items() if key != REFERENCE and s.ratio is not None}
    if not measured:
        return
    best = fastest_peer(list(row.values()))
    ratios = [s.ratio.median for s in measured.values()]
    canvas.line(left + PANEL * place(min(ratios)), y, left + PANEL * place(max(ratios)), y, "#cbd3db")
    for key, s in sorted(measured.items(), key=lambda item: -item[1].ratio.median):
        x = left + PANEL * place(s.ratio.median)
        title = f"{load(key).name}: {s.ratio.median:.2f} × Headwise's {short_time(row[REFERENCE].seconds.median)}"
        canvas.mark(x, y, key, title)
        if s.ratio.median > MOST:
            canvas.text(x + 7, y + 4, "›", 13, MARKS[key][0], bold=True)
    if best.ratio.median < 1.0:
        canvas.text(left - 6, y + 4, "behind", 10, MISS, "end", bold=True)


def _legend(canvas: Canvas, keys: list[str], y: float) -> None:
    x = MARGIN
    for key in keys:
        canvas.mark(x + 5, y, key)
        name = load(key).name
        canvas.text(x + 15, y + 4.2, name)
        x += 34 + 7.4 * len(name)


def chart(summaries: Sequence[Summary], footer: str) -> str:
    """The SVG file's text. One panel for each number of threads."""
    rows = by_row(summaries)
    threads = list(dict.fromkeys(s.threads for s in summaries))
    keys = [key for key in FRAMEWORKS if key in MARKS and any(s.framework == key for s in summaries)]
    groups = _groups(summaries)
    height = TOP + sum(GROUP + ROW * len(ids) for ids in groups.values()) + 56
    width = max(2 * MARGIN + LABEL + len(threads) * PANEL + (len(threads) - 1) * GAP, 1000.0)
    lefts = {count: MARGIN + LABEL + i * (PANEL + GAP) for i, count in enumerate(threads)}

    canvas = Canvas()
    canvas.text(MARGIN, 46, "The same computation by others: time over Headwise's time", 24, bold=True)
    canvas.text(MARGIN, 72, "Right of the line: slower than Headwise. Same numbers in, outputs compared; float32; "
                "medians of rounds that took turns.", 14, FAINT)
    _legend(canvas, keys, 100)
    for count, left in lefts.items():
        canvas.text(left + PANEL / 2, 128, f"{count} thread{'s' if count > 1 else ''}", 14, anchor="middle", bold=True)
        _scale(canvas, left, TOP, height - 50)
    labels = {s.row.id: s.row for s in summaries}
    y = TOP
    for title, ids in groups.items():
        canvas.text(MARGIN, y + 24, title, 13, bold=True)
        y += GROUP
        for id in ids:
            canvas.text(MARGIN, y + 4, labels[id].label)
            canvas.text(MARGIN + LABEL - 62, y + 4, labels[id].shape, 10.5, FAINT, "end")
            for count, left in lefts.items():
                _row(canvas, rows.get((count, id), {}), left, y)
            y += ROW
    canvas.text(MARGIN, height - 18, footer, 12, FAINT)
    return canvas.document(width, height)
