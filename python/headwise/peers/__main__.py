"""python -m headwise.peers: measure, compare, tell."""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import sys

from headwise.peers import __doc__ as description
from headwise.peers import chart, report
from headwise.peers.frameworks import FRAMEWORKS, load, versions
from headwise.peers.measure import QUICK, REFERENCE, Effort, measure
from headwise.peers.progress import Progress
from headwise.peers.rows import ROWS, Row
from headwise.peers.summary import summarise


def _counts(text: str) -> list[int]:
    """"1,2" → [1, 2], no more than there are CPUs."""
    try:
        counts = [int(word) for word in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers like 1,2, got {text!r}") from None
    cpus = len(os.sched_getaffinity(0))
    if any(not 1 <= count <= cpus for count in counts):
        raise argparse.ArgumentTypeError(f"expected numbers from 1 to {cpus}, the CPUs there are, got {text!r}")
    return counts


def _frameworks(text: str) -> list[str]:
    keys = text.split(",")
    if unknown := [key for key in keys if key not in FRAMEWORKS]:
        raise argparse.ArgumentTypeError(f"expected some of {', '.join(FRAMEWORKS)}, got {unknown[0]!r}")
    return [REFERENCE, *(key for key in keys if key != REFERENCE)]


def _rows(text: str) -> list[Row]:
    try:
        rows = [row for row in ROWS if re.search(text, row.id)]
    except re.error as error:
        raise argparse.ArgumentTypeError(f"expected a regular expression, got {text!r}: {error}") from None
    if not rows:
        raise argparse.ArgumentTypeError(f"no row matches {text!r}; --list shows them")
    return rows


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, got {text!r}")
    return int(text)


def _file(text: str) -> pathlib.Path:
    """One that can be written: better to know before hours of measuring."""
    path = pathlib.Path(text)
    new = not path.exists()
    if new and not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"expected a file in a folder that exists, got {text!r}")
    if path.is_dir() or not os.access(path.parent if new else path, os.W_OK):
        raise argparse.ArgumentTypeError(f"expected a file that can be written, got {text!r}")
    return path


def _write(path: pathlib.Path | None, text: str) -> bool:
    """Whether it went well, so that one file that fails does not take the others with it."""
    try:
        if path is not None:
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        print(f"cannot write {path}: {error.strerror}", file=sys.stderr)
        return False
    return True


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m headwise.peers", description=description,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--rows", type=_rows, default=list(ROWS), metavar="REGEX", help="only rows whose name has it")
    result.add_argument("--threads", type=_counts, default=[n for n in (1, 2) if n <= len(os.sched_getaffinity(0))],
                        help="numbers of threads, each of them a CPU (1,2)")
    result.add_argument("--frameworks", type=_frameworks, default=list(FRAMEWORKS),
                        help="some of " + ", ".join(FRAMEWORKS))
    result.add_argument("--quick", action="store_true", help="few and short rounds: a look")
    result.add_argument("--rounds", type=_rounds, help=f"at most this many ({Effort().rounds})")
    result.add_argument("--json", type=_file, metavar="FILE", help="write everything that was measured")
    result.add_argument("--svg", type=_file, metavar="FILE", help="write the picture")
    result.add_argument("--markdown", type=_file, metavar="FILE", help="write the text that is printed")
    result.add_argument("--list", action="store_true", help="show the rows and leave")
    return result


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    if options.list:
        for row in options.rows:
            print(f"{row.id:26}{row.shape:34}{row.flops / 1e9:10.3f} GFLOP  {row.group}: {row.label}")
        return 0
    effort = QUICK if options.quick else Effort()
    if options.rounds:
        effort = Effort(**(vars(effort) | {"rounds": options.rounds}))
    not_there = {key: "not installed: " + ", ".join(missing) for key in options.frameworks
                 if (missing := versions(load(key))[1])}
    present = [key for key in options.frameworks if key not in not_there]
    measurements, failures = measure(options.rows, present, options.threads, effort, Progress().show)
    not_there |= failures
    summaries = summarise(measurements)
    text = report.text(measurements, summaries, options.frameworks, not_there)
    print(text)
    written = [
        _write(options.json, report.json_text(measurements, summaries, options.frameworks, not_there)),
        _write(options.markdown, text + "\n"),
        _write(options.svg, chart.chart(summaries, report.machine_line(measurements))),
    ]
    return 0 if all(written) else 1


if __name__ == "__main__":
    sys.exit(main())
