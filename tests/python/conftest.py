"""Tests of the installed package `headwise`, against numpy and the real frameworks."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

# Quiet, and no thread pools of their own before the tests that fork.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


LINES = pytest.StashKey[list[str]]()


@pytest.fixture
def report(request):
    """report("largest difference 1e-7") → a line after the tests, which `make test` shows."""
    return request.config.stash.setdefault(LINES, []).append


def pytest_terminal_summary(terminalreporter, config):
    for line in config.stash.get(LINES, []):
        terminalreporter.write_line(line)


@pytest.fixture
def normal(request):
    """normal(2, 3) → float32 numbers that depend on the test's name alone."""
    seed = sum(ord(letter) * (i + 1) for i, letter in enumerate(request.node.name))
    generator = np.random.default_rng(seed)

    def make(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape, np.float32)

    return make
