"""Tables fit the window that shows them."""

from __future__ import annotations

import re

import pytest

from test_view import on_terminal


def table_of(text, title, end):
    lines = text[text.index(title):].splitlines()
    return lines[:next(i for i, line in enumerate(lines) if line.startswith(end))]


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_knobs_fit_the_window(tool, succeed, columns):
    call = ("plan", "--shape", "32,128,512", "--heads", "8", "--key-dim", "64")
    table = table_of(on_terminal(tool, *call, columns=columns), "change ", "cache:")
    assert max(map(len, table)) <= columns
    # The same words, whatever the width.
    words = [sorted(re.findall(r"[^\s~]+", " ".join(lines))) for lines in (
        [re.sub(r"\S+ [mµ]?s$", "", line) for line in table],
        [re.sub(r"\S+ [mµ]?s$", "", line) for line in table_of(succeed(*call), "change ", "cache:")])]
    assert words[0] == words[1]


def test_a_pipe_has_a_hundred_columns(succeed):
    call = ("plan", "--shape", "2,16,64", "--compare", "8x64,16x32,8x64v32", "--measure")
    assert max(map(len, table_of(succeed(*call), "layer ", "layer:"))) <= 100
