"""One picture: for every row, how many times Headwise's time each peer takes, on a scale of powers of two."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence

from headwise.peers.frameworks import FRAMEWORKS, load
from headwise.peers.measure import REFERENCE
from headwise.peers.summary import Summary
from headwise.peers.table import by_row, short_time
from headwise.peers.verdict import BEHIND, standing

# Pixels. A page shows the picture some 830 wide, so nothing is written smaller than 13.
MARGIN = 16.0
LABEL = 236.0  # text left of the first panel
PANEL = 332.0
GAP = 52.0
END = 14.0  # right of the last panel, for the arrows
TOP = 152.0
ROW = 22.0
GROUP = 36.0  # from the end of a group to the next one's first row, its title between them
BOTTOM = 44.0

# Ratios at the panels' ends. The left one goes as far as the fastest peer needs, down to the last; what lies beyond
# the right one is drawn there with an arrow.
LEAST, LAST, MOST = 0.7, 0.25, 16.0

# Class → colour on light and on dark paper.
COLOURS = {"paper": ("#fbfcfd", "#0d1117"), "ink": ("#1d2733", "#e6edf3"), "faint": ("#66717f", "#9aa6b2"),
           "grid": ("#e1e6eb", "#29313a"), "link": ("#cbd3db", "#434c56"), "miss": ("#c2293a", "#ff7b72")}
# Colours that stay apart for the colour-blind, and a shape for each.
MARKS = {"torch": ("#d1581a", "#f0803c", "circle"), "keras-tensorflow": ("#1b7a63", "#3fbf9f", "square"),
         "keras-jax": ("#58a618", "#86cf45", "square"), "keras-torch": ("#e0a400", "#f2c94c", "square"),
         "jax": ("#7a4fb5", "#b392f0", "diamond"), "onnxruntime": ("#1f78b4", "#5cb0ea", "triangle"),
         "openvino": ("#d6499a", "#f08cc4", "circle")}


def _style() -> str:
    """Fills and strokes of the classes, and the other ones where the reader's paper is dark."""
    colours = COLOURS | {key: (light, dark) for key, (light, dark, _) in MARKS.items()}
    light, dark = ("".join(f".{name}{{fill:{both[i]}}} line.{name}{{stroke:{both[i]}}}"
                           for name, both in colours.items()) + f" .edged{{stroke:{COLOURS['paper'][i]}}}"
                   for i in (0, 1))
    return f"<style>{light} @media (prefers-color-scheme: dark){{{dark}}}</style>"


class Canvas:
    """Elements of an SVG file; colours are classes."""

    def __init__(self) -> None:
        self._body: list[str] = []

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1.0) -> None:
        self._body.append(f"<line x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}' class='{colour}' "
                          f"stroke-width='{width}'/>")

    def text(self, x: float, y: float, text: str, size: float = 14.0, colour: str = "ink", anchor: str = "start",
             bold: bool = False) -> None:
        # Bold text may lie on a scale's line, which its edge hides.
        weight = " font-weight='bold' paint-order='stroke' stroke-width='5'" if bold else ""
        colour = f"edged {colour}" if bold else colour
        self._body.append(f"<text x='{x:.1f}' y='{y:.1f}' font-size='{size}' class='{colour}' "
                          f"text-anchor='{anchor}'{weight}>{html.escape(text, quote=False)}</text>")

    def mark(self, x: float, y: float, key: str, title: str = "") -> None:
        shape = MARKS[key][2]
        points = {"square": "-4.4,-4.4 4.4,-4.4 4.4,4.4 -4.4,4.4", "diamond": "0,-5.9 5.9,0 0,5.9 -5.9,0",
                  "triangle": "0,-5.5 5.5,4.4 -5.5,4.4"}
        inner = "<circle r='5'/>" if shape == "circle" else f"<polygon points='{points[shape]}'/>"
        note = f"<title>{html.escape(title, quote=False)}</title>" if title else ""
        self._body.append(f"<g transform='translate({x:.1f} {y:.1f})' class='edged {key}' fill-opacity='0.9' "
                          f"stroke-width='0.8'>{note}{inner}</g>")

    def document(self, width: float, height: float) -> str:
        return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width:.0f}' height='{height:.0f}' "
                f"viewBox='0 0 {width:.0f} {height:.0f}' "
                "font-family='DejaVu Sans, Verdana, Helvetica, Arial, sans-serif'>\n"
                + "\n".join([_style(), "<rect width='100%' height='100%' class='paper'/>", *self._body]) + "\n</svg>\n")


class Panel:
    """Where ratios are drawn: a scale from `least` to MOST, its left end at `left`."""

    def __init__(self, canvas: Canvas, left: float, least: float) -> None:
        self._canvas = canvas
        self._left = left
        self._least = least

    def x(self, ratio: float) -> float:
        bounded = min(max(ratio, self._least), MOST)
        return self._left + PANEL * math.log(bounded / self._least) / math.log(MOST / self._least)

    def scale(self, title: str, bottom: float) -> None:
        self._canvas.text(self._left + PANEL / 2, TOP - 28, title, 15, anchor="middle", bold=True)
        for power in range(math.ceil(math.log2(self._least)), round(math.log2(MOST)) + 1):
            ratio = 2.0**power
            x, ours = self.x(ratio), ratio == 1.0
            self._canvas.line(x, TOP, x, bottom, "ink" if ours else "grid", 1.6 if ours else 1.0)
            label = "Headwise" if ours else f"{ratio:g}×"
            self._canvas.text(x, TOP - 6, label, 13, "ink" if ours else "faint", "middle", ours)

    def row(self, row: dict[str, Summary], y: float) -> None:
        measured = {key: s for key, s in row.items() if key != REFERENCE and s.ratio is not None}
        if not measured:
            return
        ratios = [s.ratio.median for s in measured.values()]
        self._canvas.line(self.x(min(ratios)), y, self.x(max(ratios)), y, "link")
        for key, s in sorted(measured.items(), key=lambda item: -item[1].ratio.median):
            x = self.x(s.ratio.median)
            title = f"{load(key).name}: {s.ratio.median:.2f} × Headwise's {short_time(row[REFERENCE].seconds.median)}"
            self._canvas.mark(x, y, key, title)
            if s.ratio.median > MOST:
                self._canvas.text(x + 8, y + 4.5, "›", 15, key, bold=True)
        if standing(list(row.values())) == BEHIND:
            self._canvas.text(self.x(min(ratios)) - 9, y + 4.5, "behind", 13, "miss", "end", bold=True)


def least_ratio(summaries: Sequence[Summary]) -> float:
    """The left end of all panels."""
    fastest = min((s.ratio.median for s in summaries if s.ratio is not None), default=1.0)
    return min(LEAST, max(LAST, 0.95 * fastest))


def _groups(summaries: Sequence[Summary]) -> dict[str, list[str]]:
    """Title → row ids."""
    groups: dict[str, list[str]] = {}
    for s in summaries:
        ids = groups.setdefault(s.row.group, [])
        if s.row.id not in ids:
            ids.append(s.row.id)
    return groups


def _legend(canvas: Canvas, keys: list[str], y: float) -> None:
    x = MARGIN
    for key in keys:
        canvas.mark(x + 6, y, key)
        name = load(key).name
        canvas.text(x + 16, y + 5, name)
        x += 36 + 8.0 * len(name)


def chart(summaries: Sequence[Summary], footer: str) -> str:
    """The SVG file's text. One panel for each number of threads."""
    rows = by_row(summaries)
    threads = list(dict.fromkeys(s.threads for s in summaries))
    keys = [key for key in FRAMEWORKS if key in MARKS and any(s.framework == key for s in summaries)]
    groups = _groups(summaries)
    height = TOP + sum(GROUP + ROW * len(ids) for ids in groups.values()) + BOTTOM
    width = max(2 * MARGIN + LABEL + len(threads) * PANEL + (len(threads) - 1) * GAP + END, 980.0)

    canvas = Canvas()
    canvas.text(MARGIN, 36, "The same computation by others: time over Headwise's time", 22, bold=True)
    canvas.text(MARGIN, 62, "Right of the line: slower than Headwise. Same numbers in, outputs compared; float32; "
                "medians of rounds.", 14, "faint")
    _legend(canvas, keys, 88)
    least = least_ratio(summaries)
    panels = {count: Panel(canvas, MARGIN + LABEL + i * (PANEL + GAP), least) for i, count in enumerate(threads)}
    for count, panel in panels.items():
        panel.scale(f"{count} thread{'s' if count > 1 else ''}", height - BOTTOM)
    labels = {s.row.id: s.row.label for s in summaries}
    y = TOP
    for title, ids in groups.items():
        canvas.text(MARGIN, y + GROUP - 8, title, 14, bold=True)
        y += GROUP
        for id in ids:
            canvas.text(MARGIN, y + ROW / 2 + 5, labels[id])
            for count, panel in panels.items():
                panel.row(rows.get((count, id), {}), y + ROW / 2)
            y += ROW
    canvas.text(MARGIN, height - 14, footer, 13, "faint")
    return canvas.document(width, height)
