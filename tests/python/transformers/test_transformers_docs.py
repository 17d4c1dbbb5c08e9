"""Examples in the documentation of headwise.torch and headwise.transformers run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs" / "torch.md"
MODULES = ("torch", "torch._swap", "torch.functional", "torch.linear", "torch.multihead_attention", "transformers")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    results = doctest.testmod(importlib.import_module(f"headwise.{name}"))
    assert results.attempted > 0
    assert results.failed == 0


def test_programs(capsys):
    names: dict[str, object] = {}
    for program in re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(program, "docs/torch.md", "exec"), names)  # each goes on where the one before ended
    assert capsys.readouterr().out == "False\nTrue\n"
