"""The package as it is installed: its names, documentation, types and dependencies."""

from __future__ import annotations

import doctest
import importlib.metadata
import inspect
import os
import pathlib
import re
import subprocess
import sys

import headwise
import headwise.files
import headwise.overhead
import headwise.planning
import pytest
from conftest import ROOT


def documented() -> dict[str, object]:
    """Everything with documentation of its own: modules, public names and their members."""
    found: dict[str, object] = {"headwise": headwise, "presets": headwise.presets, "files": headwise.files,
                                "overhead.measure": headwise.overhead.measure}
    for module in (headwise, headwise.presets):
        prefix = "" if module is headwise else "presets."
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                found[prefix + name] = value
            if inspect.isclass(value):
                for member, entry in vars(value).items():
                    if not member.startswith("_") and callable(entry):
                        found[f"{prefix}{name}.{member}"] = entry
    return found


@pytest.mark.parametrize("name", documented())
def test_examples(name):
    text = inspect.getdoc(documented()[name]) or ""
    assert text, "no documentation"
    examples = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    is_function_or_class = "." not in name or name.startswith("presets.")
    assert examples.examples or not is_function_or_class, "no example"
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=output.append)
    assert not output, "".join(output)


def test_all_names_are_public():
    core = {name for name in vars(headwise._core) if not name.startswith("_")}
    assert core - set(headwise.__all__) == {"time_forward", "Watch"}
    assert all(hasattr(headwise, name) for name in headwise.__all__)
    assert headwise.__all__ == sorted(headwise.__all__, key=str.lower)
    assert set(headwise.presets.__all__) == {
        name for name in vars(headwise._core.presets) if not name.startswith("_")}


def test_version_is_the_header_s():
    header = (ROOT / "include/headwise/version.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"VERSION_\w+ (\d+)", header))
    assert headwise.__version__ == version == importlib.metadata.version("headwise")


def test_needs_numpy_alone():
    assert importlib.metadata.requires("headwise") == ["numpy"]
    program = "import sys, headwise; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "headwise._files" not in loaded.stdout.split(), "its libraries are loaded when they are needed"
    frameworks = {"torch", "jax", "jaxlib", "flax", "keras", "tensorflow", "transformers", "ml_dtypes"}
    assert "headwise" in loaded.stdout.split()
    assert not frameworks & set(loaded.stdout.split())


def libraries(extension: pathlib.Path) -> dict[str, str]:
    """Name → place of the shared libraries that it is linked with, and those with."""
    text = subprocess.run(["ldd", extension], capture_output=True, text=True, check=True).stdout
    found = {}
    for line in text.splitlines():
        name, _, where = line.strip().partition(" => ")
        found[pathlib.Path(name.split(" ")[0]).name.split(".so")[0]] = where.split(" ")[0]
    return found


RUNTIMES = {"linux-vdso", "ld-linux-x86-64", "ld-linux-aarch64", "libstdc++", "libm", "libgcc_s", "libc"}


@pytest.mark.parametrize("name", ["_core", "_files_plain"])
def test_links_the_c_and_c_plus_plus_runtimes_alone(name):
    """Highway, where it is a shared library, lies beside the extension."""
    core = pathlib.Path(headwise._core.__file__)
    found = libraries(core.with_name(core.name.replace("_core", name)))
    own = found.pop("libhwy", str(core.parent))
    assert pathlib.Path(own).is_relative_to(core.parent)
    assert found.keys() <= RUNTIMES


def test_is_typed():
    files = {str(file) for file in importlib.metadata.files("headwise") or []}
    stubs = {"headwise/_core/__init__.pyi", "headwise/_core/presets.pyi", "headwise/_files.pyi"}
    assert stubs <= files
    assert (pathlib.Path(headwise.__file__).parent / "py.typed").exists()
    text = "\n".join(f.read_text() for f in importlib.metadata.files("headwise") or [] if str(f) in stubs)
    written_in_python = {"presets", "Plan", "plan", *headwise.files.__all__} - set(vars(headwise.files._module))
    for name in set(headwise.__all__) - written_in_python:
        assert re.search(rf"^(def|class) {name}\b|^{name}:", text, re.MULTILINE), name


def test_overhead_is_measured():
    """That it can be; how long it takes is the benchmark's business."""
    done = subprocess.run([sys.executable, "-m", "headwise.overhead", "--features", "64", "--limit", "1e9"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("one token, 64 features")
    assert [line.split("  ")[1] for line in lines[1:]] == [
        "C++", "layer.forward(x)", "layer.forward(x).output", "layer.forward(x, out=y, context=c)"]
    assert subprocess.run([sys.executable, "-m", "headwise.overhead", "--features", "8", "--limit=-1e9"],
                          capture_output=True, check=False).returncode == 1


def programs(file: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / file).read_text(encoding="utf-8"), re.DOTALL)


def test_programs_of_the_documentation(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs("docs/python.md"):  # each goes on where the one before ended
        exec(compile(program, "docs/python.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.startswith("(4, 128, 512) (4, 8, 128, 128)\nname ")
    assert headwise.default_target() in printed
    assert "encoder.0.in_proj_weight (1536, 512) F32" in printed and "predicted, " in printed


def test_program_of_the_readme():
    names: dict[str, object] = {}
    exec(compile(programs("README.md")[0], "README.md", "exec"), names)
    assert names["r"].output.shape == (4, 128, 512)


def test_frameworks_of_the_readme():
    """What stands there can be pasted, with a model and arrays of one's own."""
    program = """import jax.numpy, torch
model, q = torch.nn.TransformerEncoderLayer(8, 2), jax.numpy.ones((1, 3, 2, 4))
k = v = q
""" + programs("README.md")[1] + """
assert type(model.self_attn) is headwise.torch.MultiheadAttention and y.shape == q.shape"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False,
                          env={**os.environ, "KERAS_BACKEND": "jax"})
    assert done.returncode == 0, done.stderr
