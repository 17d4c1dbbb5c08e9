#!/usr/bin/env python3
"""Makes the files that the fuzzers of Keras's formats begin with: corpus/keras_weights and
corpus/keras_model, good-* with h5py, bad-* those of tests/io/make_hostile_hdf5.py; and
corpus/keras_contents, as src/io/hdf5_contents.cc has it.

Usage: keras_corpus.py
"""

import io
import struct
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "io"))
from make_hostile_hdf5 import CASES, h5  # noqa: E402

MOST_BYTES = 8192  # what run_fuzzers.py lets an input have
NEW = {"libver": ("v110", "v110")}  # shorter, and other trees


def layer(file):
    """As Keras has it."""
    group = file.create_group("layers/dense/vars")
    group.attrs["name"] = "a name"
    group["0"] = np.arange(6, dtype="f4").reshape(2, 3)
    group["1"] = np.arange(3, dtype="f2")


def bfloat16(file):
    dataset = file.create_dataset("x", data=np.arange(4, dtype="u2").view("V2"))
    dataset.attrs["dtype"] = "bfloat16"


def packed(file):
    numbers = np.arange(40, dtype=">f8").reshape(10, 4)
    file.create_dataset("x", data=numbers, chunks=(4, 2), compression="gzip", shuffle=True,
                        fletcher32=True)
    file.create_dataset("growing", data=numbers, chunks=(5, 4), maxshape=(None, 4))


def kinds(file):
    for kind in ("i1", "u2", ">i4", "u8", "?", "f8"):
        file[kind.replace(">", "big ")] = np.ones(3).astype(kind)
    file["scalar"] = np.float32(1)
    file["empty"] = np.zeros((0, 2), "f4")
    file.attrs["fixed"] = np.bytes_(b"text")
    file.attrs["list"] = [1, 2]


def texts(file):
    file["texts"] = ["a", "b"]


def attributes(file):
    for i in range(12):  # so many are stored in a heap
        file.attrs[f"a{i}"] = "text" * i


def nothing(_):
    pass


def model(weights, method=zipfile.ZIP_STORED):
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", method) as archive:
        for name, data in (("metadata.json", b'{"keras_version": "3"}'), ("config.json", b"{}"),
                           ("model.weights.h5", weights)):
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return memory.getvalue()


def good_files():
    fills = (layer, bfloat16, packed, kinds, texts, attributes, nothing)
    weights = {fill.__name__: h5(fill) for fill in fills}
    weights |= {f"{fill.__name__}-new": h5(fill, **NEW) for fill in fills}
    models = {"stored": model(weights["layer-new"]), "nothing": model(weights["nothing-new"]),
              "deflated": model(weights["packed-new"], zipfile.ZIP_DEFLATED)}
    return {".weights.h5": weights, ".keras": models}


def contents():
    def text(words):
        return struct.pack("<Q", len(words)) + words

    def dataset(name, extents, offset, stored, dtype=b"F32"):
        numbers = (0, len(extents), *extents, offset, stored)  # 0: little-endian
        return (struct.pack("<Q", 1) + text(name) + text(dtype)
                + struct.pack(f"<{len(numbers)}Q", *numbers))

    there = dataset(b"layers/dense/vars/0", (2, 3), 800, 24)
    packed = dataset(b"x", (100,), 0, 300, b"F64")
    attribute = struct.pack("<Q", 2) + text(b"vars@name") + text(b"a name")
    return {"good-all": there + packed + attribute, "good-texts": dataset(b"x", (), 9, 9, b"STRING"),
            "bad-twice": there * 2, "bad-place": dataset(b"x", (2,), 2**64 - 8, 8),
            "bad-shape": dataset(b"x", (2**32, 2**32), 0, 8), "bad-rank": dataset(b"x", (1,) * 9, 9, 4),
            "bad-short": attribute[:-1], "bad-record": struct.pack("<Q", 3)}


def main():
    assert h5py.version.hdf5_version_tuple >= (1, 10)
    (HERE / "corpus" / "keras_contents").mkdir(parents=True, exist_ok=True)
    for name, data in contents().items():
        (HERE / "corpus" / "keras_contents" / name).write_bytes(data)
    for suffix, folder in ((".weights.h5", "keras_weights"), (".keras", "keras_model")):
        files = {f"good-{name}": data for name, data in good_files()[suffix].items()}
        for name, (make, _) in CASES.items():
            if name.endswith(suffix):
                files[f"bad-{name.removesuffix(suffix).replace('_', '-')}"] = make()
        (HERE / "corpus" / folder).mkdir(parents=True, exist_ok=True)
        for name, data in files.items():
            if len(data) <= MOST_BYTES:
                (HERE / "corpus" / folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
