"""MultiHeadAttention against the golden files of the real frameworks, and against its own parts."""

from __future__ import annotations

import json
import pathlib
import pickle

import headwise as hw
import numpy as np
import pytest
from formulas import assert_close, same_bits
from safetensors import safe_open

GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "golden"


class Golden:
    """One case of a golden file: tensors by name, options."""

    def __init__(self, framework: str, case: str):
        self.case = case
        self.file = safe_open(GOLDEN / f"{framework}.safetensors", framework="numpy")
        self.options = json.loads(self.file.metadata()[case])
        self.names = {name.removeprefix(case + "/") for name in self.file.keys()
                      if name.startswith(case + "/")}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.file.get_tensor(f"{self.case}/{name}")

    def below(self, prefix: str) -> dict[str, np.ndarray]:
        return {n.removeprefix(prefix): self[n] for n in self.names if n.startswith(prefix)}


def cases(framework: str, *unless: str) -> list[str]:
    """Those in which the framework computes what we do, and none of these tensors takes part."""
    with safe_open(GOLDEN / f"{framework}.safetensors", framework="numpy") as file:
        names = [name for name, options in file.metadata().items()
                 if "differs" not in json.loads(options)]
        keys = set(file.keys())
    return sorted(n for n in names if f"{n}/cotangent" in keys
                  and not any(f"{n}/{tensor}" in keys for tensor in unless))


def expect_parity(golden: Golden, config: hw.AttentionConfig, read, **options) -> None:
    """Output and gradients of inputs and weights, those read from the framework's layout too."""
    def batch_first(name):
        a = golden[name]
        return a.swapaxes(0, 1) if golden.options.get("batch_first") is False and a.ndim == 3 else a

    layer = hw.MultiHeadAttention(config, read(config, golden.below("weight/")))
    inputs = [batch_first(name) for name in ("query", "key", "value")]
    r = layer.forward(*inputs, **options, save_for_backward=True)
    assert_close(r.output, batch_first("output"), 1e-5)
    g = layer.backward(*inputs, r, batch_first("cotangent"), **options)
    for name, gradient in (("query", g.query), ("key", g.key), ("value", g.value)):
        assert_close(gradient, batch_first(f"gradient/{name}"), 1e-5)
    expected = read(config, golden.below("gradient/weight/"))
    assert sorted(expected) == sorted(g.weights) == sorted(layer.weights)
    for name, gradient in g.weights.items():
        assert_close(gradient, expected[name], 1e-5)


@pytest.mark.parametrize("case", cases("torch", "attn_mask", "key_padding_mask"))
def test_torch(case):
    golden = Golden("torch", case)
    names = ("embed_dim", "num_heads", "bias", "add_bias_kv", "add_zero_attn", "kdim", "vdim")
    options = {name: golden.options[name] for name in names if name in golden.options}
    expect_parity(golden, hw.presets.torch(**options), hw.presets.torch_weights)


@pytest.mark.parametrize("case", cases("d2l"))
def test_d2l(case):
    golden = Golden("d2l", case)
    lengths = hw.valid_lengths(golden["valid_lens"]) if "valid_lens" in golden.names else None
    expect_parity(golden, hw.presets.d2l(**golden.options), hw.presets.d2l_weights, mask=lengths)


@pytest.mark.parametrize("case", cases("flax", "mask"))
def test_flax(case):
    golden = Golden("flax", case)
    kernel = golden["weight/query/kernel"]
    norm = golden.options["normalize_qk"]
    config = hw.AttentionConfig(
        num_heads=kernel.shape[1], num_kv_heads=golden["weight/key/kernel"].shape[1],
        key_dim=kernel.shape[2], query_features=kernel.shape[0],
        key_features=golden["key"].shape[-1], value_features=golden["value"].shape[-1],
        output_features=golden["output"].shape[-1], use_bias=golden.options["use_bias"],
        qk_norm=hw.QkNorm.LayerNorm if norm else hw.QkNorm.None_)
    expect_parity(golden, config, hw.presets.flax_weights)


def keras_config(golden: Golden) -> hw.AttentionConfig:
    o = golden.options
    return hw.presets.keras(
        o.get("num_heads", o.get("num_query_heads")), o.get("key_dim", o.get("head_dim")),
        value_dim=o.get("value_dim"), use_bias=o.get("use_bias", True),
        use_gate=o.get("use_gate", False), num_key_value_heads=o.get("num_key_value_heads"),
        output_shape=golden["output"].shape[-1], query_features=golden["query"].shape[-1],
        value_features=golden["value"].shape[-1], key_features=golden["key"].shape[-1])


@pytest.mark.parametrize("case", [c for c in cases("keras") if c.endswith(
    ("_plain", "_value_dim", "_no_bias", "_gate", "_gate_no_bias", "_grouped_gate", "_grouped"))])
def test_keras(case):
    golden = Golden("keras", case)
    config = keras_config(golden)
    expect_parity(golden, config, hw.presets.keras_weights)
    shaped = golden.below("weight/")  # with heads as an axis: our own names take them as they are
    assert any(a.ndim == 3 for a in shaped.values())
    a, b = (hw.MultiHeadAttention(config, weights).weights
            for weights in (shaped, hw.presets.keras_weights(config, shaped)))
    assert a.keys() == b.keys() and all(same_bits(a[name], b[name]) for name in a)


CONFIG = hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=6, value_dim=3, query_features=10,
                            key_features=7, value_features=9, output_features=5)


@pytest.fixture
def layer():
    return hw.MultiHeadAttention(CONFIG, hw.AttentionWeights.glorot(CONFIG, seed=3))


@pytest.fixture
def inputs(normal):
    return normal(2, 5, 10), normal(2, 8, 7), normal(2, 8, 9)


def test_a_layer_is_its_parts(layer, inputs):
    """Three maps, attention, a map: bit for bit."""
    w = layer.weights
    q, k, v = (hw.linear(x, w[f"{name}/kernel"], w[f"{name}/bias"]) for x, name in
               zip(inputs, ("query", "key", "value"), strict=True))
    heads = hw.attention(q.reshape(2, 5, 4, 6), k.reshape(2, 8, 2, 6), v.reshape(2, 8, 2, 3))
    packed = hw.PackedLinear(w["attention_output/kernel"], w["attention_output/bias"])
    expected = packed(heads.output.reshape(2, 5, 12))
    r = layer.forward(*inputs)
    assert same_bits(r.output, expected) and same_bits(r.log_sum_exp, heads.log_sum_exp)
    out = np.empty((5, 5, 2), np.float32).transpose(2, 0, 1)
    assert packed(heads.output.reshape(2, 5, 12), out=out) is out
    assert same_bits(out.copy(), expected)


def test_missing_inputs_are_the_query(normal):
    config = hw.presets.paper(8, 2)
    layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=3))
    x = normal(2, 5, 8)
    expected = layer.forward(x, x, x).output
    assert same_bits(layer.forward(x).output, expected)
    assert same_bits(layer.forward(x, x).output, expected)
    assert same_bits(layer.forward(x[0]).output, expected[0])
    packed = layer.forward(x.reshape(10, 8), packed=hw.PackedLengths([0, 5, 10]))
    assert same_bits(packed.output.reshape(2, 5, 8), expected)


def test_weights_are_a_dict_of_the_layer_s_own(layer):
    w = layer.weights
    assert {n: a.shape for n, a in w.items()} == {r.name: r.flat_shape for r in hw.describe(CONFIG).rows}
    assert all(a.dtype == np.float32 and not a.flags.writeable for a in w.values())
    assert w["query/kernel"].ctypes.data == layer.weights["query/kernel"].ctypes.data
    kernel = w["query/kernel"]
    expected = kernel.copy()
    del layer, w
    assert same_bits(kernel, expected)


def test_a_layer_does_not_see_later_changes(inputs):
    weights = hw.AttentionWeights.glorot(CONFIG, seed=3)
    layer = hw.MultiHeadAttention(CONFIG, weights)
    before = layer.forward(*inputs).output.copy()
    weights["query/kernel"] += 1
    assert same_bits(layer.forward(*inputs).output, before)
    assert not same_bits(hw.MultiHeadAttention(CONFIG, weights).forward(*inputs).output, before)


def test_weights_of_any_layout(inputs, layer):
    strided = {name: np.asfortranarray(a) for name, a in layer.weights.items()}
    heads = {r.name: layer.weights[r.name].reshape(r.shape) for r in hw.describe(CONFIG).rows}
    for weights in (strided, heads):
        again = hw.MultiHeadAttention(CONFIG, weights)
        assert same_bits(again.forward(*inputs).output, layer.forward(*inputs).output)


def test_pickled_layer(layer, inputs):
    again = pickle.loads(pickle.dumps(layer))
    assert again.config == CONFIG
    assert same_bits(again.forward(*inputs).output, layer.forward(*inputs).output)


@pytest.mark.parametrize("change, text", [
    (lambda w: w.pop("query/kernel"), r"weights query/kernel: expected shape \(10, 24\), got none: it is missing"),
    (lambda w: w.update({"query/kernel": w["key/kernel"]}), r"expected shape \(10, 24\), got \(7, 12\)"),
    (lambda w: w.update({"other": w["key/kernel"]}), r"weights: expected the names query/kernel, .*, got 'other'"),
    (lambda w: w.update({"gate/kernel": w["key/kernel"]}), r"got 'gate/kernel'"),
])
def test_weights_that_cannot_be(change, text):
    weights = hw.AttentionWeights.zeros(CONFIG)
    change(weights)
    with pytest.raises(hw.ArgumentError, match=text):
        hw.MultiHeadAttention(CONFIG, weights)


def test_weights_of_another_type():
    weights = hw.AttentionWeights.zeros(CONFIG)
    with pytest.raises(TypeError, match="weights: expected a mapping from names to arrays, got list"):
        hw.MultiHeadAttention(CONFIG, list(weights))
    weights["query/bias"] = weights["query/bias"].astype(np.float64)
    with pytest.raises(TypeError, match=r"\[MultiHeadAttention\] query/bias: expected float32, got float64"):
        hw.MultiHeadAttention(CONFIG, weights)
    weights["query/bias"] = None
    with pytest.raises(TypeError, match="query/bias: expected an array of float32, got None"):
        hw.MultiHeadAttention(CONFIG, weights)


def test_training_follows_its_seed(inputs, normal):
    config = CONFIG.replace(dropout=0.5)
    layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=3))
    plain = layer.forward(*inputs).output
    dropped = layer.forward(*inputs, training=True, dropout_seed=1, save_for_backward=True)
    assert not same_bits(plain, dropped.output)
    assert same_bits(layer.forward(*inputs, training=True, dropout_seed=1).output, dropped.output)
    ids = layer.forward(*(x[1:] for x in inputs), training=True, dropout_seed=1, sequence_ids=[1])
    assert same_bits(ids.output, dropped.output[1:])
    with pytest.raises(hw.ArgumentError, match=r"\[MultiHeadAttention.backward\] options: expected training and"):
        layer.backward(*inputs, dropped, normal(2, 5, 5), training=True, dropout_seed=2)


def test_gradients_of_a_layer_by_differences(layer, inputs, normal):
    """Along a random direction of each input and weight."""
    cotangent = normal(2, 5, 5).astype(np.float64)
    mask = hw.valid_lengths([8, 3])
    table = normal(4, 1, 8)

    def loss(weights, x, bias):
        made = hw.MultiHeadAttention(CONFIG, weights)
        bias = hw.Bias(bias, hw.Axes.HeadQueryKey)
        return (made.forward(*x, mask=mask, bias=bias).output.astype(np.float64) * cotangent).sum()

    bias = hw.Bias(table, hw.Axes.HeadQueryKey)
    r = layer.forward(*inputs, mask=mask, bias=[bias], save_for_backward=True)
    g = layer.backward(*inputs, r, cotangent.astype(np.float32), mask=mask, bias=[bias], bias_gradient=True)
    arrays = {**layer.weights, **dict(enumerate(inputs)), "bias": table}
    gradients = {**g.weights, 0: g.query, 1: g.key, 2: g.value, "bias": g.bias[0]}
    for name, gradient in gradients.items():
        step = normal(*gradient.shape)
        both = []
        for sign in (1, -1):
            moved = {**arrays, name: arrays[name] + np.float32(sign * 1e-2) * step}
            both.append(loss({n: moved[n] for n in layer.weights}, [moved[i] for i in range(3)],
                             moved["bias"]))
        difference = (both[0] - both[1]) / 2e-2
        exact = (gradient.astype(np.float64) * step).sum()
        assert abs(difference - exact) < 2e-3 * max(1, abs(exact)), name


def test_result_of_another_call(layer, inputs, normal):
    with pytest.raises(hw.ArgumentError, match="forward: expected a result of forward with save_for_backward"):
        layer.backward(*inputs, layer.forward(*inputs), normal(2, 5, 5))
    other = hw.MultiHeadAttention(CONFIG, layer.weights)
    with pytest.raises(hw.ArgumentError, match="forward: expected a result of this layer, got another's"):
        layer.backward(*inputs, other.forward(*inputs, save_for_backward=True), normal(2, 5, 5))
