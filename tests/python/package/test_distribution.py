"""The wheel and the sdist: what is in them, and that the wheel works with numpy and nothing else.

`make test` has built the wheel of the same objects as the C++ tests; compiling the library again here would
take minutes and show little more.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import venv
import zipfile

import pytest
from conftest import ROOT

BUILD = pathlib.Path(os.environ.get("HEADWISE_BUILD", ROOT / "build/dev"))
FRAMEWORKS = "torch jax jaxlib flax keras tensorflow transformers onnx onnxruntime openvino"


@pytest.fixture(scope="module")
def wheel() -> pathlib.Path:
    found = list((BUILD / "wheel").glob("headwise-*.whl"))
    assert found, f"no wheel in {BUILD}/wheel: run scripts/run_tests.py"
    return found[0]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("sdist")
    program = f"import scikit_build_core.build as b; print(b.build_sdist({str(folder)!r}))"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("headwise-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(path for path in folder.iterdir() if path.is_dir())


@pytest.fixture(scope="module")
def fresh_python(tmp_path_factory, wheel) -> pathlib.Path:
    """Of a virtual environment with the wheel, and numpy as it is here."""
    folder = tmp_path_factory.mktemp("fresh")
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    packages = pathlib.Path(sysconfig.get_path("platlib", vars={"base": str(folder), "platbase": str(folder)}))
    import numpy

    numpy_folder = pathlib.Path(numpy.__file__).parent
    for place in (numpy_folder, numpy_folder.with_name("numpy.libs")):
        if place.exists():
            (packages / place.name).symlink_to(place)
    subprocess.run([sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-index",
                    "--no-deps", "--disable-pip-version-check", wheel], check=True)
    return python


def test_the_wheel_works_with_numpy_alone(fresh_python, tmp_path):
    program = textwrap.dedent(f"""
        import importlib.util, json, sys, numpy, headwise as hw
        config = hw.AttentionConfig(num_heads=2, key_dim=4, query_features=8)
        layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=1))
        hw.save_layers("layer.safetensors", layer)
        x = numpy.ones((1, 3, 8), numpy.float32)
        same = hw.load_layer("layer.safetensors").forward(x).output.tobytes() == layer.forward(x).output.tobytes()
        there = [name for name in {FRAMEWORKS.split()!r} if importlib.util.find_spec(name)]
        print(json.dumps([same, there, hw.__file__]))
        """)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run([fresh_python, "-c", program], cwd=tmp_path, env=environment, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stderr
    same, there, place = json.loads(done.stdout)
    assert same and there == [] and pathlib.Path(place).is_relative_to(fresh_python.parent.parent)


@pytest.mark.parametrize("name", ["torch", "jax", "keras", "transformers"])
def test_a_drop_in_without_its_framework(fresh_python, tmp_path, name):
    """Its import fails as the framework's own does, and says what to install."""
    if not (ROOT / "python/headwise" / name).exists() and not (ROOT / f"python/headwise/{name}.py").exists():
        pytest.fail(f"there is no headwise.{name}")
    done = subprocess.run([fresh_python, "-c", f"import headwise.{name}"], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(("ModuleNotFoundError", "ImportError")), done.stderr


def test_the_wheel_holds_the_package(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = {f"headwise/{path.relative_to(ROOT / 'python/headwise')}"
               for path in (ROOT / "python/headwise").rglob("*")
               if path.is_file() and path.suffix in (".py", ".typed")}
    assert sources <= names
    extensions = {name.split(".")[0] for name in names if name.endswith(".so") and "cpython" in name}
    assert extensions == {"headwise/_core", "headwise/_files", "headwise/_files_plain", "headwise/jax/_handlers"}
    assert {"headwise/_core/__init__.pyi", "headwise/_files.pyi"} <= names
    outside = {name for name in names if not name.startswith(("headwise/", "headwise-"))}
    assert outside == set()


def test_the_sdist_holds_what_the_build_reads(sdist):
    """Every file of ours that compiling the package looked at."""
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True)
    parts = ("src/", "python/")  # of the build folder: not the tests', the tool's or the benchmark's objects
    used: set[pathlib.Path] = set()
    ours = False
    for line in listed.stdout.splitlines():
        if line and not line.startswith(" "):
            ours = line.startswith(parts) and "/view/" not in line
        elif ours and line.strip():
            path = (BUILD / line.strip()).resolve()
            if path.is_relative_to(ROOT) and not path.is_relative_to(ROOT / ".venv") and not path.is_relative_to(BUILD):
                used.add(path.relative_to(ROOT))
    assert len(used) > 100
    assert [str(path) for path in sorted(used) if not (sdist / path).exists()] == []


def test_the_sdist_can_be_configured(sdist, tmp_path):
    """All of CMake's files, and the sources that they name."""
    import tomllib

    settings = tomllib.loads((sdist / "pyproject.toml").read_text())["tool"]["scikit-build"]["cmake"]["define"]
    defines = [f"-D{name}={value}" for name, value in settings.items()]
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", sdist, "-B", tmp_path, f"-DPython_EXECUTABLE={sys.executable}",
                           *defines], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_sdist_is_small(sdist):
    files = [path for path in sdist.rglob("*") if path.is_file()]
    assert {"tests", "docs", "build", ".venv", "cli"} & {path.name for path in sdist.iterdir()} == set()
    assert sum(path.stat().st_size for path in files) < 5e6


def test_types(wheel, tmp_path):
    """mypy --strict over the package's core, with the stubs that the wheel holds; frameworks are not followed."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    drop_ins = ",".join(f"headwise.{name}.*" for name in ("torch", "jax", "keras", "transformers", "peers"))
    skipped = ",".join(f"{name}.*" for name in FRAMEWORKS.split())
    (tmp_path / "mypy.ini").write_text(
        f"[mypy]\nstrict = True\n[mypy-{skipped}]\nfollow_imports = skip\nignore_missing_imports = True\n"
        f"[mypy-{drop_ins}]\nignore_errors = True\n")
    (tmp_path / "user.py").write_text(textwrap.dedent("""
        import headwise as hw
        import numpy
        from numpy.typing import NDArray

        config = hw.AttentionConfig(num_heads=2, key_dim=4, query_features=8)
        layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=1))
        output: NDArray[numpy.float32] = layer.forward(numpy.ones((3, 8), numpy.float32)).output
        file: hw.TensorFile = hw.TensorFile.open("x")
        seconds: float = hw.plan(config, queries=3).prediction.seconds
        layer.forward("text")  # type: ignore[arg-type]
        hw.no_such_name  # type: ignore[attr-defined]
        """))
    done = subprocess.run([sys.executable, "-m", "mypy", "--no-incremental", "-p", "headwise", "-m", "user"],
                          cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
