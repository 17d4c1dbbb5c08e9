#!/usr/bin/env python3
"""Checks that includes point down only, as docs/architecture.md draws the folders.

Usage: check_includes.py [--self-test]
Prints one line for each violation, "file:line: what", and a summary; exits 1 if there is one.
"""

from __future__ import annotations

import pathlib
import re
import sys
import tempfile

# Folder of src/ → folders directly below it. What those may include, it may include as well.
BELOW = {
    "base": [],
    "tensor": ["base"],
    "kernels": ["base"],
    "runtime": ["kernels", "tensor"],
    "masks": ["tensor"],
    "cache": ["tensor"],
    "io": ["tensor"],
    "ops": ["masks", "runtime"],
    "layer": ["ops", "cache"],
    "layouts": ["layer"],
    "analyze": ["layer"],
    "view": ["analyze", "io"],
    "dist": ["layer"],
}

# Public header → the folder that implements it. The umbrella header is for users: no folder has it.
OWNER = {
    "error.h": "base",
    "version.h": "base",
    "tensor.h": "tensor",
    "context.h": "runtime",
    "mask.h": "masks",
    "attention.h": "ops",
    "linear.h": "ops",
    "config.h": "layer",
    "weights.h": "layer",
    "layer.h": "layer",
    "presets.h": "layer",
    "transforms.h": "layer",
    "io.h": "io",
    "layouts.h": "layouts",
    "machine.h": "analyze",
    "cost.h": "analyze",
    "spectra.h": "analyze",
    "view.h": "view",
}
UMBRELLA = "headwise.h"

INTRINSICS = r"\w*intrin\.h|arm_neon\.h|arm_sve\.h"
HIGHWAY = r"hwy/.*"
FORMATS = r"hdf5.*|H5.*|nlohmann/.*|zip\.h"
FILES = r"fstream|filesystem"
MPI = r"mpi\.h|mpi/.*"
ALLOCATION = (
    r"new|memory|memory_resource|vector|string|map|set|unordered_map|unordered_set|deque|list"
    r"|queue|functional|any|sstream|iostream"
)
THREADS = r"thread|mutex|shared_mutex|condition_variable|future|omp\.h|pthread\.h"
EXCEPTIONS = r"stdexcept|exception|system_error"

# Where → the system headers that must not appear there, and why.
BANNED = {
    "include": (
        rf"{INTRINSICS}|{HIGHWAY}|{MPI}|{FORMATS}|nanobind/.*",
        "public headers need nothing but the standard library",
    ),
    "kernels": (
        rf"{THREADS}|{ALLOCATION}|{EXCEPTIONS}",
        "kernels neither start threads, allocate nor throw",
    ),
    "masks": (rf"{INTRINSICS}|{HIGHWAY}", "SIMD belongs to kernels"),
    "ops": (rf"{INTRINSICS}|{FORMATS}|{FILES}", "ops know neither intrinsics nor files"),
    "layouts": (rf"{INTRINSICS}|hdf5.*|H5.*|zip\.h|{FILES}|{MPI}", "layouts know names, not files"),
    "layer": (
        rf"{INTRINSICS}|{FORMATS}|{FILES}|{MPI}",
        "the layer knows neither intrinsics, files nor MPI",
    ),
}

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
TEST_FILE = re.compile(r"_(test|bench)\.cc$")


def reachable(folder: str) -> set[str]:
    """The folder itself and all that it may include."""
    found = {folder}
    for below in BELOW[folder]:
        found |= reachable(below)
    return found


def banned(place: str, header: str) -> str | None:
    pattern, why = BANNED.get(place, (None, ""))
    if pattern and re.fullmatch(pattern, header):
        return f"{place} must not include <{header}>: {why}"
    return None


def check_public(header: str, name: str) -> str | None:
    """An include of header (as written) in the public header called name."""
    folder = header.split("/")[0]
    if folder in BELOW:
        return f'public headers must not include the private "{header}"'
    if folder != "headwise":
        return banned("include", header)
    if name == UMBRELLA:
        return None
    return check_direction(OWNER.get(name), header)


def check_direction(folder: str | None, header: str) -> str | None:
    """An include of a project header in the folder."""
    if folder is None:
        return "no folder owns this public header: add it to OWNER in check_includes.py"
    target, _, name = header.partition("/")
    if target == "headwise":
        if name == UMBRELLA:
            return f"{folder} must not include the umbrella header"
        if name not in OWNER:
            return f'no folder owns "{header}": add it to OWNER in check_includes.py'
        target = OWNER[name]
    if target not in reachable(folder):
        return f'{folder} must not include "{header}": {target} is not below it'
    return None


def check_source(header: str, quoted: bool, path: pathlib.PurePath) -> str | None:
    """An include in a file of src/; path is relative to src/."""
    folder = path.parts[0]
    if folder not in BELOW:
        return f"unknown folder {folder}: add it to BELOW in check_includes.py"
    is_test = TEST_FILE.search(path.name) is not None
    first = header.split("/")[0]
    if first in BELOW or first == "headwise":
        return None if is_test else check_direction(folder, header)
    if is_test:
        return None
    if quoted:
        return f'"{header}": write the path from src/, so that its direction is seen'
    return banned(folder, header)


def check_outside(header: str) -> str | None:
    """An include in a program that uses the library as any user does."""
    if header.split("/")[0] in BELOW:
        return f'programs must not include the private "{header}"'
    return None


def check(root: pathlib.Path) -> tuple[list[str], int]:
    """All violations below root, and the number of files looked at."""
    places = ("include", "src", "examples", "bench", "cli", "python")
    found = (path for place in places for path in (root / place).rglob("*"))
    files = sorted(path for path in found if path.suffix in (".h", ".cc"))
    violations = []
    for path in files:
        place, *rest = path.relative_to(root).parts
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            match = INCLUDE.match(line)
            if not match:
                continue
            quote, header = match.groups()
            if place == "include":
                problem = check_public(header, path.name)
            elif place == "src":
                problem = check_source(header, quote == '"', pathlib.PurePath(*rest))
            else:
                problem = check_outside(header)
            if problem:
                violations.append(f"{path.relative_to(root)}:{number}: {problem}")
    return violations, len(files)


# Path and include; the first list must be caught, the second must pass.
PLANTED = [
    ("src/base/a.h", '"tensor/shape.h"'),
    ("src/tensor/a.cc", '"runtime/arena.h"'),
    ("src/runtime/a.cc", '"headwise/mask.h"'),
    ("src/masks/a.cc", '"cache/paged.h"'),
    ("src/masks/b.cc", "<immintrin.h>"),
    ("src/kernels/gemm/a.h", '"ops/plan.h"'),
    ("src/kernels/gemm/b.h", '"runtime/context_state.h"'),
    ("src/kernels/gemm/c.cc", "<thread>"),
    ("src/kernels/gemm/d.cc", "<vector>"),
    ("src/kernels/gemm/e.cc", "<new>"),
    ("src/kernels/gemm/f.cc", "<stdexcept>"),
    ("src/kernels/gemm/g.cc", '"headwise/attention.h"'),
    ("src/ops/a.cc", '"headwise/config.h"'),
    ("src/ops/b.cc", '"cache/paged.h"'),
    ("src/io/a.cc", '"layer/weights.h"'),
    ("src/layer/a.cc", '"dist/communicator.h"'),
    ("src/layer/b.cc", "<mpi.h>"),
    ("src/layer/c.cc", '"headwise/headwise.h"'),
    ("src/layer/d.cc", '"helpers.h"'),
    ("src/layer/e.cc", '"headwise/unheard_of.h"'),
    ("src/elsewhere/a.cc", "<cmath>"),
    ("include/headwise/tensor.h", '"tensor/shape.h"'),
    ("include/headwise/mask.h", '"headwise/attention.h"'),
    ("include/headwise/error.h", "<hwy/highway.h>"),
    ("include/headwise/config.h", "<nlohmann/json.hpp>"),
    ("include/headwise/unowned.h", '"headwise/tensor.h"'),
    ("examples/a.cc", '"ops/plan.h"'),
]
CLEAN = [
    ("src/base/a.h", '"base/check.h"'),
    ("src/runtime/a.cc", "<thread>"),
    ("src/masks/a.cc", '"headwise/tensor.h"'),
    ("src/kernels/gemm/a.cc", '"base/philox.h"'),
    ("src/runtime/b.cc", '"kernels/kernels.h"'),
    ("src/runtime/c.cc", '"headwise/tensor.h"'),
    ("src/kernels/gemm/b.cc", "<cmath>"),
    ("src/kernels/gemm/gemm_test.cc", "<vector>"),
    ("src/kernels/gemm/other_test.cc", '"support/oracle.h"'),
    ("src/ops/a.cc", '"headwise/context.h"'),
    ("src/ops/b.cc", '"base/check.h"'),
    ("src/layer/a.cc", '"kernels/gemm/gemm.h"'),
    ("src/dist/a.cc", "<mpi.h>"),
    ("include/headwise/headwise.h", '"headwise/layer.h"'),
    ("include/headwise/attention.h", '"headwise/context.h"'),
    ("examples/a.cc", "<headwise/headwise.h>"),
]


def self_test() -> int:
    failures = 0
    for cases, caught in ((PLANTED, True), (CLEAN, False)):
        for path, include in cases:
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True)
                file.write_text(f"// A comment.\n#include {include}\n", encoding="utf-8")
                violations, _ = check(pathlib.Path(folder))
                found = len(violations) == 1 and violations[0].startswith(f"{path}:2: ")
            if found != caught or (not caught and violations):
                failures += 1
                print(f"self-test: {path} with {include}: {violations or 'not caught'}")
    print(f"check_includes self-test: {len(PLANTED)} planted, {len(CLEAN)} clean, {failures} wrong")
    return 1 if failures else 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    violations, files = check(pathlib.Path(__file__).resolve().parent.parent)
    for violation in violations:
        print(violation)
    print(f"check_includes: {files} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
