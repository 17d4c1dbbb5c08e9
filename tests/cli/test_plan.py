"""headwise plan: parameters against Keras, FLOPs against PyTorch's counter, predictions by hand."""

from __future__ import annotations

import itertools
import json
import os
import platform
import re

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

# Made up: round numbers, so that predictions can be worked out by hand.
MACHINE = {
    "cpu": "made up", "cpus": 2, "target": "avx2", "lanes": 8,
    "call_seconds": 1e-6,
    "yardsticks": [
        {"threads": threads, "peak_flops_per_second": 1e11 * threads, "reads": [
            {"place": "L2", "buffer_bytes": 1, "holds_bytes": 1000000,
             "bytes_per_second": 1e11 * threads},
            {"place": "memory", "buffer_bytes": 1, "holds_bytes": None,
             "bytes_per_second": 2e10 * threads}]}
        for threads in (1, 2)],
}  # fmt: skip


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "machine.json"
    path.write_text(json.dumps({"machine": MACHINE}))
    return path


@pytest.fixture(scope="module")
def plan(succeed, machine):
    """plan("--shape", …) → the whole JSON, predicted for the machine that was made up."""

    def call(*arguments):
        return json.loads(succeed("plan", "--json", "--machine", machine, *arguments))

    return call


def flags(**options):
    """value_dim=3, gate=True → --value-dim 3 --gate"""
    given = []
    for name, value in options.items():
        if value is True:
            given.append("--" + name.replace("_", "-"))
        elif value is not None and value is not False:
            given += ["--" + name.replace("_", "-"), value]
    return given


# ---- parameters ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def layers():
    os.environ.setdefault("KERAS_BACKEND", "torch")
    import keras

    return keras.layers


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("use_gate", [True, False])
def test_parameters_are_those_of_keras(plan, layers, use_bias, use_gate):
    for heads, key_dim, value_dim, output in itertools.product(
        (1, 8), (16, 64), (None, 32), (None, 100)
    ):
        layer = layers.MultiHeadAttention(
            heads, key_dim, value_dim=value_dim, use_bias=use_bias, output_shape=output,
            use_gate=use_gate)  # fmt: skip
        layer.build((None, 12, 96), (None, 12, 96), (None, 12, 96))
        planned = plan(
            "--shape", "2,12,96",
            *flags(heads=heads, key_dim=key_dim, value_dim=value_dim, output_features=output,
                   no_bias=not use_bias, gate=use_gate))["layers"][0]  # fmt: skip
        assert planned["parameters"] == layer.count_params()
        shapes = sorted(tuple(weight.shape) for weight in layer.weights)
        assert sorted(tuple(row["shape"]) for row in planned["weights"]) == shapes


def test_parameters_of_grouped_heads_are_those_of_keras(plan, layers):
    for heads, kv_heads, use_bias in itertools.product((8,), (1, 2, 8), (True, False)):
        layer = layers.GroupQueryAttention(16, heads, kv_heads, use_bias=use_bias)
        layer.build((None, 12, 96), (None, 12, 96), (None, 12, 96))
        planned = plan(
            "--shape", "2,12,96",
            *flags(heads=heads, kv_heads=kv_heads, key_dim=16, no_bias=not use_bias))  # fmt: skip
        assert planned["layers"][0]["parameters"] == layer.count_params()


def test_parameters_with_other_features_are_those_of_keras(plan, layers):
    layer = layers.MultiHeadAttention(4, 24, value_dim=10)
    layer.build((None, 12, 96), (None, 9, 48), (None, 9, 80))  # query, value, key
    planned = plan("--shape", "2,12,96", "--keys", 9, "--heads", 4, "--key-dim", 24,
                   "--value-dim", 10, "--key-features", 80, "--value-features", 48)  # fmt: skip
    assert planned["layers"][0]["parameters"] == layer.count_params()


# ---- FLOPs --------------------------------------------------------------------------------------


def counted_by_torch(batch, queries, keys, features, heads, training):
    """What PyTorch's own counter sees in nn.MultiheadAttention: the products, no softmax."""
    layer = torch.nn.MultiheadAttention(features, heads, batch_first=True)
    query = torch.randn(batch, queries, features, requires_grad=training)
    key = query if keys is None else torch.randn(batch, keys, features, requires_grad=training)
    with FlopCounterMode(display=False) as counter:
        output, _ = layer(query, key, key, need_weights=True)
        if training:
            output.sum().backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("keys", [None, 20])
@pytest.mark.parametrize("training", [False, True])
def test_flops_are_those_that_torch_counts(plan, keys, training):
    planned = plan("--shape", "3,12,48", *flags(heads=4, keys=keys, training=training))["layers"][0]
    # Our backward computes the scores once more instead of keeping them: T×S is never stored.
    again = 2 * planned["pairs"]["attended"] * 12 if training else 0
    assert planned["flops"] - again == counted_by_torch(3, 12, keys, 48, 4, training)
    assert planned["flops"] == sum(stage["flops"] for stage in planned["stages"])


def test_pairs_are_counted_one_by_one(plan):
    def pairs(*arguments):
        return plan("--shape", "2,6,8", "--heads", 2, *arguments)["layers"][0]["pairs"]

    def looked_at(attends, keys=6):
        seen = [(b, i, j) for b in range(2) for i in range(6) for j in range(keys)]
        return 2 * sum(attends(*place) for place in seen)

    assert pairs() == {"attended": 144, "all": 144}
    assert pairs("--causal")["attended"] == looked_at(lambda b, i, j: j <= i)
    assert pairs("--window", "2,1")["attended"] == looked_at(lambda b, i, j: i - 2 <= j <= i + 1)
    assert pairs("--window", "inf,0")["attended"] == pairs("--causal")["attended"]
    lens = (2, 5)
    assert pairs("--valid-lens", "2,5")["attended"] == looked_at(lambda b, i, j: j < lens[b])
    assert pairs("--keys", 9, "--causal", "--align", "bottom-right")["attended"] == looked_at(
        lambda b, i, j: j <= i + 3, keys=9
    )
    assert pairs("--keys", 9, "--causal", "--query-offset", 1)["attended"] == looked_at(
        lambda b, i, j: j <= i + 1, keys=9
    )


# ---- predictions --------------------------------------------------------------------------------


def test_prediction_by_hand(plan):
    layer = plan("--shape", "32,128,512", "--heads", 8, "--no-bias", "--threads", 1)["layers"][0]
    stages = {stage["stage"]: stage for stage in layer["stages"]}
    projection = 2 * 4096 * 512 * 512
    assert stages["query_projection"]["predicted_seconds"] == pytest.approx(projection / 0.94e11)
    assert stages["query_projection"]["bound_by"] == "compute"
    assert stages["softmax"]["operations"] == 18 * 32 * 8 * 128 * 128
    total = layer["prediction"]["overhead_seconds"]
    total += sum(stage["predicted_seconds"] for stage in layer["stages"])
    assert layer["prediction"]["seconds"] == pytest.approx(total)


def test_one_token_is_bound_by_reading_the_weights(plan):
    layer = plan("--shape", "1,1,512", "--heads", 8, "--no-bias", "--threads", 1)["layers"][0]
    stage = layer["stages"][0]
    assert stage["bound_by"] == "memory"
    assert stage["predicted_seconds"] == pytest.approx(4 * (512 + 512 * 512 + 512) / 2e10)


def test_threads_follow_the_machine(plan):
    shape = ("--shape", "32,128,512", "--heads", 8)
    one = plan(*shape, "--threads", 1)["layers"][0]["prediction"]["seconds"]
    two = plan(*shape, "--threads", 2)["layers"][0]["prediction"]["seconds"]
    assert one / 2 < two < one / 1.9
    assert plan(*shape)["threads"] == 1, "the first that the file has"


# ---- output -------------------------------------------------------------------------------------

LAYER_KEYS = {
    "label", "config", "call", "weights", "parameters", "pairs", "flops", "operations",
    "bytes_moved", "stages", "memory_bytes", "rank_bounds", "prediction", "measurement",
}  # fmt: skip


def test_json_schema(plan):
    planned = plan("--shape", "2,16,32", "--heads", 4, "--training", "--gate")
    assert set(planned) == {"headwise", "machine", "threads", "layers", "knobs"}
    assert planned["machine"] == MACHINE
    layer = planned["layers"][0]
    assert set(layer) == LAYER_KEYS
    assert layer["measurement"] is None
    assert set(layer["config"]) == {
        "num_heads", "num_kv_heads", "key_dim", "value_dim", "query_features", "key_features",
        "value_features", "output_features", "use_bias", "use_output_bias", "scale",
        "softcap", "use_gate", "qk_norm", "add_bias_kv", "add_zero_attn"}  # fmt: skip
    assert layer["call"] == {"batch": 2, "queries": 16, "keys": 16, "training": True}
    assert set(layer["weights"][0]) == {"name", "shape", "flat_shape", "count"}
    assert set(layer["stages"][0]) == {
        "stage", "pass", "flops", "operations", "bytes", "predicted_seconds", "bound_by"}  # fmt: skip
    assert set(layer["memory_bytes"]) == {
        "parameters", "packed_kernels", "inputs", "output", "activations", "score_matrices",
        "cache_per_token", "saved_for_backward", "gradients", "backward_buffers"}  # fmt: skip
    assert set(layer["rank_bounds"]) == {"scores", "values"}
    assert set(layer["prediction"]) == {"seconds", "overhead_seconds"}
    names = ["query_projection", "key_projection", "value_projection", "gate", "scores", "softmax",
             "values", "output_projection"]  # fmt: skip
    passes = {p: [s["stage"] for s in layer["stages"] if s["pass"] == p]
              for p in ("forward", "backward")}  # fmt: skip
    assert passes["forward"] == names
    assert sorted(passes["backward"]) == sorted(names)
    for knob in planned["knobs"]:
        assert set(knob) == {"change", "layer"}
        assert set(knob["layer"]) == LAYER_KEYS - {"label", "measurement"}


def test_comparison_says_what_single_plans_say(plan):
    shape = ("--shape", "2,40,64", "--causal", "--threads", 2)
    together = plan(*shape, "--compare", "2x32,4x16,4x16v8,4x16kv2,4x16v8kv1")["layers"]
    singles = [
        plan(*shape, "--heads", 2, "--key-dim", 32),
        plan(*shape, "--heads", 4, "--key-dim", 16),
        plan(*shape, "--heads", 4, "--key-dim", 16, "--value-dim", 8),
        plan(*shape, "--heads", 4, "--key-dim", 16, "--kv-heads", 2),
        plan(*shape, "--heads", 4, "--key-dim", 16, "--value-dim", 8, "--kv-heads", 1),
    ]
    assert [layer.pop("label") for layer in together] == [
        "2x32", "4x16", "4x16v8", "4x16kv2", "4x16v8kv1"]  # fmt: skip
    for layer, single in zip(together, singles, strict=True):
        single["layers"][0].pop("label")
        assert layer == single["layers"][0]


def test_comparison_table(succeed, machine):
    text = succeed("plan", "--shape", "32,128,512", "--compare", "8x64,8x64v32", "--machine", machine)
    rows = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("8x64")}
    assert rows["8x64"][1:6] == ["1,050,624", "×1.00", "9.66", "G", "×1.00"]
    assert rows["8x64v32"][1:6] == ["788,224", "×0.75", "7.25", "G", "×0.75"]
    assert "64, 32" in text
    assert "measured" not in text


def test_small_layers_have_flops_too(succeed, machine):
    common = ("plan", "--shape", "1,4,8", "--machine", machine)
    text = succeed(*common, "--compare", "2x4,4x2")
    assert re.search(r"^2x4 +288 +×1\.00 +2560 +×1\.00", text, re.M)
    assert re.search(r"^as it is +288 +2560 ", succeed(*common, "--heads", 2), re.M)


def test_training_memory_is_part_of_every_plan(succeed, plan, machine):
    shape = ("--shape", "2,16,32", "--heads", 4)
    names = ("saved_for_backward", "gradients", "backward_buffers")
    parts = [plan(*shape, *training)["layers"][0]["memory_bytes"] for training in ((), ("--training",))]
    assert [parts[0][name] for name in names] == [parts[1][name] for name in names]
    assert all(parts[0][name] > 0 for name in names)
    text = succeed("plan", *shape, "--machine", machine)
    assert all(word in text for word in ("saved for backward", "gradients", "backward's buffers"))
    table = succeed("plan", "--shape", "2,16,32", "--compare", "4x8", "--training", "--machine", machine)
    total = sum(parts[1][name] for name in names)
    assert f" {total / 1000:.1f} KB " in table


def test_knobs_change_what_they_say(plan):
    planned = plan("--shape", "32,128,512", "--heads", 8, "--key-dim", 64)
    base = planned["layers"][0]
    knobs = {knob["change"]: knob["layer"] for knob in planned["knobs"]}
    assert set(knobs) == {
        "num_heads 8 → 16", "num_heads 8 → 16, key_dim 64 → 32", "key_dim 64 → 32",
        "value_dim 64 → 32", "num_kv_heads 8 → 4", "length 128 → 256"}  # fmt: skip
    assert knobs["num_heads 8 → 16"]["rank_bounds"] == {"scores": 64, "values": 64}
    same_width = knobs["num_heads 8 → 16, key_dim 64 → 32"]
    assert same_width["parameters"] == base["parameters"]
    assert same_width["rank_bounds"] == {"scores": 32, "values": 32}
    assert knobs["key_dim 64 → 32"]["config"]["value_dim"] == 64
    assert knobs["key_dim 64 → 32"]["parameters"] == base["parameters"] - 2 * 256 * 512 - 2 * 256
    assert knobs["value_dim 64 → 32"]["rank_bounds"] == {"scores": 64, "values": 32}
    cache = base["memory_bytes"]["cache_per_token"]
    assert knobs["num_kv_heads 8 → 4"]["memory_bytes"]["cache_per_token"] == cache // 2
    assert knobs["length 128 → 256"]["pairs"]["all"] == 4 * base["pairs"]["all"]


def test_text_has_the_facts(succeed, machine):
    text = succeed("plan", "--shape", "4,1024,768", "--heads", 12, "--causal", "--training",
                   "--machine", machine)  # fmt: skip
    assert "12 heads of key_dim 64" in text
    assert "2,362,368" in text  # parameters
    assert "25,190,400 of 50,331,648 pairs" in text
    assert "saved for backward" in text
    assert "6.14 KB" in text  # of a token's key and value
    assert "T×S matrices of all heads would add 201 MB" in text
    assert "≤ 64" in text
    assert "What each knob changes" in text
    assert "The output is (4, 1024, 768) whatever" in text


# ---- the real machine ---------------------------------------------------------------------------


def test_this_machine_is_measured_and_can_be_kept(succeed, tmp_path):
    text = succeed("plan", "--shape", "1,8,16", "--heads", 2, "--threads", 1, "--measure", "--json")
    planned = json.loads(text)  # nothing else on standard output
    measurement = planned["layers"][0]["measurement"]
    assert set(measurement) == {"seconds", "quartiles", "rounds", "disturbed",
                                "peak_flops_per_second", "predicted_over_measured"}  # fmt: skip
    assert measurement["seconds"] > 0
    assert measurement["quartiles"][0] <= measurement["seconds"] <= measurement["quartiles"][1]
    kept = tmp_path / "here.json"
    kept.write_text(text)
    again = json.loads(succeed("plan", "--shape", "1,8,16", "--heads", 2, "--machine", kept, "--json"))
    assert again["machine"] == planned["machine"]


def test_layer_of_a_file(succeed, machine, minilm):
    arguments = ("--weights", minilm / "model.safetensors", "--layer", 0, "--shape", "1,32",
                 "--machine", machine, "--json")  # fmt: skip
    layer = json.loads(succeed("plan", *arguments))["layers"][0]
    assert layer["config"]["num_heads"] == 12
    assert layer["parameters"] == 4 * (384 * 384 + 384)


# ---- bad use ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", "--shape: missing"),
        ("--shape 32,128", "expected BATCH,LENGTH,FEATURES"),
        ("--shape 32,0,512 --heads 8", "expected BATCH,LENGTH,FEATURES"),
        ("--shape 32,128,512", "--heads: missing"),
        ("--shape 32,128,512 --heads 7", "not a multiple of 7 heads"),
        ("--shape 32,128,512 --heads 0", "--heads: expected a whole number"),
        ("--shape 32,128,512 --heads 8 --key-dim 0", "--key-dim"),
        ("--shape 32,128,512 --heads 8 --kv-heads 3", "a divisor of num_heads = 8"),
        ("--shape 32,128,512 --heads 8 --keys 0", "--keys"),
        ("--shape 32,128,512 --heads 8 --keys 7 --causal", "--align"),
        ("--shape 2,8,16 --heads 2 --align left --causal", "top-left or bottom-right"),
        ("--shape 2,8,16 --heads 2 --valid-lens 3", "key lengths of shape (2,)"),
        ("--shape 2,8,16 --heads 2 --valid-lens 3,9", "within 0 … 8"),
        ("--shape 2,8,16 --heads 2 --window 3", "LEFT,RIGHT"),
        ("--shape 2,8,16 --compare 8x", "HEADSxKEY_DIM"),
        ("--shape 2,8,16 --compare 8x64,", "HEADSxKEY_DIM"),
        ("--shape 2,8,16 --compare 8x64vv", "HEADSxKEY_DIM"),
        ("--shape 2,8,16 --compare 8x64 --heads 8", "--compare: says heads"),
        ("--shape 2,8,16 --heads 2 --layer x", "--layer: needs --weights"),
        ("--shape 2,8,16 --heads 2 --measure", "leave out --machine"),
        ("--shape 2,8,16 --heads 2 --target avx2", "--machine tells this"),
        ("--shape 2,8,16 --heads 2 --threads 9", "a number of threads that was measured"),
        ("--shape 4611686018427387904,128,512 --heads 8", "fit 64 bits"),
        ("--shape 2,8,16 --heads 99999999999999999999", "--heads: expected a whole number"),
    ],
)
def test_bad_use(fails, machine, arguments, message):
    assert message in fails(2, "plan", "--machine", machine, *arguments.split())


def test_bad_targets_and_threads(fails):
    layer = ("plan", "--shape", "1,1,16", "--heads", 1)
    assert "--target: expected avx512, avx2" in fails(2, *layer, "--target", "abacus")
    assert "1 … 1024" in fails(2, *layer, "--threads", 0)
    foreign = "avx2" if platform.machine() == "aarch64" else "neon"
    line = fails(2, *layer, "--target", foreign)  # offers what --target takes, and no more
    assert line.startswith("headwise: --target: expected one of") and "reference" not in line


@pytest.mark.parametrize(
    "text", ["", "nonsense", "[]", "{}", '{"machine": {}}', '{"machine": {"cpu": 3}}', "[" * 100000]
)
def test_files_that_describe_no_machine(fails, tmp_path, text):
    path = tmp_path / "machine.json"
    path.write_text(text)
    line = fails(1, "plan", "--shape", "1,1,16", "--heads", 1, "--machine", path)
    assert "no machine" in line


@pytest.mark.parametrize("speed", [0, -1, "fast", None, 1e999])
def test_machines_that_cannot_be(fails, tmp_path, speed):
    broken = json.loads(json.dumps(MACHINE))
    broken["yardsticks"][0]["peak_flops_per_second"] = speed
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"machine": broken}))
    fails(1, "plan", "--shape", "1,1,16", "--heads", 1, "--machine", path)


def test_machine_files_that_cannot_be_read(fails, tmp_path):
    layer = ("plan", "--shape", "1,1,16", "--heads", 1, "--machine")
    assert "cannot be read" in fails(1, *layer, tmp_path / "missing.json")
    assert "No such file" in fails(1, *layer, tmp_path / "missing.json")
    assert "is a folder" in fails(1, *layer, tmp_path)
    (tmp_path / "bytes.json").write_bytes(b"\x93NUMPY\xff\x00")
    line = fails(1, *layer, tmp_path / "bytes.json")
    assert line.endswith("no machine as headwise plan --json writes it: not JSON")
    (tmp_path / "empty.json").write_text("{}")
    assert "json.exception" not in fails(1, *layer, tmp_path / "empty.json")
