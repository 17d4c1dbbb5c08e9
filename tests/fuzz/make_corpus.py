#!/usr/bin/env python3
"""Makes the files that the fuzzers begin with, below corpus/: good-* by numpy and safetensors
themselves, bad-* by hand, one for each way in which a file can be wrong.

Usage: make_corpus.py [--check]
--check compares with the files that are there instead of writing; exits 1 if they differ.
Needs numpy, safetensors and ml_dtypes. Files of HDF5 have a script of their own.
"""

from __future__ import annotations

import io
import json
import pathlib
import struct
import sys
import zipfile

import ml_dtypes
import numpy as np
import safetensors.numpy

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"


def numbers(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    low = 0 if np.dtype(dtype).kind == "u" else -2
    return (np.arange(count, dtype="f8") * 1.25 + low).astype(dtype).reshape(shape)


# ── safetensors


def raw_safetensors(header: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = header.encode() if isinstance(header, str) else header
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype: str = "F32", shape: str = "[1]", offsets: str = "[0,4]") -> str:
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


def one(dtype: str = "F32", shape: str = "[1]", offsets: str = "[0,4]", data: int = 4) -> bytes:
    return raw_safetensors(f'{{"a":{entry(dtype, shape, offsets)}}}', bytes(data))


def good_safetensors() -> dict[str, bytes]:
    kinds = ["f4", "f2", "f8", "i8", "i4", "i2", "i1", "u1", "u2", "u4", "u8"]
    mixed = {kind: numbers(kind, (2, 3)) for kind in kinds}
    mixed |= {"flags": np.array([True, False, True]), "brain": numbers(ml_dtypes.bfloat16, (3,))}
    layer = {f"attention.{name}": numbers("f4", (2, 2)) for name in ("q_proj", "k_proj", "o_proj")}
    return {
        "empty": safetensors.numpy.save({}),
        "kinds": safetensors.numpy.save(mixed),
        "layer": safetensors.numpy.save(layer, metadata={"é": 'a "quoted" text\n'}),
        "no-elements": safetensors.numpy.save({"a": np.zeros((0, 3), "f4"), "b": np.ones(())}),
        "special": safetensors.numpy.save({"x": np.array([np.nan, np.inf, -0.0, 1e-45], "f4")}),
        "unreadable-type": one("F8_E4M3", "[4]"),
    }


def bad_safetensors() -> dict[str, bytes]:
    both = '{"a":%s,"b":%s}'
    same = both.replace('"b"', '"a"')
    return {
        "length-0": raw_safetensors("{}", length=0),
        "length-beyond-file": raw_safetensors("{}", length=3),
        "length-above-limit": raw_safetensors("{}", length=100_000_001),
        "length-greatest": raw_safetensors("{}", length=2**64 - 1),
        "no-brace": raw_safetensors("[]"),
        "not-json": raw_safetensors('{"a":'),
        "bad-utf8": raw_safetensors(b'{"a\xff":{}}'),
        "zero-after-json": raw_safetensors(b"{}\0{}"),
        "duplicate-tensor": raw_safetensors(same % (entry(), entry(offsets="[4,8]")), bytes(8)),
        "duplicate-field": raw_safetensors('{"a":{"dtype":"F32",' + entry()[1:] + "}", bytes(4)),
        "duplicate-metadata": raw_safetensors('{"__metadata__":{"k":"1","k":"2"}}'),
        "offsets-reversed": one(offsets="[4,0]"),
        "offsets-overlapping": raw_safetensors(both % (entry(), entry(offsets="[2,6]")), bytes(6)),
        "offsets-hole": raw_safetensors(both % (entry(), entry(offsets="[8,12]")), bytes(12)),
        "trailing-bytes": one(data=5),
        "shape-overflow": one(shape="[4294967296,4294967296]", offsets="[0,0]", data=0),
        "shape-overflow-beside-0": one(shape="[0,4294967296,4294967296]", offsets="[0,0]", data=0),
        "shape-rank-9": one(shape="[1,1,1,1,1,1,1,1,1]"),
        "shape-negative": one(shape="[-1]"),
        "shape-not-bytes": one(shape="[2]"),
        "dtype-unknown": one("F31"),
        "dtype-half-a-byte": one("F4", "[3]", "[0,1]", 1),
        "metadata-number": raw_safetensors('{"__metadata__":{"k":1}}'),
        "metadata-object": raw_safetensors('{"__metadata__":{"k":{"l":"m"}}}'),
        "truncated": one(shape="[4]", offsets="[0,16]", data=15),
        "terminal-commands": raw_safetensors('{"\\u001b[2J\\n":1}'),
        "deep": raw_safetensors('{"a":' + "[" * 1000),
    }


# ── the index of a sharded model


def index(weight_map: object) -> bytes:
    return json.dumps({"metadata": {"total_size": 8}, "weight_map": weight_map}).encode()


def good_index() -> dict[str, bytes]:
    shards = {f"layer.{i}.weight": f"model-0000{i % 2 + 1}-of-00002.safetensors" for i in range(4)}
    other_keys = b'{"x":[{"y":null}],"weight_map":{}}'
    return {"two-shards": index(shards), "empty": index({}), "other-keys": other_keys}


def bad_index() -> dict[str, bytes]:
    names = {"parent": "../a", "absolute": "/etc/passwd", "dots": "..", "backslash": "..\\a"}
    names |= {"empty-name": "", "zero": "a\0b"}
    return {name: index({"a": file}) for name, file in names.items()} | {
        "no-map": b"{}",
        "array": b"[]",
        "not-json": b'{"weight_map":{',
        "map-is-array": index(["a"]),
        "value-is-number": index({"a": 1}),
        "value-is-object": index({"a": {}}),
        "duplicate-tensor": b'{"weight_map":{"a":"1","a":"2"}}',
        "duplicate-map": b'{"weight_map":{},"weight_map":{}}',
        "deep": b'{"x":' + b"[" * 1000,
    }


# ── npy


def npy(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, version=version, allow_pickle=True)
    return file.getvalue()


def raw_npy(
    text: str, data: bytes = bytes(4), version: int = 1, length: int | None = None
) -> bytes:
    size = struct.pack("<H" if version == 1 else "<I", len(text) if length is None else length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text.encode() + data


def dictionary(descr: str = "'<f4'", shape: str = "(1,)", fortran: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def good_npy() -> dict[str, bytes]:
    kinds = "<f4 >f4 <f2 >f2 <f8 >f8 <i8 >i4 <i2 |i1 |u1 <u2 >u4 <u8 |b1".split()
    order = {"<": "-little", ">": "-big", "|": ""}
    files = {kind[1:] + order[kind[0]]: npy(numbers(kind, (2, 3))) for kind in kinds}
    return files | {
        "column-major": npy(np.asfortranarray(numbers("f4", (2, 3, 4)))),
        "version-2": npy(numbers("f4", (3,)), (2, 0)),
        "version-3": npy(numbers("f4", (3,)), (3, 0)),
        "scalar": npy(np.array(1.5, "f4")),
        "no-elements": npy(np.zeros((2, 0), "f4")),
        "python-2": raw_npy(dictionary(shape="(1L,)")),
    }


def bad_npy() -> dict[str, bytes]:
    return {
        "4-gib": raw_npy(dictionary(shape="(1073741824,)")),
        "version-9": raw_npy(dictionary(), version=9),
        "header-beyond-file": raw_npy(dictionary(), b"", length=1000),
        "header-4-gib": raw_npy(dictionary(), version=2, length=2**32 - 1),
        "no-keys": raw_npy("{}"),
        "no-shape": raw_npy("{'descr': '<f4', 'fortran_order': False}"),
        "no-descr": raw_npy("{'fortran_order': False, 'shape': (1,)}"),
        "no-order": raw_npy("{'descr': '<f4', 'shape': (1,)}"),
        "duplicate-key": raw_npy("{'descr': '<f4', 'descr': '<f4'}"),
        "objects": npy(np.array([{"a": 1}, None], dtype=object)),
        "texts": npy(np.array(["a", "bc"])),
        "records": npy(np.zeros(2, [("a", "f4"), ("b", "i4", (2,))])),
        "complex": npy(np.zeros(2, "c8")),
        "bfloat16": npy(np.zeros(2, ml_dtypes.bfloat16)),
        "descr-empty": raw_npy(dictionary("''")),
        "descr-unknown": raw_npy(dictionary("'float'")),
        "negative": raw_npy(dictionary(shape="(-1,)")),
        "huge": raw_npy(dictionary(shape="(4294967296, 4294967296)")),
        "huger": raw_npy(dictionary(shape="(99999999999999999999,)")),
        "rank-9": raw_npy(dictionary(shape="(1, 1, 1, 1, 1, 1, 1, 1, 1)")),
        "not-a-tuple": raw_npy(dictionary(shape="(1)")),
        "code": raw_npy("__import__('os').abort()"),
        "truncated": npy(numbers("f4", (4,)))[:-1],
        "trailing-bytes": npy(numbers("f4", (4,))) + b"x",
    }


# ── npz


def npz(save, **arrays: np.ndarray) -> bytes:
    file = io.BytesIO()
    save(file, **arrays)
    return file.getvalue()


def zipped(parts: list[tuple[str, bytes]], method: int = zipfile.ZIP_STORED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in parts:
            archive.writestr(zipfile.ZipInfo(name), data, compress_type=method)
    return file.getvalue()


def patched(data: bytes, offset_in_directory: int, value: bytes) -> bytes:
    """Changes a field of the first entry, in the central directory alone."""
    at = data.index(b"PK\1\2") + offset_in_directory
    return data[:at] + value + data[at + len(value) :]


def good_npz() -> dict[str, bytes]:
    arrays = {"a": numbers("f4", (2, 3)), "é": np.array([1, 2], "i2")}
    arrays |= {"b/c": np.asfortranarray(numbers(">f8", (3, 2)))}
    objects = np.array([{}], dtype=object)
    sound = ("a.npy", npy(numbers("f4", (2,))))
    return {
        "stored": npz(np.savez, **arrays),
        "deflated": npz(np.savez_compressed, **arrays),
        "zeros": npz(np.savez_compressed, zeros=np.zeros((300, 300), "f4")),
        "empty": npz(np.savez),
        "objects-beside-numbers": npz(np.savez, o=objects, x=numbers("f4", (2,))),
        "other-entries": zipped([sound, ("notes.txt", b"text"), ("folder/", b"")]),
    }


def bad_npz() -> dict[str, bytes]:
    array = npy(numbers("f4", (2,)))
    plain = zipped([("a.npy", array)])
    packed = zipped([("a.npy", npy(np.zeros(1000, "f4")))], zipfile.ZIP_DEFLATED)
    bomb = zipped([("a.npy", npy(np.zeros(17_000_000, "f4")))], zipfile.ZIP_DEFLATED)
    twice = zipped([("a.npy", array), ("b.npy", array)]).replace(b"b.npy", b"a.npy")
    return {
        "parent": zipped([("../a.npy", array)]),
        "parent-within": zipped([("a/../../b.npy", array)]),
        "absolute": zipped([("/a.npy", array)]),
        "duplicate": twice,
        "encrypted": patched(plain, 8, b"\1\0"),
        "bzip2": zipped([("a.npy", array)], zipfile.ZIP_BZIP2),
        "lzma": zipped([("a.npy", array)], zipfile.ZIP_LZMA),
        "bomb": bomb,
        "bomb-claimed": patched(packed, 24, struct.pack("<I", 2**32 - 16)),
        "size-too-small": patched(packed, 24, struct.pack("<I", 200)),
        "stored-grows": patched(plain, 24, struct.pack("<I", 10**6)),
        "checksum": patched(plain, 16, b"\0\0\0\0"),
        "offset-beyond-file": patched(plain, 42, struct.pack("<I", 10**6)),
        "no-array": zipped([("a.npy", b"text")]),
        "4-gib-array": zipped([("a.npy", bad_npy()["4-gib"])]),
        "truncated": plain[:-1],
        "text-file": zipped([("notes.txt", b"text")]),
        "pytorch": zipped([("model/data.pkl", b"\x80\2}."), ("model/data/0", bytes(4))]),
    }


def all_files() -> dict[str, bytes]:
    parts = {
        "safetensors": (good_safetensors(), bad_safetensors()),
        "safetensors_index": (good_index(), bad_index()),
        "npy": (good_npy(), bad_npy()),
        "npz": (good_npz(), bad_npz()),
    }
    files = {}
    for target, (good, bad) in parts.items():
        files |= {f"{target}/good-{name}": data for name, data in good.items()}
        files |= {f"{target}/bad-{name}": data for name, data in bad.items()}
    return files


def check(files: dict[str, bytes]) -> int:
    targets = {name.split("/")[0] for name in files}
    found = [path for target in targets for path in (CORPUS / target).glob("*")]
    there = {str(path.relative_to(CORPUS)): path for path in found}
    wrong = [name for name in files if name not in there or there[name].read_bytes() != files[name]]
    wrong += [name for name in there if name not in files]
    for name in sorted(wrong):
        print(f"{name} is not what this script makes")
    print(f"{len(files)} files, {len(wrong)} differ")
    return 1 if wrong else 0


def main() -> int:
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__)
        return 2
    files = all_files()
    if sys.argv[1:] == ["--check"]:
        return check(files)
    for name, data in files.items():
        path = CORPUS / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    print(f"{len(files)} files in {CORPUS}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
