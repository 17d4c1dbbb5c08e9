"""The documentation of headwise.jax: every example runs."""

from __future__ import annotations

import doctest
import inspect
import pathlib
import re

import pytest

import headwise.jax
import headwise.jax.linen
import headwise.jax.nnx

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODULES = (headwise.jax, headwise.jax.linen, headwise.jax.nnx)
DOCUMENTED = {module.__name__: module for module in MODULES} | {
    f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_examples_of(name):
    examples = doctest.DocTestParser().get_doctest(
        inspect.getdoc(DOCUMENTED[name]) or "", {}, name, None, 0)
    assert examples.examples, "no example"
    output: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=output.append)
    assert not output, "".join(output)


def test_programs_of_the_page(capsys):
    names: dict[str, object] = {}
    text = (ROOT / "docs/jax.md").read_text()
    for program in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(compile(program, "docs/jax.md", "exec"), names)
    *shown, theirs, ours = capsys.readouterr().out.split()
    assert " ".join(shown) == "(2, 16, 8, 64) True (2, 16, 32)"
    assert ours == "True" and theirs in ("True", "False")  # Flax is free to do as well
