#!/usr/bin/env python3
"""Arrays by numpy and safetensors, and what they make of the files that Headwise wrote.

Usage: real_packages.py make FOLDER    writes given.*, and expected.safetensors: the same numbers as
                                       float32, int64 and truth values
       real_packages.py check FOLDER   compares ours.* with it, bit for bit; exits 1 on a difference
"""

from __future__ import annotations

import pathlib
import sys

import ml_dtypes
import numpy as np
import safetensors.numpy

FLOATS = ["<f2", "<f4", "<f8"]
INTEGERS = ["i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8"]
SHAPES = [(), (1,), (7,), (3, 5), (0,), (2, 0, 3), (2, 3, 4), (1, 2, 1, 2, 1, 2, 1, 2), (700, 801)]


def arrays() -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    made = {}
    for kind in FLOATS:
        for i, shape in enumerate(SHAPES):
            made[f"{kind[1:]}/{i}"] = np.array(random.normal(size=shape) * 10.0 ** (i % 5), kind)
    for kind in INTEGERS:
        limits = np.iinfo(kind)
        top = min(limits.max, 2**63 - 1)
        made[f"{kind[-2:]}/random"] = random.integers(limits.min, top, (5, 6), kind, endpoint=True)
        made[f"{kind[-2:]}/limits"] = np.array([limits.min, top], kind)
    made["flags"] = random.integers(0, 2, (9, 3)).astype(bool)
    halves = [0x7E00, 0x7C00, 0xFC00, 0x8000, 1, 0x03FF, 0x0400, 0x7BFF]
    singles = [0x7FC00000, 0xFF800000, 0x80000000, 1, 0x007FFFFF]
    made["f2/special"] = np.array(halves, "u2").view("<f2")
    made["f4/special"] = np.array(singles, "u4").view("<f4")
    made["f8/rounded"] = np.array([1 + 2.0**-24, 1 + 3 * 2.0**-24, 2.0**-150, 1e39, -1e-46], "<f8")
    made["ключ \"é\"\t\\"] = np.array([1.5], "<f4")
    return made


def as_read(array: np.ndarray) -> np.ndarray:
    """What Headwise makes of it."""
    if array.dtype == bool:
        return array
    floating = array.dtype.kind == "f" or array.dtype == ml_dtypes.bfloat16
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array.astype("<f4" if floating else "<i8")).reshape(array.shape)


def make(folder: pathlib.Path) -> int:
    given = arrays()
    brain = {"brain": np.arange(65536, dtype="u2").view(ml_dtypes.bfloat16)}
    safetensors.numpy.save_file(given | brain, folder / "given.safetensors", {"by": "safetensors"})
    # A zip has no names with a backslash.
    zipped = {name: array for name, array in given.items() if "\\" not in name}
    np.savez(folder / "given-stored.npz", **zipped)
    turned = {n: array.astype(array.dtype.newbyteorder(">"), "F") for n, array in zipped.items()}
    np.savez_compressed(folder / "given-turned.npz", **turned)
    for i, (name, array) in enumerate(zipped.items()):
        np.save(folder / f"given-{i}.npy", turned[name] if i % 2 else array)
        safetensors.numpy.save_file({"": as_read(array)}, folder / f"expected-{i}.safetensors")
    expected = {name: as_read(array) for name, array in (given | brain).items()}
    safetensors.numpy.save_file(expected, folder / "expected.safetensors")
    return 0


Arrays = dict[str, np.ndarray]


def differences(ours: Arrays, expected: Arrays, what: str) -> list[str]:
    wrong = [f"{what}: {name!r} is there" for name in ours.keys() ^ expected.keys()]
    for name in ours.keys() & expected.keys():
        a, b = ours[name], expected[name]
        if a.dtype != b.dtype or a.shape != b.shape or a.tobytes() != b.tobytes():
            wrong.append(f"{what}: {name!r} differs: {a} and {b}")
    return wrong


def check(folder: pathlib.Path) -> int:
    everything = safetensors.numpy.load_file(folder / "expected.safetensors")
    floats = {name: array for name, array in everything.items() if array.dtype == np.float32}
    zipped = {name: array for name, array in floats.items() if "\\" not in name and name != "brain"}
    ours = safetensors.numpy.load_file(folder / "ours.safetensors")
    wrong = differences(ours, floats, "safetensors")
    with np.load(folder / "ours.npz") as archive:
        wrong += differences({name: archive[name] for name in archive.files}, zipped, "npz")
    safetensors.numpy.save_file(floats, folder / "theirs.safetensors", {"by": "safetensors"})
    pairs = [(folder / "ours.safetensors", folder / "theirs.safetensors")]
    for path in folder.glob("ours-*.npy"):
        number = path.stem.removeprefix("ours-")
        expected = safetensors.numpy.load_file(folder / f"expected-{number}.safetensors")[""]
        wrong += differences({"": np.load(path)}, {"": expected}, path.name)
        np.save(folder / f"theirs-{number}.npy", expected)
        pairs.append((path, folder / f"theirs-{number}.npy"))
    for ours, theirs in pairs:
        if ours.read_bytes() != theirs.read_bytes():
            wrong.append(f"{ours.name}: not the bytes that the real package writes")
    if wrong:
        print(*wrong[:20], f"{len(wrong)} differences", sep="\n")
    return 1 if wrong or len(pairs) < 10 else 0


def main() -> int:
    commands = {"make": make, "check": check}
    if len(sys.argv) != 3 or sys.argv[1] not in commands:
        print(__doc__)
        return 2
    return commands[sys.argv[1]](pathlib.Path(sys.argv[2]))


if __name__ == "__main__":
    sys.exit(main())
