#!/usr/bin/env python3
"""Configures, builds and tests presets of CMakePresets.json, then counts the test cases.

Usage: run_tests.py PRESET...
The Python package of a preset, if it builds one, is installed into .venv before its tests run.
The last line is "N passed, N failed" and nothing else. A suite that crashes or leaks counts as one
failure more than its cases tell; so does a preset that does not build. Later presets still run.
What passing suites print (errors and memory they measured) is shown before the count.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
# What GoogleTest, rapidcheck and pytest say in every run.
BOILERPLATE = re.compile(
    r"\[[ =\-A-Z]+\] |Running main|Using configuration|OK, passed|  YOU HAVE"
    r"|[.sxF]+ +\[ *\d+%\]|\d+ passed|- generated xml file"
)


def suite_cases(report: pathlib.Path) -> tuple[int, int, int]:
    """Passed, failed and skipped cases in an XML file of GoogleTest or pytest."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") == "notrun":
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def count(results: pathlib.Path) -> tuple[int, int, int]:
    """Passed, failed and skipped cases of a ctest run; whatever is not a suite is one case."""
    passed = failed = skipped = 0
    for entry in ElementTree.parse(results / "ctest.xml").iter("testcase"):
        report = results / f"{entry.get('name')}.xml"
        succeeded = entry.get("status") == "run"
        try:
            cases = suite_cases(report)
        except (FileNotFoundError, ElementTree.ParseError):
            cases = (1, 0, 0) if succeeded else (0, 1, 0)
        if not succeeded and cases[1] == 0:
            cases = (cases[0], 1, cases[2])  # it crashed, leaked or never ended
        passed, failed, skipped = (a + b for a, b in zip((passed, failed, skipped), cases))
    return passed, failed, skipped


def show_printed(results: pathlib.Path) -> None:
    """Prints what passing suites printed; ctest itself shows the output of failing tests only."""
    for entry in ElementTree.parse(results / "ctest.xml").iter("testcase"):
        is_suite = (results / f"{entry.get('name')}.xml").exists()
        if not is_suite or entry.get("status") != "run":
            continue
        lines = entry.findtext("system-out", "").splitlines()
        lines = [line for line in lines if line.strip() and not BOILERPLATE.match(line)]
        if lines:
            print(f"\n── {entry.get('name')} printed", *lines, sep="\n")


def emulator(preset: str) -> str | None:
    """The command that runs the tests, where they are built for another architecture."""
    cache = ROOT / "build" / preset / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    found = re.search(r"^CMAKE_CROSSCOMPILING_EMULATOR:\w+=(.+)$", text, re.MULTILINE)
    return found[1].replace(";", " ") if found else None


def package_step(preset: str) -> list[str] | None:
    """The command that builds the Python package of what the preset has built; None: it has none.

    pip would configure the same folder for a wheel alone: the settings say that it stays a folder of tests.
    """
    cache = ROOT / "build" / preset / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.exists() else ""
    if not (ROOT / "build" / preset / "python").exists():
        return None
    kind = re.search(r"^CMAKE_BUILD_TYPE:\w+=(.*)$", text, re.MULTILINE)
    settings = [f"build-dir=build/{preset}", f"cmake.build-type={kind[1] if kind else ''}"]
    settings += [f"cmake.define.{name}={value}" for name, value in re.findall(
        r"^(HEADWISE_(?:BUILD_(?!PYTHON)\w+|INSTALL)|BUILD_SHARED_LIBS):\w+=(.*)$", text, re.MULTILINE)]
    wheels = ROOT / "build" / preset / "wheel"
    shutil.rmtree(wheels, ignore_errors=True)
    return [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
            "--no-build-isolation", "--wheel-dir", str(wheels),
            *[f"--config-settings={setting}" for setting in settings], "."]


def install_package(preset: str) -> bool:
    """Puts the package into .venv, where the Python suites find it; False if that failed."""
    step = package_step(preset)
    if step is None:
        return True
    print(f"\n── {preset}: {' '.join(step)}", flush=True)
    if subprocess.run(step, cwd=ROOT, check=False).returncode != 0:
        return False
    wheel, = (ROOT / "build" / preset / "wheel").glob("headwise-*.whl")
    install = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-deps",
               "--force-reinstall", str(wheel)]
    print(f"── {preset}: {' '.join(install)}", flush=True)
    return subprocess.run(install, cwd=ROOT, check=False).returncode == 0


def run_preset(preset: str) -> tuple[int, int, int]:
    results = ROOT / "build" / preset / "results"
    shutil.rmtree(results, ignore_errors=True)  # an old report must not speak for a new crash
    results.mkdir(parents=True)
    jobs = str(os.cpu_count() or 1)
    steps = [
        ["cmake", "--preset", preset],
        ["cmake", "--build", "--preset", preset, "--parallel", jobs],
        ["ctest", "--preset", preset, "--output-junit", str(results / "ctest.xml"),
         "--test-output-size-passed", "1000000"],
    ]
    for step in steps:
        print(f"\n── {preset}: {' '.join(step)}", flush=True)
        if step[0] == "ctest" and not install_package(preset):
            print(f"{preset}: the Python package was not built", flush=True)
            return 0, 1, 0
        if step[0] == "ctest" and emulator(preset):
            print(f"── {preset}: every test runs under the emulator: {emulator(preset)}", flush=True)
        failed = subprocess.run(step, cwd=ROOT, check=False).returncode != 0
        if failed and not (results / "ctest.xml").exists():
            print(f"{preset}: failed before the tests could run", flush=True)
            return 0, 1, 0
    show_printed(results)
    return count(results)


def main() -> int:
    presets = sys.argv[1:]
    if not presets or presets[0].startswith("-"):
        print(__doc__)
        return 2
    totals = (0, 0, 0)
    summary = []
    for preset in presets:
        passed, failed, skipped = run_preset(preset)
        where = f" (emulated: {emulator(preset)})" if emulator(preset) else ""
        summary.append(f"{preset}{where}: {passed} cases passed, {failed} failed, {skipped} skipped")
        totals = tuple(a + b for a, b in zip(totals, (passed, failed, skipped)))
    print("", *summary, sep="\n")
    print(f"{totals[0]} passed, {totals[1]} failed")
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main())
