"""What the tests of headwise.torch share: masks by name, numbers, comparisons."""

from __future__ import annotations

import copy
import itertools

import torch

B, T, S, EMBED, HEADS = 2, 4, 5, 8, 2

ATTN_MASKS = ("none", "bool_2d", "bool_3d", "float_2d", "float_3d")
PADDING_MASKS = ("none", "bool", "float")
WEIGHTS = ("averaged", "per_head", "none")
MASK_CASES = list(itertools.product(ATTN_MASKS, PADDING_MASKS, WEIGHTS))


def assert_close(ours: torch.Tensor, expected: torch.Tensor, error: float = 5e-6) -> None:
    """Within `error` of the largest number of what float64 computes."""
    assert ours.shape == expected.shape
    size = max(1.0, float(expected.detach().abs().max())) if expected.numel() else 1.0
    torch.testing.assert_close(ours.double(), expected.double(), rtol=0, atol=error * size)


def attn_mask(name: str, batch: int = B) -> torch.Tensor | None:
    """Never hides key 0: a row that attends nothing is NaN in torch."""
    if name == "none":
        return None
    shape = (T, S) if name.endswith("2d") else (batch * HEADS, T, S)
    hidden = torch.rand(shape) < 0.4
    hidden[..., 0] = False
    if name.startswith("bool"):
        return hidden
    return torch.randn(shape).masked_fill(hidden, -torch.inf)


def padding_mask(name: str) -> torch.Tensor | None:
    if name == "none":
        return None
    hidden = torch.arange(S) >= torch.tensor([[S], [2]])
    return hidden if name == "bool" else torch.randn(B, S).masked_fill(hidden, -torch.inf)


def mask_options(case: tuple[str, str, str], masks: tuple) -> dict:
    """Arguments of a layer's forward."""
    return {"attn_mask": masks[0], "key_padding_mask": masks[1], "need_weights": case[2] != "none",
            "average_attn_weights": case[2] != "per_head"}


def double(value):
    """Tensors as float64, everything else as it is."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.detach().double().requires_grad_(value.requires_grad)
    return value


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.detach().numpy(), b.detach().numpy()
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
