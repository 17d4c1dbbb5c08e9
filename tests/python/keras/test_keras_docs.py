"""Examples: in every docstring, and docs/keras.md from its first line to its last."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import pkgutil
import re

import headwise.keras
import keras
import pytest
from keras_support import BACKEND

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/keras.md"
OWN = {"_jax", "_torch", "_tensorflow"} - {f"_{BACKEND}"}  # other backends'
MODULES = [m.name for m in pkgutil.iter_modules(headwise.keras.__path__) if m.name not in OWN]


@pytest.mark.parametrize("name", MODULES)
def test_docstrings(name):
    results = doctest.testmod(importlib.import_module(f"headwise.keras.{name}"))
    assert results.failed == 0


def test_package_docstring():
    assert doctest.testmod(headwise.keras) == doctest.TestResults(failed=0, attempted=3)


def test_page(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S):
        exec(block, names)
    assert isinstance(names["model"], keras.Model)
    theirs, ours = capsys.readouterr().out.split()
    assert ours == "True" and theirs in ("True", "False")  # Keras is free to do as well
