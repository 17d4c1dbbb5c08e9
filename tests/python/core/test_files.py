"""Files of every format: against the libraries that made them, and without the libraries that read them."""

from __future__ import annotations

import concurrent.futures
import os
import pathlib
import subprocess
import sys
import textwrap

import headwise as hw
import h5py
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
from formulas import same_bits

# JAX, if another file's tests have imported it here, fears for its threads; the children use ours.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork")


@pytest.fixture
def tensors(normal):
    return {"a/b": normal(2, 3), "c": normal(4), "d": normal(0, 5)}


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".weights.h5"])
def test_what_is_written_is_read(tmp_path, tensors, ending):
    path = tmp_path / f"x{ending}"
    hw.save_tensors(path, tensors)
    again = hw.load_tensors(path)
    assert again.keys() == tensors.keys()
    assert all(same_bits(again[name], tensors[name]) for name in tensors)
    before = path.read_bytes()
    hw.save_tensors(str(path), tensors)
    assert path.read_bytes() == before, "the same tensors give the same bytes"


def test_other_libraries_read_them(tmp_path, tensors):
    for ending in (".safetensors", ".npz", ".weights.h5"):
        hw.save_tensors(tmp_path / f"x{ending}", tensors)
    hw.write_npy(tmp_path / "x.npy", tensors["c"])
    with h5py.File(tmp_path / "x.weights.h5") as file:
        hdf5 = {name: file[name][()] for name in tensors}
    for theirs in (safetensors.numpy.load_file(tmp_path / "x.safetensors"), np.load(tmp_path / "x.npz"), hdf5):
        assert all(same_bits(theirs[name], tensors[name]) for name in tensors)
    assert same_bits(np.load(tmp_path / "x.npy"), tensors["c"])


def test_numbers_of_every_kind(tmp_path):
    stored = {"bf16": torch.tensor([1.5, -2], dtype=torch.bfloat16), "f16": torch.tensor([0.5], dtype=torch.float16),
              "f64": torch.tensor([0.25], dtype=torch.float64), "i32": torch.tensor([[3, -4]], dtype=torch.int32),
              "truth": torch.tensor([True, False])}
    safetensors.torch.save_file(stored, tmp_path / "x.safetensors", {"by": "torch"})
    file = hw.TensorFile.open(tmp_path / "x.safetensors")
    assert file.metadata == {"by": "torch"} and file.path == str(tmp_path / "x.safetensors")
    assert [(i.name, i.shape, i.dtype) for i in file.tensors] == [
        ("bf16", (2,), "BF16"), ("f16", (1,), "F16"), ("f64", (1,), "F64"), ("i32", (1, 2), "I32"), ("truth", (2,), "BOOL")]
    read = hw.load_tensors(tmp_path / "x.safetensors")
    assert {name: str(array.dtype) for name, array in read.items()} == {
        "bf16": "float32", "f16": "float32", "f64": "float32", "i32": "int64", "truth": "bool"}
    assert all(read[name].tolist() == tensor.tolist() for name, tensor in stored.items())
    with pytest.raises(hw.FileError, match="i32"):
        file.read("i32")


def test_npy_is_one_tensor_without_a_name(tmp_path, normal):
    x = normal(3, 4)
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    file = hw.TensorFile.open(tmp_path / "x.npy")
    assert file.format == "npy" and file.contains("") and "x" not in file
    assert same_bits(np.ascontiguousarray(file.read("")), x)


def test_strided_and_foreign_arrays_are_written(tmp_path, normal):
    x = normal(4, 6)
    hw.write_npy(tmp_path / "x.npy", x[::-1, ::2])
    assert same_bits(np.load(tmp_path / "x.npy"), x[::-1, ::2].copy())
    hw.save_tensors(tmp_path / "x.safetensors", {"x": torch.from_numpy(x).T})
    assert same_bits(hw.load_tensors(tmp_path / "x.safetensors")["x"], x.T.copy())


def test_names_that_bytes_alone_can_say(tmp_path, normal):
    path = tmp_path / "Ω \udcff.npy"
    hw.write_npy(path, normal(2))
    assert hw.load_tensors(path)[""].shape == (2,)


@pytest.mark.parametrize("call, error, text", [
    (lambda path: hw.TensorFile.open(path / "none.npz"), hw.FileError, "none.npz: .*No such file"),
    (lambda path: hw.TensorFile.open(path), hw.FileError, "model.safetensors"),
    (lambda path: hw.TensorFile.open(3.5), TypeError, "expected str, bytes or os.PathLike"),
    (lambda path: hw.save_tensors(path / "x.bin", {}), hw.ArgumentError, "path: expected a name that ends in .safeten"),
    (lambda path: hw.save_tensors(path / "x.npz", {}, {"a": "b"}), hw.ArgumentError, "metadata: expected none"),
    (lambda path: hw.write_npz(path / "x.npz", {"x": np.zeros(3)}), TypeError, "x: expected float32, got float64"),
    (lambda path: hw.write_npz(path / "x.npz", [1]), TypeError, "expected a mapping from names to arrays, got list"),
    (lambda path: hw.write_npy(path / "no/x.npy", np.zeros(3, np.float32)), hw.FileError, "no/x.npy"),
])
def test_what_cannot_be(tmp_path, call, error, text):
    with pytest.raises(error, match=text):
        call(tmp_path)
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_damaged_files(tmp_path, tensors):
    for ending in (".safetensors", ".npz", ".weights.h5"):
        path = tmp_path / f"x{ending}"
        hw.save_tensors(path, tensors)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(hw.FileError, match="x" + ending) as caught:
            hw.load_tensors(path)
        assert isinstance(caught.value, OSError) and caught.value.path == str(path)


@pytest.mark.parametrize("ending", [".safetensors", ".npz", ".weights.h5"])
def test_many_threads_and_a_fork(tmp_path, normal, ending):
    tensors = {f"x{i}": normal(50, i + 1) for i in range(8)}
    path = tmp_path / f"x{ending}"
    hw.save_tensors(path, tensors)
    file = hw.TensorFile.open(path)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        read = list(pool.map(file.read, [*tensors] * 4))
    assert all(same_bits(a, b) for a, b in zip(read, [*tensors.values()] * 4, strict=True))
    child = os.fork()
    if child == 0:
        os._exit(0 if same_bits(file.read("x3"), tensors["x3"]) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_without_libzip_and_libhdf5(tmp_path, tensors):
    """safetensors and npy still work; the others say what is missing."""
    hw.save_tensors(tmp_path / "x.npz", tensors)
    hw.save_tensors(tmp_path / "x.weights.h5", tensors)
    program = textwrap.dedent("""
        import sys, numpy, headwise as hw
        sys.modules["headwise._files"] = None  # as if its libraries were not there
        x = {"x": numpy.ones(3, numpy.float32)}
        hw.save_tensors("plain.safetensors", x)
        hw.write_npy("plain.npy", x["x"])
        assert hw.load_tensors("plain.safetensors")["x"].sum() == hw.load_tensors("plain.npy")[""].sum() == 3
        calls = [lambda: hw.load_tensors("x.npz"), lambda: hw.load_tensors("x.weights.h5"),
                 lambda: hw.save_tensors("y.npz", x), lambda: hw.save_tensors("y.weights.h5", x)]
        for call in calls:
            try:
                call()
            except hw.FileError as error:
                print(error)
        """)
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    zip_missing = "zip files (.npz, .keras) cannot be read or written: libzip is missing"
    hdf5_missing = "HDF5 cannot be read or written: libhdf5 is missing"
    assert done.stdout.splitlines() == [f"x.npz: {zip_missing}", f"x.weights.h5: {hdf5_missing}",
                                        f"y.npz: {zip_missing}", f"y.weights.h5: {hdf5_missing}"]
    assert not list(pathlib.Path(tmp_path).glob("y*"))
