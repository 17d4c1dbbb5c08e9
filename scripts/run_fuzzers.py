#!/usr/bin/env python3
"""Builds the fuzzers of the file readers and runs each for a while, two at a time.

Usage: run_fuzzers.py SECONDS [TARGET...]
Each begins with its committed files (tests/fuzz/corpus/TARGET) and with what earlier runs found
(build/fuzz/corpus/TARGET). An input that breaks something is put into build/fuzz/artifacts.
The last line is "N passed, N failed" and nothing else.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "fuzz"

# A few kilobytes of input never need more memory than this: what files claim must cost nothing.
LIMITS = ["-max_len=8192", "-malloc_limit_mb=128", "-rss_limit_mb=1024", "-timeout=10"]


@dataclasses.dataclass
class Outcome:
    target: str
    passed: bool
    runs: int
    coverage: int
    seconds: float
    output: str


def build() -> bool:
    jobs = str(os.cpu_count() or 1)
    steps = [
        ["cmake", "--preset", "fuzz"],
        ["cmake", "--build", "--preset", "fuzz", "--parallel", jobs],
    ]
    for step in steps:
        print(f"── fuzz: {' '.join(step)}", flush=True)
        if subprocess.run(step, cwd=ROOT, check=False).returncode != 0:
            return False
    return True


def last_number(pattern: str, text: str) -> int:
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def run(target: str, seconds: int) -> Outcome:
    committed = ROOT / "tests" / "fuzz" / "corpus" / target
    found = BUILD / "corpus" / target
    artifacts = BUILD / "artifacts"
    for folder in (found, artifacts):
        folder.mkdir(parents=True, exist_ok=True)
    command = [
        str(BUILD / "tests" / "fuzz" / f"{target}_fuzz"),
        f"-max_total_time={seconds}",
        f"-artifact_prefix={artifacts}/{target}-",
        "-print_final_stats=1",
        *LIMITS,
        str(found),
        str(committed),
    ]
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, check=False)
    output = (done.stdout + done.stderr).decode("utf-8", "replace")
    return Outcome(
        target=target,
        passed=done.returncode == 0 and committed.is_dir(),
        runs=last_number(r"stat::number_of_executed_units:\s*(\d+)", output),
        coverage=last_number(r"cov: (\d+)", output),
        seconds=time.monotonic() - start,
        output=output,
    )


def main() -> int:
    arguments = sys.argv[1:]
    if not arguments or not arguments[0].isdigit():
        print(__doc__)
        return 2
    seconds = int(arguments[0])
    known = sorted(path.stem.removesuffix("_fuzz") for path in ROOT.glob("tests/fuzz/*_fuzz.cc"))
    targets = arguments[1:] or known
    unknown = set(targets) - set(known)
    if unknown:
        print(f"no fuzzer {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        return 2
    if not build():
        print("the fuzzers do not build")
        print("0 passed, 1 failed")
        return 1
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for outcome in pool.map(lambda target: run(target, seconds), targets):
            result = "found nothing" if outcome.passed else "FAILED"
            print(
                f"{outcome.target}: {result}, {outcome.runs} runs, coverage {outcome.coverage}, "
                f"{outcome.seconds:.0f} s",
                flush=True,
            )
            if not outcome.passed:
                failed += 1
                print(*outcome.output.splitlines()[-40:], sep="\n", flush=True)
    print(f"{len(targets) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
