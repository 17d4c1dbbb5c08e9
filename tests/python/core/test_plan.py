"""Costs, predictions and spectra: the numbers that a hand count and numpy give."""

from __future__ import annotations

import headwise as hw
import numpy as np
import pytest

CONFIG = hw.AttentionConfig(num_heads=4, num_kv_heads=2, key_dim=6, value_dim=3, query_features=10, use_bias=False)


def machine(peak: float = 1e9) -> hw.Machine:
    reads = [hw.ReadSpeed("memory", bytes=1 << 20, holds=1 << 40, bytes_per_second=1e12)]
    return hw.Machine(target="AVX2", lanes=8, yardsticks=[hw.ThreadYardsticks(threads=1, peak=peak, reads=reads)])


def test_counts():
    call = hw.LayerCall(queries=5, keys=7, batch=2, mask=hw.valid_lengths([7, 3]))
    cost = hw.layer_cost(CONFIG, call)
    flops = {stage.stage: stage.flops for stage in cost.stages}
    assert flops[hw.Stage.QueryProjection] == 2 * (2 * 5) * 10 * (4 * 6)
    assert flops[hw.Stage.KeyProjection] == 2 * (2 * 7) * 10 * (2 * 6)
    assert flops[hw.Stage.Values] == 2 * cost.pairs * 3
    assert cost.pairs == 4 * 5 * (7 + 3) and cost.all_pairs == 4 * 5 * 14
    assert cost.flops == sum(flops.values())
    assert cost.memory.parameters == 4 * cost.weights.total == 4 * (240 + 120 + 60 + 120)
    assert cost.memory.cache_per_token == 4 * 2 * (6 + 3)
    assert (cost.ranks.scores, cost.ranks.values) == (6, 3)
    assert (cost.config, cost.call.keys, cost.call.batch, cost.call.training) == (CONFIG, 7, 2, False)


def test_training_adds_a_backward():
    forward, both = (hw.layer_cost(CONFIG, hw.LayerCall(queries=5, training=t)) for t in (False, True))
    assert forward.memory.saved == 0 < both.memory.saved
    assert {stage.pass_ for stage in both.stages} == {hw.Pass.Forward, hw.Pass.Backward}
    assert both.flops > 2 * forward.flops


def test_masks_of_arrays_stay_alive():
    call = hw.LayerCall(queries=3, mask=hw.keep(np.tri(3, dtype=bool)))
    noise = [np.zeros((3, 3), bool) for _ in range(100)]
    assert noise and hw.layer_cost(CONFIG, call).pairs == 4 * 6


def test_predictions_follow_the_machine():
    cost = hw.layer_cost(CONFIG, hw.LayerCall(queries=500))
    slow, fast = (hw.predict(cost, machine(peak), 1) for peak in (1e9, 1e10))
    assert len(slow.stages) == len(cost.stages)
    assert slow.stages[0].bound == hw.Bound.Compute
    assert slow.stages[0].seconds == pytest.approx(10 * fast.stages[0].seconds)
    with pytest.raises(hw.ArgumentError, match="threads"):
        hw.predict(cost, machine(), 2)


def test_plan():
    plan = hw.plan(CONFIG, queries=50, batch=2, threads=1, machine=machine(), measure=True)
    assert plan.cost.call.batch == 2 and plan.threads == 1
    assert plan.timing is not None and plan.timing.seconds > 0
    text = str(plan)
    assert "QueryProjection" in text and "predicted, 1 thread " in text and "measured" in text
    assert hw.plan(CONFIG, queries=5, threads=1, training=True).machine.at(1).peak > 1e8
    with pytest.raises(hw.ArgumentError, match="queries"):
        hw.plan(CONFIG, queries=-1, machine=machine(), threads=1)


YARDSTICKS = hw.Yardsticks(hw.default_target(), 1 << 12)
RUN = hw.LayerRun(CONFIG, hw.LayerCall(queries=3))
COST = hw.layer_cost(CONFIG, hw.LayerCall(queries=3))


def broken(**fields) -> hw.Machine:
    row = {"threads": 1, "peak": 1e9, "reads": machine().yardsticks[0].reads, **fields}
    return hw.Machine(yardsticks=[hw.ThreadYardsticks(**row)])


@pytest.mark.parametrize("call, error, text", [
    (lambda: hw.plan(CONFIG, queries=3, threads=0), hw.ArgumentError, "[Context] threads: expected 1 … 1024, got 0"),
    (lambda: hw.plan(CONFIG, queries=3, threads=100000), hw.ArgumentError,
     "[Context] threads: expected 1 … 1024, got 100000"),
    (lambda: hw.plan(CONFIG, queries=3, threads="a"), TypeError,
     "[Context] threads: expected an integer or None, got 'a'"),
    (lambda: hw.plan(CONFIG, queries=3, threads=10**10), TypeError,
     "[Context] threads: expected an integer or None, got 10000000000"),
    (lambda: hw.describe_machine(hw.default_target(), [0], YARDSTICKS), hw.ArgumentError,
     "[describe_machine] threads: expected 1 … 1024, got 0"),
    (lambda: hw.describe_machine(hw.default_target(), [1, "a"], YARDSTICKS), TypeError,
     "[describe_machine] threads[1]: expected an integer, got 'a'"),
    (lambda: hw.describe_machine(hw.default_target(), 2, YARDSTICKS), TypeError,
     "[describe_machine] threads: expected a sequence, got 2"),
    (lambda: YARDSTICKS.peak(0, 0), hw.ArgumentError, "[Yardsticks.peak] threads: expected 1 … 1024, got 0"),
    (lambda: YARDSTICKS.peak(1, "a"), TypeError, "[Yardsticks.peak] seconds: expected a number, got 'a'"),
    (lambda: YARDSTICKS.peak(2**40, 0), TypeError,
     "[Yardsticks.peak] threads: expected a smaller integer, got 1099511627776"),
    (lambda: YARDSTICKS.calm(-3), hw.ArgumentError, "[Yardsticks.calm] threads: expected 1 … 1024, got -3"),
    (lambda: YARDSTICKS.read_speed(0, 64, 0), hw.ArgumentError,
     "[Yardsticks.read_speed] threads: expected 1 … 1024, got 0"),
    (lambda: YARDSTICKS.read_speed(1, -1, 0), TypeError, "[Yardsticks.read_speed] bytes: expected an integer ≥ 0, got -1"),
    (lambda: hw.Yardsticks(hw.default_target(), -1), TypeError,
     "[Yardsticks] largest_bytes: expected an integer ≥ 0, got -1"),
    (lambda: hw.measure_layers([RUN], YARDSTICKS, rounds=0), hw.ArgumentError,
     "[measure_layers] rounds: expected 1 or more, got 0"),
    (lambda: hw.measure_layers([RUN], YARDSTICKS, threads=-1), hw.ArgumentError,
     "[measure_layers] threads: expected 1 … 1024, got -1"),
    (lambda: hw.measure_layers([1], YARDSTICKS), TypeError, "[measure_layers] layers[0]: expected LayerRun, got 1"),
    (lambda: hw.predict(COST, broken(reads=[]), 1), hw.ArgumentError,
     "[predict] machine: expected read speeds of one place or more, got 0"),
    (lambda: hw.predict(COST, broken(peak=0), 1), hw.ArgumentError, "[predict] machine: expected a peak > 0, got 0"),
    (lambda: hw.predict(COST, broken(threads=0), 0), hw.ArgumentError,
     "[predict] threads: expected 1 … 1024, got 0"),
])
def test_plans_that_cannot_be(call, error, text):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == text


def test_spectra_are_numpy_s():
    parts = hw.LayerParts(CONFIG, hw.AttentionWeights.glorot(CONFIG, seed=3))
    heads = hw.inspect_heads(parts, threads=1).heads
    query = parts.weights["query/kernel"].astype(np.float64).reshape(10, 4, 6)
    key = parts.weights["key/kernel"].astype(np.float64).reshape(10, 2, 6)
    for h, head in enumerate(heads):
        assert head.kv_head == h // 2 and head.finite and not head.dead
        expected = np.linalg.svd(query[:, h] @ key[:, h // 2].T, compute_uv=False)[:6]
        np.testing.assert_allclose(head.scores.singular_values, expected, rtol=1e-6, atol=1e-9)
    assert hw.dims_for_energy(heads[0].scores, 0.5) < 6
    smaller = hw.refactor_key_dim(parts, 5)
    assert smaller.layer.config.key_dim == 5 and 0 < max(smaller.errors) < 1
    with pytest.raises(hw.ArgumentError, match="key_dim"):
        hw.refactor_key_dim(parts, 7)
