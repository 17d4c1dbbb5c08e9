"""Attention as its formula says, in float64 by PyTorch, which also differentiates it."""

from __future__ import annotations

import numpy as np
import torch


def heads(array: np.ndarray) -> torch.Tensor:
    """(B,T,H,d) of float32 → (B,H,T,d) of float64, to be differentiated."""
    return torch.tensor(np.ascontiguousarray(array), dtype=torch.float64).requires_grad_()


def attention(query, key, value, *, keep=None, bias=None, scale=None, softcap=None):
    """Tensors (B,T,H,d) of float64 → output (B,T,H,dv), weights (B,H,T,S), log-sum-exp (B,H,T)."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], dim=1) for x in (k, v))
    scores = q @ k.transpose(2, 3) * (q.shape[3] ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias
    keep = torch.ones_like(scores, dtype=torch.bool) if keep is None else torch.as_tensor(keep)
    hidden = scores.masked_fill(~keep, -1e300)  # not −∞, whose gradient is NaN in an empty row
    weights = torch.softmax(hidden, dim=3) * keep
    lse = torch.logsumexp(scores.masked_fill(~keep, -torch.inf), dim=3)
    return (weights @ v).transpose(1, 2), weights, lse


def assert_close(ours, expected, error: float = 3e-6) -> None:
    """Within `error` of the largest number, as float32 sums of these lengths are."""
    expected = expected.detach().numpy() if isinstance(expected, torch.Tensor) else expected
    assert ours.shape == tuple(expected.shape)
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(ours[~finite], expected[~finite])
    size = max(1.0, float(np.abs(expected[finite]).max(initial=0)))
    np.testing.assert_allclose(ours[finite], expected[finite], rtol=0, atol=error * size)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
