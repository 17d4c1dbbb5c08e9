"""What is written: the text, and the JSON with every sample in it."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Sequence

import headwise
from headwise.peers.frameworks import load, versions
from headwise.peers.measure import Measurement
from headwise.peers.summary import Summary, quantile
from headwise.peers.table import differences, reasons, tables
from headwise.peers.verdict import as_json, verdict


def cpu_name() -> str:
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown CPU"


def machine_line(measurements: Sequence[Measurement]) -> str:
    """The CPU, and its FMA peak on each number of threads: the median of what was measured beside the samples."""
    peaks: dict[int, list[float]] = {}
    for m in measurements:
        peaks.setdefault(m.threads, []).extend(s.peak for s in m.samples.values())
    measured = [f"{quantile(values, 0.5) / 1e9:.0f} GFLOP/s on {threads} thread{'s' if threads > 1 else ''}"
                for threads, values in peaks.items() if values]
    return f"{cpu_name()}, target {headwise.default_target()}; FMA peak {', '.join(measured)}"


def framework_lines(frameworks: Sequence[str], missing: dict[str, str]) -> str:
    """Name, versions and settings of each; or why it is not there."""
    lines = []
    for key in frameworks:
        peer = load(key)
        found = ", ".join(f"{package} {version}" for package, version in versions(peer)[0].items())
        lines.append(f"- {peer.name}: " + (f"**not measured**: {missing[key]}" if key in missing
                                           else f"{found}. {peer.settings}"))
    return "\n".join(lines)


def text(measurements: Sequence[Measurement], summaries: Sequence[Summary], frameworks: Sequence[str],
         missing: dict[str, str]) -> str:
    """All of it, in Markdown."""
    parts = [machine_line(measurements) + ".",
             "Headwise: median time and share of the FMA peak. Others: their time over Headwise's, median and "
             "quartiles of the rounds; the fastest of them in bold. `=`: level with Headwise, the quartiles include 1. "
             "`~`: disturbed in every round.",
             tables(summaries), verdict(summaries), "Frameworks and their settings:\n\n" +
             framework_lines(frameworks, missing)]
    if told := differences(summaries):
        parts.append("Largest difference from Headwise's outputs:\n\n" + told)
    if told := reasons(summaries):
        parts.append("Not computed:\n\n" + told)
    return "\n\n".join(parts)


def json_text(measurements: Sequence[Measurement], summaries: Sequence[Summary], frameworks: Sequence[str],
              missing: dict[str, str]) -> str:
    """Everything that was measured."""
    results = []
    for m, s in zip(measurements, summaries, strict=True):
        values = dataclasses.asdict(s)
        row = values.pop("row")
        tried = [dataclasses.asdict(t) for t in m.prepared.tried] if m.prepared else []
        samples = {number: dataclasses.asdict(sample) for number, sample in m.samples.items()}
        results.append({"id": row["id"], "shape": s.row.shape, "flops": s.row.flops, **values, "tried": tried,
                        "samples": samples})
    installed = {key: versions(load(key))[0] for key in frameworks}
    document = {"cpu": cpu_name(), "target": headwise.default_target(), "headwise": headwise.__version__,
                "packages": installed, "not_measured": missing, "standings": as_json(summaries), "results": results}
    return json.dumps(document, indent=1) + "\n"
