"""One thread, unless a test asks for more: the tests' matrices are small."""

from __future__ import annotations

import pytest
import torch


def pytest_configure(config):
    """What torch says about its own parts, and about masks of two types, which the grid has on purpose."""
    for line in ("ignore:Support for mismatched:UserWarning", "ignore:enable_nested_tensor is True:UserWarning",
                 "ignore:The PyTorch API of nested tensors:UserWarning", "ignore:`torch.jit:DeprecationWarning"):
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
