"""linear(), PackedLinear and linear_backward(): the formula, the layer's own bits, what is refused."""

from __future__ import annotations

import headwise as hw
import numpy as np
import pytest
import torch
from formulas import assert_close, same_bits


@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4), (2, 3, 5, 4), (0, 4)])
def test_is_differentiated_like_torch_s(normal, shape):
    x, kernel, bias, dy = normal(*shape), normal(4, 7), normal(7), normal(*shape[:-1], 7)
    exact = [torch.tensor(a, dtype=torch.float64, requires_grad=True) for a in (x, kernel, bias)]
    y = exact[0] @ exact[1] + exact[2]
    y.backward(torch.tensor(dy, dtype=torch.float64))
    assert_close(hw.linear(x, kernel, bias), y)
    g = hw.linear_backward(x, kernel, dy)
    for ours, tensor in zip((g.input, g.kernel, g.bias), exact, strict=True):
        assert_close(ours, tensor.grad)


def test_parts_give_the_layer_s_bits(normal):
    """Projections, attention and output projection one by one, forward and backward."""
    config = hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=8, value_dim=24, query_features=40,
                                key_features=30)
    w = hw.AttentionWeights.glorot(config, seed=3)
    x, y, dy, mask = normal(2, 9, 40), normal(2, 11, 30), normal(2, 9, 40), hw.valid_lengths([4, 11])
    layer = hw.MultiHeadAttention(config, w)
    r = layer.forward(x, y, y, mask=mask, save_for_backward=True)
    expected = layer.backward(x, y, y, r, dy, mask=mask)

    inputs = {"query": x, "key": y, "value": y}
    heads = {"query": 4, "key": 2, "value": 2}
    q, k, v = (hw.linear(a, w[f"{name}/kernel"], w[f"{name}/bias"]).reshape(2, a.shape[1], heads[name], -1)
               for name, a in inputs.items())
    inner = hw.attention(q, k, v, mask=mask)
    flat = inner.output.reshape(2, 9, -1)
    output = hw.PackedLinear(w["attention_output/kernel"], w["attention_output/bias"])(flat)
    assert same_bits(output, r.output)

    back = {"attention_output": hw.linear_backward(flat, w["attention_output/kernel"], dy)}
    d_inner = hw.attention_backward(q, k, v, inner, back["attention_output"].input.reshape(2, 9, 4, 24),
                                    mask=mask)
    for name, a in inputs.items():
        gradient = getattr(d_inner, name).reshape(2, a.shape[1], -1)
        back[name] = hw.linear_backward(a, w[f"{name}/kernel"], gradient)
        assert same_bits(back[name].input, getattr(expected, name))
    for name, g in back.items():
        assert same_bits(g.kernel, expected.weights[f"{name}/kernel"])
        assert same_bits(g.bias, expected.weights[f"{name}/bias"])


def test_strides_and_threads_change_no_bit(normal):
    x, kernel, dy = normal(300, 70), normal(70, 130), normal(300, 130)
    expected = hw.linear_backward(x, kernel, dy)
    strided = [np.asfortranarray(x), kernel[::-1].copy()[::-1], torch.from_numpy(dy)]
    for threads in (1, 2, 3):
        g = hw.linear_backward(*strided, context=hw.Context(threads))
        for part in ("input", "kernel", "bias"):
            assert same_bits(getattr(expected, part), getattr(g, part))


def test_gradients_are_made_once(normal):
    g = hw.linear_backward(normal(2, 3), normal(3, 4), normal(2, 4))
    assert g.kernel is g.kernel and g.input.flags.writeable


@pytest.mark.parametrize("change, error, text", [
    ({"kernel": np.zeros((3, 4), np.float32)}, hw.ArgumentError, r"kernel: expected shape \(4, outputs\), got \(3, 4\)"),
    ({"input": np.zeros((), np.float32)}, hw.ArgumentError, "input: expected rank ≥ 1"),
    ({"output_gradient": np.zeros((2, 4), np.float32)}, hw.ArgumentError,
     r"output_gradient: expected shape \(2, 5\), got \(2, 4\)"),
    ({"input": np.zeros((2, 4))}, TypeError, "input: expected float32, got float64"),
    ({"kernel": [[1.0]]}, TypeError, "kernel: expected an array of float32, got list"),
])
def test_what_cannot_be(normal, change, error, text):
    arguments = {"input": normal(2, 4), "kernel": normal(4, 5), "output_gradient": normal(2, 5), **change}
    with pytest.raises(error, match=r"\[linear_backward\] " + text):
        hw.linear_backward(**arguments)


def test_sigmoid_is_the_gate_s(normal):
    config = hw.AttentionConfig(num_heads=2, key_dim=4, query_features=8, use_gate=True)
    w = hw.AttentionWeights.glorot(config, seed=3)
    x = normal(2, 5, 8)
    z = hw.linear(x, w["gate/kernel"], w["gate/bias"])
    gate = hw.sigmoid(z)
    assert_close(gate, 1 / (1 + np.exp(-z.astype(np.float64))))
    q, k, v = (hw.linear(x, w[f"{name}/kernel"], w[f"{name}/bias"]).reshape(2, 5, 2, 4)
               for name in ("query", "key", "value"))
    gated = hw.attention(q, k, v).output.reshape(2, 5, 8) * gate
    output = hw.linear(gated, w["attention_output/kernel"], w["attention_output/bias"])
    assert same_bits(output, hw.MultiHeadAttention(config, w).forward(x).output)
    assert same_bits(hw.sigmoid(np.asfortranarray(z), context=hw.Context(threads=2)), gate)
