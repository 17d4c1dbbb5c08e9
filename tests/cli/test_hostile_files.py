"""Files that are damaged or made to do damage: one line on stderr, exit code 1, little memory.

The small ones are those that the fuzzers begin with and those of the HDF5 tests; the tests in
tests/io say what the line has to mention. Here the whole program meets them, under a limit of memory,
and large ones that claim gigabytes.
"""

from __future__ import annotations

import json
import math
import pathlib
import shutil
import struct
import zipfile

import numpy
import pytest
import safetensors.numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
HDF5 = ROOT / "tests" / "io" / "data" / "hostile_hdf5"
LIMIT = 1_500_000_000

# What the program tells a format's files by, beside their content.
SUFFIX = {
    "safetensors": ".safetensors",
    "safetensors_index": ".safetensors.index.json",
    "npy": ".npy",
    "npz": ".npz",
}
KERAS = sorted(path for path in HDF5.glob("*") if path.suffix in (".h5", ".keras"))
SMALL = sorted(path for target in SUFFIX for path in (CORPUS / target).glob("bad-*"))


def line_about(fails, path: pathlib.Path, *arguments) -> str:
    """What `inspect` says of the file, which must be one line about it and not too long."""
    line = fails(1, "inspect", path, *arguments, limit_as=LIMIT)
    shown = line[:1000]
    assert line.startswith(f"headwise: {path}: "), shown
    assert line.isprintable() and len(line) < len(str(path)) + 500, shown
    assert not any(word in line for word in ("exception", "terminate", "std::")), shown
    return line


def test_there_are_files_of_every_format():
    assert {path.parent.name for path in SMALL} == set(SUFFIX)
    assert len(SMALL) > 70 and len(KERAS) > 40


@pytest.mark.parametrize("path", SMALL, ids=lambda path: f"{path.parent.name}/{path.name[4:]}")
def test_small(path, fails, tmp_path):
    copy = tmp_path / f"model{SUFFIX[path.parent.name]}"
    shutil.copy(path, copy)
    line_about(fails, copy)


@pytest.mark.parametrize("path", KERAS, ids=lambda path: path.name)
def test_hdf5(path, fails):
    line_about(fails, path)


# ---- large ones, made here ----------------------------------------------------------------------


def write_safetensors(path, header: bytes, length: int | None = None, size: int | None = None):
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header) if length is None else length) + header)
        if size is not None:
            file.truncate(size)  # sparse
    return path


def test_ten_million_entries(fails, tmp_path):
    size = 600_000_000
    path = write_safetensors(tmp_path / "a.safetensors", b'{"a":', size, size + 8)
    assert "more than 100000000" in line_about(fails, path)


def test_as_many_entries_as_a_header_may_have(fails, tmp_path):
    entry = b'"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}'
    entries = (entry % i for i in range(1_700_000))
    path = write_safetensors(tmp_path / "a.safetensors", b"{" + b",".join(entries) + b"}")
    assert "more than 1000000 tensors" in line_about(fails, path)


def test_a_name_of_a_hundred_megabytes(fails, tmp_path):
    path = write_safetensors(tmp_path / "a.safetensors", b'{"' + b"x" * 99_999_000 + b'":1}')
    assert "instead of a JSON object" in line_about(fails, path)


def test_more_numbers_than_memory(fails, tmp_path):
    """A layer of four gigabytes, all there in a sparse file: more than the program may have."""
    layer, begin = {}, 0
    shapes = {"query": (32768, 8, 1280), "key": (32768, 8, 1280), "value": (32768, 8, 1280)}
    for name, shape in (shapes | {"attention_output": (8, 1280, 4)}).items():
        end = begin + 4 * math.prod(shape)
        layer[f"{name}/kernel"] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(layer).encode()
    path = write_safetensors(tmp_path / "a.safetensors", text, size=8 + len(text) + begin)
    line_about(fails, path)


def test_npy_of_four_gigabytes(fails, tmp_path):
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1073741824,), }\n"
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text + bytes(100))
    assert "4294967296 bytes, but 100 follow" in line_about(fails, path)
    layer = ("--heads", 2, "--key-dim", 4)
    data = path.read_bytes()
    line = fails(1, "run", *layer, "--input", "-", input=data, limit_as=LIMIT)
    assert "ends before the 4294967296 bytes" in line


def test_a_bomb_of_256_megabytes(fails, tmp_path):
    path = tmp_path / "a.npz"
    array = {"descr": "<f4", "fortran_order": False, "shape": (2**26,)}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("a.npy", "w", force_zip64=True) as entry:
            numpy.lib.format.write_array_header_1_0(entry, array)
            for _ in range(64):
                entry.write(bytes(2**22))
    assert "zip bomb" in line_about(fails, path)


# ---- sound files with names that are not --------------------------------------------------------


def test_names_that_command_a_terminal(fails, tmp_path):
    path = tmp_path / "a.safetensors"
    names = ["a\nheadwise: all is well", "\x1b]0;title\x07\x1b[2J"]
    safetensors.numpy.save_file({name: numpy.zeros(1, "f4") for name in names}, path)
    line_about(fails, path)


def test_files_that_are_no_tensors(fails, tmp_path):
    assert "is a folder" in line_about(fails, tmp_path)
    for name, data, says in [
        ("model.bin", b"\x80\x02}q\x00.", "safetensors.torch.save_file"),
        ("model.gguf", b"GGUF\3\0\0\0", "GGUF"),
        ("model.safetensors", b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        ("model.h5", b"", "empty"),
    ]:
        (tmp_path / name).write_bytes(data)
        assert says in line_about(fails, tmp_path / name)
    assert "No such file" in line_about(fails, tmp_path / "none")
