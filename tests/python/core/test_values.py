"""Configurations, masks, requests, contexts and transforms: the small values of the interface."""

from __future__ import annotations

import copy
import pickle

import headwise as hw
import numpy as np
import pytest
from formulas import assert_close, same_bits

FULL = {
    "num_heads": 4, "num_kv_heads": 2, "key_dim": 6, "value_dim": 3, "query_features": 10,
    "key_features": 7, "value_features": 9, "output_features": 5, "use_bias": False,
    "use_output_bias": True, "dropout": 0.25, "scale": 0.5, "softcap": 30.0, "use_gate": True,
    "qk_norm": hw.QkNorm.LayerNorm, "qk_norm_epsilon": 0.5, "add_bias_kv": True,
    "add_zero_attn": True, "seed": 2**64 - 1,
}
SMALL = {"num_heads": 2, "key_dim": 3, "query_features": 8}


def test_config_has_what_it_was_given():
    config = hw.AttentionConfig(**FULL)
    assert {name: getattr(config, name) for name in FULL} == FULL
    assert (config.kv_heads, config.value_size, config.key_inputs, config.value_inputs) == (2, 3, 7, 9)
    assert (config.outputs, config.has_output_bias, config.score_scale) == (5, True, 0.5)
    assert config.extra_keys == 2


def test_config_fills_in_defaults():
    config = hw.AttentionConfig(**SMALL)
    assert (config.num_kv_heads, config.value_dim, config.scale) == (None, None, None)
    assert (config.kv_heads, config.value_size, config.key_inputs, config.value_inputs) == (2, 3, 8, 8)
    assert (config.outputs, config.use_bias, config.has_output_bias) == (8, True, True)
    assert config.score_scale == pytest.approx(3**-0.5)


@pytest.mark.parametrize("fields", [SMALL, FULL])
def test_config_is_a_value(fields):
    config = hw.AttentionConfig(**fields)
    for again in (pickle.loads(pickle.dumps(config)), copy.copy(config), copy.deepcopy(config),
                  eval(repr(config), vars(hw)), config.replace()):
        assert again == config and again is not config and hash(again) == hash(config)
    assert config != "something else"


@pytest.mark.parametrize("name", FULL)
def test_every_field_counts_when_compared(name):
    config = hw.AttentionConfig(**FULL)
    other = {"qk_norm": hw.QkNorm.None_, "num_heads": 8, "num_kv_heads": 4, "seed": 1}
    value = FULL[name]
    changed = other.get(name, not value if isinstance(value, bool) else value / 2 if isinstance(value, float) else 12)
    assert config.replace(**{name: changed}) != config


def test_config_does_not_change():
    config = hw.AttentionConfig(**SMALL)
    with pytest.raises(AttributeError):
        config.num_heads = 4
    assert config.replace(num_heads=4) != config and config.num_heads == 2


def test_config_takes_numpy_s_integers():
    assert hw.AttentionConfig(num_heads=np.int32(2), key_dim=np.int64(3), query_features=8) == \
        hw.AttentionConfig(**SMALL)


@pytest.mark.parametrize("fields, error, text", [
    ({"num_heads": 0}, hw.ArgumentError, r"num_heads: expected a number ≥ 1, got 0"),
    ({"num_kv_heads": 3}, hw.ArgumentError, "num_kv_heads: expected a divisor of num_heads = 2, got 3"),
    ({"dropout": 1.0}, hw.ArgumentError, r"dropout: expected a number in \[0, 1\), got 1"),
    ({"scale": float("nan")}, hw.ArgumentError, "scale: expected a finite number"),
    ({"num_heads": "2"}, TypeError, "num_heads: expected an integer, got '2'"),
    ({"num_heads": 2.5}, TypeError, "num_heads: expected an integer, got 2.5"),
    ({"num_heads": None}, TypeError, "num_heads: expected an integer, got None"),
    ({"seed": -1}, TypeError, "seed: expected an integer ≥ 0, got -1"),
    ({"use_bias": "yes"}, TypeError, "use_bias: expected True or False, got 'yes'"),
    ({"qk_norm": 1}, TypeError, "qk_norm: expected a QkNorm, got 1"),
    ({"heads": 2, "colour": 3}, TypeError, "arguments: expected its fields, got heads, colour"),
])
def test_configs_that_cannot_be(fields, error, text):
    with pytest.raises(error, match=r"\[AttentionConfig\] " + text):
        hw.AttentionConfig(**{**SMALL, **fields})


@pytest.mark.parametrize("name", SMALL)
def test_configs_that_leave_out_what_has_no_default(name):
    with pytest.raises(TypeError, match=rf"\[AttentionConfig\] {name}: expected an integer, got nothing"):
        hw.AttentionConfig(**{field: value for field, value in SMALL.items() if field != name})


def test_errors_say_where():
    with pytest.raises(hw.ArgumentError) as raised:
        hw.attention(*[np.ones((2, 3, 4), np.float32)] * 3, mask=hw.valid_lengths([9]))
    assert isinstance(raised.value, ValueError)
    assert raised.value.function == "attention"
    assert raised.value.argument == "mask"
    assert str(raised.value).startswith("[attention] mask: expected ")
    again = pickle.loads(pickle.dumps(raised.value))
    assert str(again) == str(raised.value) and again.function == "attention"


def test_out_of_memory_is_a_memory_error():
    x = np.broadcast_to(np.float32(1), (1 << 20, 1, 1))
    with pytest.raises(MemoryError, match="out of memory: [0-9]+ bytes were refused"):
        hw.attention(x, x, x, weights=hw.all_weights())  # 4 TB


@pytest.mark.parametrize("call, error, text", [
    (lambda: hw.window(-1, 0), hw.ArgumentError, r"\[window\] left: expected a count ≥ 0, or None for unlimited, got -1"),
    (lambda: hw.window(1.5, 0), TypeError, r"\[window\] left: expected an integer or None, got 1.5"),
    (lambda: hw.causal("TopLeft"), TypeError,
     r"\[causal\] alignment: expected Alignment.TopLeft or Alignment.BottomRight, got 'TopLeft'"),
    (lambda: hw.aligned(0), TypeError, r"\[aligned\] alignment: expected Alignment.TopLeft or .*, got 0"),
    (lambda: hw.query_offset(1.5), TypeError, r"\[query_offset\] offset: expected an integer, got 1.5"),
    (lambda: hw.keep(np.ones((2, 2), bool), "BatchKey"), TypeError, r"\[keep\] axes: expected one of Axes, .*got 'BatchKey'"),
    (lambda: hw.keep(np.ma.masked_array([[True]])), TypeError,
     r"\[keep\] values: expected an array of bool without a mask, got a masked one"),
    (lambda: hw.Bias(np.ones((2, 2), np.float32), 2), TypeError, r"\[Bias\] axes: expected one of Axes, .*got 2"),
    (lambda: hw.Dropout(1.5, 1), hw.ArgumentError, r"\[Dropout\] probability: expected a number in \[0, 1\), got 1.5"),
    (lambda: hw.Dropout(float("nan")), hw.ArgumentError, r"\[Dropout\] probability: expected a number in \[0, 1\), got nan"),
    (lambda: hw.Dropout(0.5, -1), TypeError, r"\[Dropout\] seed: expected an integer ≥ 0, got -1"),
    (lambda: hw.Context(threads=1.5), TypeError, r"\[Context\] threads: expected an integer or None, got 1.5"),
    (lambda: hw.Context(target=3), TypeError, r"\[Context\] target: expected text or None, got 3"),
    (lambda: hw.set_default_context(3), TypeError, r"\[set_default_context\] context: expected a Context, .*got int"),
    (lambda: hw.top_k_weights("a"), TypeError, r"\[top_k_weights\] k: expected an integer, got 'a'"),
    (lambda: hw.keep(np.ones((2, 2), np.float32)), TypeError, r"\[keep\] values: expected bool, got float32"),
    (lambda: hw.keep(np.ones((2, 2), np.uint8)), TypeError, r"\[keep\] values: expected bool, got uint8"),
    (lambda: hw.Bias(np.ones((2, 2), bool)), TypeError, r"\[Bias\] values: expected float32, got bool"),
    (lambda: hw.valid_lengths([1.5]), TypeError, r"\[valid_lengths\] lengths: expected integers, got float64"),
    (lambda: hw.valid_lengths(["a"]), TypeError, r"\[valid_lengths\] lengths: expected integers, got <U1"),
    (lambda: hw.valid_lengths([True]), TypeError, r"\[valid_lengths\] lengths: expected integers, got bool"),
    (lambda: hw.query_offsets([[1]]), hw.ArgumentError, r"\[query_offsets\] offsets: expected one axis"),
    (lambda: hw.causal(hw.Alignment.TopLeft) & hw.query_offset(1), hw.ArgumentError,
     "positions: expected one alignment or offset for the whole mask, got TopLeft and query offsets"),
    (lambda: hw.Context(target="abacus"), hw.ArgumentError, r"\[Context\] target: expected one of .*reference, got \"abacus\""),
    (lambda: hw.top_k_weights(0), hw.ArgumentError, r"\[top_k_weights\] k: expected a number ≥ 1, got 0"),
    (lambda: hw.causal() & 1, TypeError, "unsupported operand"),
])
def test_values_that_cannot_be(call, error, text):
    with pytest.raises(error, match=text):
        call()


X = np.ones((2, 3, 2, 4), np.float32)


@pytest.mark.parametrize("options, error, text", [
    ({"mask": np.ones((3, 3), bool)}, TypeError, r"mask: expected a Mask, such as keep\(array\) or causal\(\), got ndarray"),
    ({"bias": np.ones((3, 3), np.float32)}, TypeError, "bias: expected a Bias or a sequence of them, got ndarray"),
    ({"bias": [np.ones((3, 3), np.float32)]}, TypeError, "bias: expected a Bias or a sequence of them"),
    ({"mask": hw.keep(np.ones((2, 3, 3), bool))}, hw.ArgumentError, "mask.*: expected Axes.BatchQueryKey or Axes.HeadQueryKey"),
    ({"mask": hw.keep(np.ones((3, 4), bool))}, hw.ArgumentError, r"expected shape \(3, 3\) or 1 on any axis, got \(3, 4\)"),
    ({"mask": hw.valid_lengths([1, 2, 3])}, hw.ArgumentError, "mask"),
    ({"dropout": 0.5}, TypeError, r"dropout: expected a Dropout, as Dropout\(0.1, seed=1\), got float"),
    ({"weights": True}, TypeError, r"weights: expected a WeightsRequest, as all_weights\(\) or .*, got bool"),
    ({"layout": "HeadsFirst"}, TypeError, "layout: expected Layout.SequenceFirst or Layout.HeadsFirst, got 'HeadsFirst'"),
    ({"layout": 1}, TypeError, "layout: expected Layout.SequenceFirst or Layout.HeadsFirst, got 1"),
    ({"context": 2}, TypeError, r"context: expected a Context, as Context\(threads=2\), got int"),
    ({"scale": "a"}, TypeError, "scale: expected a number, got 'a'"),
    ({"softcap": X}, TypeError, "softcap: expected a number, got ndarray"),
    ({"unmasked_tail": 1.5}, TypeError, "unmasked_tail: expected an integer, got 1.5"),
    ({"packed": [0, 3]}, TypeError, r"packed: expected PackedLengths, as PackedLengths\(\[0, 3, 7\]\), got list"),
    ({"packed": hw.PackedLengths([0, 3])}, hw.ArgumentError, "query: expected rank 3 for a packed batch"),
    ({"layout": None}, TypeError, "layout: expected Layout, got None"),
    ({"colour": 1}, TypeError, r"arguments: expected query, key, value, .*mask, .*context, got colour"),
])
def test_options_that_cannot_be(options, error, text):
    with pytest.raises(error, match=text):
        hw.attention(X, X, X, **options)
    if "weights" not in options:
        with pytest.raises(error, match=text):
            hw.attention_backward(X, X, X, hw.attention(X, X, X), X, **options)


LAYER = hw.MultiHeadAttention(hw.AttentionConfig(**SMALL), hw.AttentionWeights.glorot(hw.AttentionConfig(**SMALL), 1))
ROWS = np.ones((4, 8), np.float32)


@pytest.mark.parametrize("call, text", [
    (lambda: hw.attention(None, X, X), r"[attention] query: expected an array of float32, got None"),
    (lambda: hw.attention(X, X), r"[attention] value: expected an array of float32, got nothing"),
    (lambda: hw.attention(X, X, X, query=X), r"[attention] query: expected one value, got two"),
    (lambda: hw.attention_backward(X, X, X, X, X),
     "[attention_backward] forward: expected the AttentionResult of the forward call, got ndarray"),
    (lambda: hw.attention_backward(X, X, X, hw.attention(X, X, X), X, bias_gradient=1),
     "[attention_backward] bias_gradient: expected True or False, got 1"),
    (lambda: LAYER.forward(None), "[MultiHeadAttention.forward] query: expected an array of float32, got None"),
    (lambda: LAYER.forward(ROWS, save_for_backward="yes"),
     "[MultiHeadAttention.forward] save_for_backward: expected True or False, got 'yes'"),
    (lambda: LAYER.forward(ROWS, dropout_seed=-1),
     "[MultiHeadAttention.forward] dropout_seed: expected an integer ≥ 0, got -1"),
    (lambda: LAYER.forward(ROWS, training=1), "[MultiHeadAttention.forward] training: expected True or False, got 1"),
    (lambda: LAYER.backward(ROWS, None, None, None, ROWS),
     "[MultiHeadAttention.backward] forward: expected AttentionResult, got None"),
    (lambda: LAYER.backward(ROWS, None, None, LAYER.forward(ROWS), ROWS, context=1),
     "[MultiHeadAttention.backward] context: expected a Context, as Context(threads=2), got int"),
    (lambda: LAYER.forward(ROWS, maks=hw.causal()),
     "[MultiHeadAttention.forward] arguments: expected query, key, value, mask, bias, weights, training, "
     "dropout_seed, sequence_ids, save_for_backward, packed, out, context, got maks"),
    (lambda: hw.MultiHeadAttention({}, {}), "[MultiHeadAttention] config: expected an AttentionConfig, as "
     "AttentionConfig(num_heads=8, key_dim=64, query_features=512), got dict"),
    (lambda: hw.MultiHeadAttention(LAYER.config, {3: ROWS}),
     "[MultiHeadAttention] weights: expected names that are text, got int"),
    (lambda: hw.linear(ROWS, ROWS.T, context=1), "[linear] context: expected a Context, as Context(threads=2), got int"),
    (lambda: hw.linear(ROWS, None), "[linear] kernel: expected an array of float32, got None"),
    (lambda: hw.linear_backward(ROWS, ROWS.T), "[linear_backward] output_gradient: expected an array of float32, got nothing"),
    (lambda: hw.PackedLinear(ROWS)(None), "[PackedLinear] input: expected an array of float32, got None"),
    (lambda: hw.sigmoid(ROWS, None), "[sigmoid] arguments: expected input, context, some of them by name, "
     "got 2 without names"),
    (lambda: hw.Context(colour=1), "[Context] arguments: expected threads, target, got colour"),
    (lambda: hw.Dropout(), "[Dropout] probability: expected a number, got nothing"),
    (lambda: hw.keep(None), "[keep] values: expected an array of bool, got None"),
    (lambda: hw.valid_lengths(None), "[valid_lengths] lengths: expected integers, got None"),
    (lambda: hw.layer_cost(LAYER, 3), "[layer_cost] config: expected AttentionConfig, got MultiHeadAttention"),
    (lambda: hw.LayerCall(queries="a"), "[LayerCall] queries: expected an integer, got 'a'"),
    (lambda: hw.presets.torch(8), "[presets.torch] num_heads: expected an integer, got nothing"),
    (lambda: hw.TensorFile.open(), "[TensorFile.open] path: expected PathLike, got nothing"),
    (lambda: hw.AttentionWeights.glorot(LAYER.config, seed=-1),
     "[AttentionWeights.glorot] seed: expected an integer ≥ 0, got -1"),
    (lambda: hw.AttentionWeights.glorot(LAYER.config, seed=2**70),
     f"[AttentionWeights.glorot] seed: expected a smaller integer, got {2**70}"),
    (lambda: hw.weight_statistics(5), "[weight_statistics] arguments: expected none, got 1 without names"),
    (lambda: hw.find_layers([1]),
     "[find_layers] tensors: expected a mapping from names to arrays, or a TensorFile's tensors, got 1"),
    (lambda: hw.find_layers({"a": 1}),
     "[find_layers] tensors: expected a mapping from names to arrays, or a TensorFile's tensors, got 1"),
    (lambda: hw.find_layers(1),
     "[find_layers] tensors: expected a mapping from names to arrays, or a TensorFile's tensors, got 1"),
    (lambda: hw.find_layers({}, {"a": 1}), "[find_layers] metadata[\"a\"]: expected text, got 1"),
    (lambda: hw.save_tensors("x.safetensors", {}, {1: 2}),
     "[write_safetensors] metadata: expected names that are text, got int"),
    (lambda: hw.save_layers("x.safetensors", 5),
     "[save_layers] layers: expected a MultiHeadAttention, LayerParts or a mapping to them, got int"),
])
def test_calls_that_cannot_be(call, text):
    """What is wrong with them, not all that could be right."""
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


class EmptyBias(hw.Bias):
    def __init__(self):
        pass


class EmptyMask(hw.Mask):
    def __init__(self):
        pass


NO_LAYER = hw.MultiHeadAttention.__new__(hw.MultiHeadAttention)


@pytest.mark.parametrize("call, text", [
    (lambda: hw.attention(X, X, X, bias=EmptyBias()), "[attention] bias: expected an object that __init__ has made, "
     "got EmptyBias, whose __init__ did not run"),
    (lambda: hw.attention(X, X, X, mask=EmptyMask()), "[attention] mask: expected an object that __init__ has made, "
     "got EmptyMask, whose __init__ did not run"),
    (lambda: pickle.dumps(EmptyBias()), "[Bias.__reduce__] self: expected an object that __init__ has made, "
     "got EmptyBias, whose __init__ did not run"),
    (lambda: NO_LAYER.weights, "[MultiHeadAttention.weights] self: expected an object that __init__ has made, "
     "got MultiHeadAttention, whose __init__ did not run"),
    (lambda: pickle.dumps(NO_LAYER), "[MultiHeadAttention.__reduce__] self: expected an object that __init__ has made, "
     "got MultiHeadAttention, whose __init__ did not run"),
    (lambda: NO_LAYER.forward(ROWS), "[MultiHeadAttention.forward] self: expected an object that __init__ has made, "
     "got MultiHeadAttention, whose __init__ did not run"),
    (lambda: hw.describe(hw.AttentionConfig.__new__(hw.AttentionConfig)),
     "[describe] config: expected AttentionConfig, got AttentionConfig, whose __init__ did not run"),
])
@pytest.mark.filterwarnings("ignore:nanobind. attempted to access an uninitialized instance:RuntimeWarning")
def test_objects_that_were_not_made(call, text):
    """Nothing of theirs is read: there is nothing."""
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


def test_numbers_of_numpy_are_options():
    expected = hw.attention(X, X, X, scale=0.5, unmasked_tail=1)
    given = hw.attention(X, X, X, scale=np.float32(0.5), unmasked_tail=np.int64(1))
    assert same_bits(expected.output, given.output)


LOOKS = {
    "keep": lambda: hw.keep(np.tri(3, dtype=bool)) & hw.causal() & hw.keep(np.ones((1, 2, 3, 3), bool)),
    "keep_of_axes": lambda: hw.keep(np.ones((2, 3), bool), hw.Axes.BatchKey),
    "bias": lambda: hw.Bias(np.full((3, 3), np.nan, np.float32)),
    "bias_of_axes": lambda: hw.Bias(np.zeros((2, 3, 3), np.float32)[:, ::-1], hw.Axes.HeadQueryKey),
}
NUMBERS = {
    "no_mask": lambda: hw.Mask(),
    "causal": lambda: hw.causal(hw.Alignment.BottomRight),
    "window": lambda: hw.window(3, None) & hw.query_offset(2),
    "offsets": lambda: hw.causal() & hw.query_offsets([1, 2]),
    "lengths": lambda: hw.valid_lengths([1, 2]) & hw.valid_lengths([[1, 2], [3, 1]]) & hw.query_lengths([2, 2]),
    "segments": lambda: hw.segments([0, 0, 1]) & hw.segments([[0, 1]], [[1, 0, 0]]),
    "dropout": lambda: hw.Dropout(0.1, 2**64 - 1, [3, 1]),
    "packed": lambda: hw.PackedLengths([0, 3, 7], [0, 1, 2]),
    "request": lambda: hw.selected_weights([1], [0, 2]) | hw.top_k_weights(5) | hw.weight_statistics(),
    "matrix": lambda: hw.WeightsRequest.Matrix.Averaged,
    "alignment": lambda: hw.Alignment.BottomRight,
    "axes": lambda: hw.Axes.BatchKey,
    "layout": lambda: hw.Layout.HeadsFirst,
}


@pytest.mark.parametrize("name", [*LOOKS, *NUMBERS])
def test_values_compare_and_pickle(name):
    makers = {**LOOKS, **NUMBERS}
    value = makers[name]()
    for again in (makers[name](), pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert again == value and repr(again) == repr(value)
        if name in NUMBERS:
            assert hash(again) == hash(value)
    assert [other for other in makers if makers[other]() == value] == [name]
    assert value != "something else"
    if name in LOOKS:
        with pytest.raises(TypeError, match="unhashable"):
            hash(value)


def test_masks_are_equal_if_they_hide_the_same():
    assert hw.causal() == hw.window(None, 0) and hw.query_offset(3) == hw.query_offsets([3])
    a, b = hw.valid_lengths([1, 2]), hw.valid_lengths([2, 2])
    assert a & b & hw.causal() == hw.causal() & b & a
    assert hash(a & b & hw.causal()) == hash(hw.causal() & b & a)
    assert a & b != a & a and a != hw.query_lengths([1, 2])
    assert hw.keep(np.ones((2, 2), bool)) != hw.keep(np.ones((2, 2), bool), hw.Axes.BatchKey)


def test_a_pickled_mask_has_arrays_of_its_own(normal):
    x, keep, table = normal(2, 3, 2, 4), np.tri(3, dtype=bool), normal(3, 3)
    mask, bias = hw.keep(keep) & hw.valid_lengths([3, 2]), hw.Bias(table)
    expected = hw.attention(x, x, x, mask=mask, bias=bias).output.copy()
    mask, bias = pickle.loads(pickle.dumps((mask, bias)))
    keep[:], table[:] = True, 0
    assert mask != hw.keep(keep) & hw.valid_lengths([3, 2]) and bias != hw.Bias(table)
    assert same_bits(hw.attention(x, x, x, mask=mask, bias=bias).output, expected)


def test_short_texts():
    config = hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=3, query_features=8, output_features=5)
    layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, 1))
    x = np.ones((2, 8), np.float32)
    saved = layer.forward(x, save_for_backward=True)
    asked = hw.all_weights() | hw.top_k_weights(2) | hw.weight_statistics()
    r = hw.attention(X, X, X, bias=hw.Bias(X[0, :, :1, 0]), weights=asked)
    g = hw.attention_backward(X, X, X, r, X, bias=hw.Bias(X[0, :, :1, 0]), bias_gradient=True)
    assert [repr(value) for value in (
        layer, saved, layer.backward(x, None, None, saved, saved.output), r, g,
        hw.linear_backward(x, x.T, np.ones((2, 2), np.float32)), hw.PackedLinear(x.T),
        hw.Dropout(0.1, 3), hw.Dropout(0.5, 3, [1, 2]), hw.PackedLengths([0, 3], [0, 4]),
        hw.PackedLengths(range(0, 90, 10)), asked, hw.selected_weights([1]), hw.no_weights(),
    )] == [
        "<MultiHeadAttention: 4 heads of 3 (2 for keys and values), 8 → 5 features>",
        "<AttentionResult: output (2, 5), saved for backward>",
        "<LayerGradients: query (2, 8), key (2, 8), value (2, 8), 8 weights>",
        "<AttentionResult: output (2, 3, 2, 4), weights (2, 2, 3, 3), top (2, 2, 3, 2), statistics (2, 2, 3)>",
        "<AttentionGradients: query (2, 3, 2, 4), key (2, 3, 2, 4), value (2, 3, 2, 4), bias (3, 1)>",
        "<LinearGradients: input (2, 8), kernel (8, 2), bias (2,)>", "<PackedLinear: 8 → 2 features>",
        "Dropout(0.1, seed=3)", "Dropout(0.5, seed=3, sequence_ids=[1, 2])", "PackedLengths([0, 3], [0, 4])",
        "PackedLengths([0, 10, 20, …, 80])", "all_weights() | top_k_weights(2) | weight_statistics()",
        "selected_weights([1], [])", "no_weights()",
    ]
    assert repr(hw.layer_cost(config, hw.LayerCall(queries=3))).startswith("<LayerCost: ")
    r.output, g.query  # noqa: B018  as arrays
    assert "output (2, 3, 2, 4)" in repr(r) and "query (2, 3, 2, 4)" in repr(g)


def test_causal_must_say_its_alignment():
    with pytest.raises(hw.ArgumentError, match="mask"):
        hw.attention(X[:, :2], X, X, mask=hw.causal())


def test_no_lengths_for_no_sequences():
    none = np.ones((0, 3, 2, 4), np.float32)
    assert hw.attention(none, none, none, mask=hw.valid_lengths([])).output.shape == none.shape


def test_requests_join():
    r = hw.selected_weights([1], [0, 2]) | hw.top_k_weights(5) | hw.weight_statistics()
    assert (r.matrix, r.heads, r.rows, r.top_k, r.statistics) == \
        (hw.WeightsRequest.Matrix.PerHead, [1], [0, 2], 5, True)


def test_lengths_are_copied_and_arrays_are_looked_at():
    lengths = np.array([1, 1])
    keep = np.ones((3, 3), bool)
    mask, look = hw.valid_lengths(lengths), hw.keep(keep)
    x = np.random.default_rng(1).standard_normal((2, 3, 2, 4), np.float32)
    a, b = (hw.attention(x, x, x, mask=m).output.copy() for m in (mask, look))
    lengths[:] = 3
    keep[:] = np.tri(3, dtype=bool)
    assert same_bits(hw.attention(x, x, x, mask=mask).output, a)
    assert not same_bits(hw.attention(x, x, x, mask=look).output, b)


def test_initial_weights_are_those_of_c_plus_plus():
    """Numbers that depend on seed and place alone; printed once by a C++ program."""
    config = hw.AttentionConfig(**SMALL)
    w = hw.AttentionWeights.glorot(config, seed=7)
    bound = (6 / (8 + 6)) ** 0.5
    assert np.abs(w["query/kernel"]).max() <= bound and w["query/kernel"].std() > 0.3 * bound
    assert not w["query/bias"].any()
    assert same_bits(w["query/kernel"], hw.AttentionWeights.initialise(
        config, hw.Initializer.GlorotUniform, 7)["query/kernel"])
    assert not same_bits(w["query/kernel"], hw.AttentionWeights.glorot(config, seed=8)["query/kernel"])
    assert not any(a.any() for a in hw.AttentionWeights.zeros(config).values())


def test_context():
    context = hw.Context(threads=3, target="reference")
    assert (context.threads, context.target) == (3, "reference")
    assert repr(context) == "Context(threads=3, target='reference')"
    assert context.scratch_bytes == 0 and context.last_call.target == ""
    hw.attention(X, X, X, context=context)
    assert context.scratch_bytes > 0
    assert context.last_call.target == "reference" and context.last_call.threads == 1
    assert str(context.last_call).startswith("reference: the context asks for it; ")


@pytest.mark.parametrize("target", [t for t in hw.available_targets() if t != "sse4"])
def test_targets_give_the_same_bits(normal, target):
    x = normal(2, 9, 3, 8)
    context = hw.Context(1, target)
    assert same_bits(hw.attention(x, x, x, context=context).output, hw.attention(x, x, x).output)


def layer_parts(seed=1, **fields):
    config = hw.AttentionConfig(**{**SMALL, **fields})
    return hw.LayerParts(config, hw.AttentionWeights.glorot(config, seed))


def run(parts, *inputs):
    return hw.MultiHeadAttention(parts.config, parts.weights).forward(*inputs).output


def test_fold(normal):
    parts, matrix, shift = layer_parts(), normal(5, 8), normal(8)
    q, k = normal(4, 8), normal(6, 5)
    folded = hw.fold(parts, hw.Projection.Key, matrix, shift)
    assert folded.config.key_features == 5
    assert_close(run(folded, q, k, k @ matrix), run(parts, q, k @ matrix + shift, k @ matrix), 1e-5)


def test_merged_scores():
    parts = layer_parts()
    merged = hw.merged_scores(parts, 1)
    q, k = (parts.weights[f"{name}/kernel"].reshape(8, 2, 3)[:, 1] for name in ("query", "key"))
    assert_close(merged.matrix, q.astype(np.float64) @ k.T)
    assert merged.rank == 3
    with pytest.raises(hw.ArgumentError, match="head: expected"):
        hw.merged_scores(parts, 2)


def test_absorb_key(normal):
    parts = layer_parts(use_bias=False)
    absorbed = hw.absorb_key(parts)
    assert absorbed.query_bias is None
    q, k = normal(4, 8), normal(6, 8)
    query = hw.linear(q, absorbed.query_kernel).reshape(4, 2, 8)
    key = np.broadcast_to(k[:, None], (6, 2, 8))
    a = hw.attention(query, key, key, scale=absorbed.scale, weights=hw.all_weights())
    b = hw.MultiHeadAttention(parts.config, parts.weights).forward(q, k, weights=hw.all_weights())
    assert_close(a.weights, b.weights, 1e-5)


def test_presets():
    assert hw.presets.paper(512, 8) == hw.presets.d2l(512, 8) == hw.AttentionConfig(
        num_heads=8, key_dim=64, query_features=512, use_bias=False)
    torch = hw.presets.torch(12, 3, 0.1, False, True, True, 5, 7)
    assert (torch.num_heads, torch.key_dim, torch.dropout) == (3, 4, pytest.approx(0.1))
    assert (torch.use_bias, torch.add_bias_kv, torch.add_zero_attn) == (False, True, True)
    assert (torch.key_features, torch.value_features) == (5, 7)
    keras = hw.presets.keras(4, 6, 3, 0.1, False, 5, True, 2, query_features=10, value_features=9,
                             key_features=7)
    assert keras == hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=6, value_dim=3,
                                       query_features=10, key_features=7, value_features=9,
                                       output_features=5, use_bias=False, use_gate=True, dropout=0.1)
    assert hw.presets.keras(4, 6, query_features=10, value_features=9).key_inputs == 9
    with pytest.raises(hw.ArgumentError, match=r"\[presets.torch\] embed_dim: expected a multiple of num_heads = 3"):
        hw.presets.torch(8, 3)
    with pytest.raises(TypeError, match="tensors: expected a mapping"):
        hw.presets.torch_weights(torch, 3)
