"""Golden files: cases of tensors and options in one safetensors file per framework.

A tensor is called "<case>/<name>"; the file's metadata holds one JSON object of options per case.
Common names: query, key, value, output, cotangent (what the loss multiplies the output with),
attention (the weights a framework returned), weight/<foreign name>, gradient/<any of these>.
"""

import json
import struct
import zlib

import numpy as np
import safetensors

# Recomputed values may differ from the files in their last bits, since libraries pick kernels by
# CPU. Float32 sums of a few hundred terms of size 1 stay well inside this; a change of meaning
# does not.
TOLERANCE = 2e-5

_DTYPES = {np.dtype(np.float32): "F32", np.dtype(np.int64): "I64", np.dtype(np.bool_): "BOOL"}


class GoldenFile:
    def __init__(self):
        self.tensors = {}
        self.cases = {}

    def add(self, case, options, tensors):
        if case in self.cases or "/" in case:
            raise ValueError(f"case name taken or with a slash: {case}")
        self.cases[case] = json.dumps(options, sort_keys=True)
        for name, value in tensors.items():
            array = np.ascontiguousarray(value)
            if array.dtype not in _DTYPES:
                raise TypeError(f"{case}/{name}: {array.dtype} is not stored in golden files")
            self.tensors[f"{case}/{name}"] = array

    def merge(self, other):
        self.tensors.update(other.tensors)
        self.cases.update(other.cases)

    def save(self, path):
        """Written by hand since the library's writer orders metadata at random: the same cases
        must give the same bytes."""
        header, blocks, offset = {"__metadata__": dict(sorted(self.cases.items()))}, [], 0
        # Wide types first, which keeps every tensor aligned.
        for name, array in sorted(
            self.tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0])
        ):
            end = offset + array.nbytes
            header[name] = {
                "dtype": _DTYPES[array.dtype],
                "shape": list(array.shape),
                "data_offsets": [offset, end],
            }
            blocks.append(array.tobytes())
            offset = end
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))

    @staticmethod
    def load(path):
        golden = GoldenFile()
        with safetensors.safe_open(path, framework="numpy") as file:
            golden.cases = dict(file.metadata() or {})
            golden.tensors = {name: file.get_tensor(name) for name in file.keys()}
        return golden


def drift(stored, fresh):
    """Lines that say where `fresh` is not what `stored` says, and the largest difference."""
    lines, largest = [], 0.0
    for what, old, new in (("case", stored.cases, fresh.cases),
                           ("tensor", stored.tensors, fresh.tensors)):
        lines += [f"{what} {name}: no longer made" for name in sorted(old.keys() - new.keys())]
        lines += [f"{what} {name}: not in the file" for name in sorted(new.keys() - old.keys())]
    for name in sorted(stored.cases.keys() & fresh.cases.keys()):
        if json.loads(stored.cases[name]) != json.loads(fresh.cases[name]):
            lines.append(f"case {name}: options {stored.cases[name]}, now {fresh.cases[name]}")
    for name in sorted(stored.tensors.keys() & fresh.tensors.keys()):
        old, new = stored.tensors[name], fresh.tensors[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            lines.append(f"tensor {name}: {old.dtype}{old.shape}, now {new.dtype}{new.shape}")
            continue
        error = _difference(old, new)
        largest = max(largest, error)
        if error > TOLERANCE:
            lines.append(f"tensor {name}: differs by {error:.2e}")
    return lines, largest


def _difference(old, new):
    """Largest |a−b| / (1+|a|); 0 where both are NaN or the same infinity, else infinite there."""
    if old.size == 0:
        return 0.0
    if old.dtype != np.float32:
        return 0.0 if np.array_equal(old, new) else float("inf")
    a, b = old.astype(np.float64), new.astype(np.float64)
    with np.errstate(invalid="ignore"):
        error = np.abs(a - b) / (1 + np.abs(a))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    error = np.where(same, 0.0, np.where(np.isfinite(error), error, np.inf))
    return float(error.max())


class Numbers:
    """Random arrays that depend on the case's name alone: no case changes another's."""

    def __init__(self, case):
        self._generator = np.random.default_rng(zlib.crc32(case.encode()))

    def normal(self, *shape, deviation=1.0):
        return (deviation * self._generator.standard_normal(shape)).astype(np.float32)

    def keep_mask(self, *shape):
        """True = attend, about two thirds of it; no row is empty."""
        mask = self._generator.random(shape) < 0.65
        first = self._generator.integers(0, shape[-1], shape[:-1])
        np.put_along_axis(mask, first[..., None], True, axis=-1)
        return mask


def prefixed(prefix, tensors):
    return {f"{prefix}{name}": value for name, value in tensors.items()}
