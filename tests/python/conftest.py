"""Tests of the installed package `headwise`, against numpy and the real frameworks."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

# Quiet, and no thread pools of their own before the tests that fork.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def normal(request):
    """normal(2, 3) → float32 numbers that depend on the test's name alone."""
    seed = sum(ord(letter) * (i + 1) for i, letter in enumerate(request.node.name))
    generator = np.random.default_rng(seed)

    def make(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape, np.float32)

    return make
