"""attention() and linear(): gradients against the formula, transformations, and bits."""

from __future__ import annotations

import concurrent.futures
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import assert_close, assert_same_bits, formula, formula_gradients

import headwise
import headwise.jax as hj

B, T, S, N, K, H, V = 2, 5, 7, 4, 2, 8, 6


def inputs(normal, batch=(B,), lengths=(T, S)):
    queries, keys = lengths
    return normal(*batch, queries, N, H), normal(*batch, keys, K, H), normal(*batch, keys, K, V)


def gradients(weighted_by, *arrays, **options):
    """Of Σ output·weighted_by, for query, key, value and a bias."""

    def total(query, key, value, bias=None):
        return (hj.attention(query, key, value, bias=bias, **options) * weighted_by).sum()

    return jax.grad(total, tuple(range(len(arrays))))(*arrays)


# ---- gradients -----------------------------------------------------------------------------------

KEEP = np.random.default_rng(2).random((B, 1, T, S)) < 0.6
KEEP[1, 0, 2] = False  # an empty row
OPTIONS = [
    ({}, {}),
    ({"mask": KEEP}, {"keep": KEEP}),
    ({"is_causal": True}, {"keep": np.tri(T, S, dtype=bool)}),
    ({"window": (1, 2), "scale": 0.7}, {
        "keep": np.tri(T, S, 2, dtype=bool) & ~np.tri(T, S, -2, dtype=bool), "scale": 0.7}),
    ({"softcap": 1.5}, {"softcap": 1.5}),
    ({"key_lengths": [3, 7]}, {"keep": (np.arange(S) < [[3], [7]])[:, None, None, :]}),
]


@pytest.mark.parametrize("ours, theirs", OPTIONS, ids=[str(list(pair[0])) for pair in OPTIONS])
def test_gradients_of_the_formula(normal, ours, theirs):
    arrays, weighted_by = inputs(normal), normal(B, T, N, V)
    expected = formula_gradients(weighted_by, *arrays, **theirs)
    assert_close(gradients(weighted_by, *arrays, **ours), expected)


@pytest.mark.parametrize("shape", [(B, N, T, S), (1, N, T, S), (B, 1, 1, S), (N, T, 1), (S,)])
def test_the_gradient_of_a_bias_has_its_shape(normal, shape):
    arrays, bias, weighted_by = inputs(normal), normal(*shape), normal(B, T, N, V)
    made = gradients(weighted_by, *arrays, bias)
    assert made[3].shape == shape
    assert_close(made, formula_gradients(weighted_by, *arrays, bias))


def test_a_bias_that_is_not_differentiated_costs_nothing(normal):
    arrays, bias, weighted_by = inputs(normal), normal(1, N, T, S), normal(B, T, N, V)

    def total(query, bias):
        return (hj.attention(query, *arrays[1:], bias=bias) * weighted_by).sum()

    def results(wanted):
        text = jax.jit(jax.grad(total, wanted)).lower(arrays[0], bias).as_text()
        return text.split("@headwise_attention_backward(")[1].split("->")[1].split("\n")[0].count(
            "tensor<")

    assert results((0,)) == 3
    assert results((0, 1)) == 4


@pytest.mark.parametrize("also_output", [False, True], ids=["weights", "weights and output"])
def test_gradients_through_the_weights(normal, also_output):
    """With a bias, softcap, a mask, an empty row and grouped heads; dropout is not in the weights."""
    query, key, value = inputs(normal)
    bias, of_weights, of_output = normal(1, N, T, S), normal(B, N, T, S), also_output * normal(B, T, N, V)
    options = {"mask": KEEP, "softcap": 1.5}

    def ours(query, key, value, bias):
        output, weights = hj.attention(query, key, value, bias=bias, **options, return_weights=True)
        total = (weights * of_weights).sum()
        return total + (output * of_output).sum() if also_output else total

    def plain(query, key, value, bias):
        identity = jnp.broadcast_to(jnp.eye(S)[None, :, None], (B, S, K, S))
        known = {"keep": KEEP, "softcap": 1.5}
        weights = formula(query, key, identity, bias, **known).transpose(0, 2, 1, 3)
        return (weights * of_weights).sum() + (formula(query, key, value, bias, **known) * of_output).sum()

    made = jax.jit(jax.grad(ours, (0, 1, 2, 3)))(query, key, value, bias)
    with jax.enable_x64(True):
        double = [jnp.asarray(array, jnp.float64) for array in (query, key, value, bias)]
        expected = jax.jit(jax.grad(plain, (0, 1, 2, 3)))(*double)
    assert_close(made, expected)


def test_the_x64_mode_changes_nothing(normal):
    """Gradients through output and weights, of a bias and of a traced scale."""
    given, seed = (*inputs(normal), normal(1, N, T, S), np.float32(0.3)), 2**40 + 3

    def total(query, key, value, bias, scale):
        output, weights = hj.attention(query, key, value, bias=bias, scale=scale, mask=KEEP, key_lengths=[3, 7],
                                       dropout_rate=0.3, dropout_seed=seed, return_weights=True)
        return (output**2).sum() + (weights**2).sum()

    def slopes():
        return [jax.grad(total, (0, 1, 2, 3, 4))(*given), jax.jit(jax.grad(total, (0, 1, 2, 3, 4)))(*given)]

    expected = slopes()
    with jax.enable_x64(True):
        made = slopes()
        of_a_number = jax.grad(total, 4)(*given[:4], 0.3)  # a Python number is a float64 there
    assert all(gradient.dtype == jnp.float32 for gradient in jax.tree.leaves(made))
    assert_same_bits(made, expected)
    assert_close(np.float32(of_a_number), expected[0][4])


def test_dropout_is_not_in_the_weights_gradients(normal):
    arrays, weighted_by = inputs(normal), normal(B, N, T, S)

    def slopes(**dropout):
        return jax.grad(lambda query: (hj.attention(query, *arrays[1:], return_weights=True, **dropout)[1]
                                       * weighted_by).sum())(arrays[0])

    assert_same_bits(slopes(dropout_rate=0.5, dropout_seed=1), slopes())


def test_second_derivatives_are_refused_in_our_words(normal):
    x, kernel = normal(T, N, H), normal(H, H)
    functions = (lambda x: (hj.attention(x, x, x) ** 2).sum(), lambda x: (hj.linear(x, kernel) ** 2).sum())
    for function in functions:
        for second in (jax.grad(lambda x, f=function: jax.grad(f)(x).sum()), jax.hessian(function)):
            with pytest.raises(NotImplementedError, match="headwise.jax: expected first derivatives"):
                second(x)


def test_gradients_of_linear(normal):
    x, kernel, bias, weighted_by = normal(3, 4, 8), normal(8, 5), normal(5), normal(3, 4, 5)

    def ours(*given):
        return (hj.linear(*given) * weighted_by).sum()

    def plain(x, kernel, bias=0.0):
        return ((x @ kernel + bias) * weighted_by).sum()

    for arrays in ((x, kernel, bias), (x, kernel)):
        wanted = tuple(range(len(arrays)))
        made = jax.grad(ours, wanted)(*arrays)
        with jax.enable_x64(True):
            expected = jax.grad(plain, wanted)(*(jnp.asarray(a, jnp.float64) for a in arrays))
        assert_close(made, expected)
        exact = headwise.linear_backward(x, kernel, weighted_by)
        assert_same_bits(made, (exact.input, exact.kernel, exact.bias)[: len(arrays)])


def test_softcap_is_checked_while_tracing(normal):
    with pytest.raises(ValueError, match=r"\[attention\] softcap: expected a finite number > 0, got -1"):
        jax.jit(lambda *given: hj.attention(*given, softcap=-1))(*inputs(normal))


def test_linear_refuses_what_does_not_fit(normal):
    x, kernel = normal(3, 8), normal(8, 5)
    for message, arrays in (
        (r"kernel: expected shape \(in, out\), got \(8,\)", (x, kernel[:, 0])),
        (r"x: expected a last axis of 8, got \(3, 7\)", (x[:, :7], kernel)),
        (r"bias: expected shape \(5,\), got \(8,\)", (x, kernel, x[0])),
    ):
        with pytest.raises(ValueError, match=r"\[linear\] " + message):
            jax.jit(hj.linear)(*arrays)
    assert hj.linear(jnp.ones((2, 0, 8)), kernel).shape == (2, 0, 5)
    assert hj.linear(jnp.ones((2, 8), jnp.bfloat16), jnp.asarray(kernel, jnp.bfloat16)).dtype == jnp.bfloat16


# ---- bits ----------------------------------------------------------------------------------------


def numpy_pass(query, key, value, gradient, **options):
    made = headwise.attention(query, key, value, **options)
    back = headwise.attention_backward(query, key, value, made, gradient, **options)
    return made.output, (back.query, back.key, back.value)


def jax_pass(query, key, value, gradient, **options):
    made, pull = jax.vjp(lambda *given: hj.attention(*given, **options), query, key, value)
    return made, pull(jnp.asarray(gradient))


def test_the_bits_of_numpy_whatever_the_threads(normal):
    batch = 8
    arrays = inputs(normal, (batch,), (96, 80))
    gradient = normal(batch, 96, N, V)
    lengths = np.arange(73, 81)
    expected = numpy_pass(*arrays, gradient, mask=headwise.valid_lengths(lengths))
    try:
        for threads in (1, 2, None):
            hj.set_threads(threads)
            assert_same_bits(jax_pass(*arrays, gradient, key_lengths=lengths), expected)
            compiled = jax.jit(lambda *given: jax_pass(*given, key_lengths=lengths))
            assert_same_bits(compiled(*arrays, gradient), expected)
    finally:
        hj.set_threads(None)


def test_bits_do_not_depend_on_the_batch_or_its_padding(normal):
    arrays, gradient = inputs(normal, (8,), (9, 33)), normal(8, 9, N, V)
    output, of_arrays = jax_pass(*arrays, gradient)
    padded = [np.pad(array, ((0, 0), (0, 31), (0, 0), (0, 0)), constant_values=np.nan)
              for array in arrays[1:]]
    padded_output, of_padded = jax_pass(
        arrays[0], *padded, gradient, key_lengths=np.full(8, 33))
    assert_same_bits(padded_output, output)
    assert_same_bits([of_padded[0], *(g[:, :33] for g in of_padded[1:])], list(of_arrays))
    for i in range(8):
        alone = jax_pass(*(array[i : i + 1] for array in arrays), gradient[i : i + 1])
        assert_same_bits(alone, (output[i : i + 1], tuple(g[i : i + 1] for g in of_arrays)))


def test_tiny_numbers_are_not_flushed(normal):
    x, kernel = normal(200, 32) * np.float32(1e-30), normal(32, 48) * np.float32(1e-10)
    expected = headwise.linear(x, kernel)
    assert (np.abs(expected) < np.finfo(np.float32).tiny).any() and expected.any()
    assert_same_bits(jax.jit(hj.linear)(x, kernel), jnp.asarray(expected))


def test_the_weights_and_any_batch_axes(normal):
    arrays, mask = inputs(normal, (2, 1, 3)), np.random.default_rng(1).random((1, 3, 1, T, S)) < 0.7
    output, weights = hj.attention(*arrays, mask=mask, return_weights=True)
    assert output.shape == (2, 1, 3, T, N, V) and weights.shape == (2, 1, 3, N, T, S)
    flat = [array.reshape(6, *array.shape[3:]) for array in arrays]
    keep = np.broadcast_to(mask, (2, 1, 3, 1, T, S)).reshape(6, 1, T, S)
    exact = headwise.attention(*flat, mask=headwise.keep(keep), weights=headwise.all_weights())
    assert_same_bits(output, jnp.asarray(exact.output).reshape(output.shape))
    assert_same_bits(weights, jnp.asarray(exact.weights).reshape(weights.shape))


def test_dropout_is_the_librarys_own(normal):
    arrays, gradient, seed = inputs(normal), normal(B, T, N, V), 0x123456789ABCDEF0
    expected = numpy_pass(*arrays, gradient, dropout=headwise.Dropout(0.3, seed))
    halves = jnp.asarray([seed >> 32, seed & 0xFFFFFFFF], jnp.uint32)
    for given in (seed, halves):
        made = jax_pass(*arrays, gradient, dropout_rate=0.3, dropout_seed=given)
        assert_same_bits(made, expected)
    same = headwise.Dropout(0.3, seed, [0] * B)
    assert_same_bits(
        hj.attention(*arrays, dropout_rate=0.3, dropout_seed=seed, same_dropout_in_batch=True),
        jnp.asarray(headwise.attention(*arrays, dropout=same).output))
    assert_same_bits(hj.attention(*arrays, dropout_seed=seed), hj.attention(*arrays))
    key = jax.random.key(3)
    made = [hj.attention(*arrays, dropout_rate=0.3, dropout_seed=seed)
            for seed in (key, jax.random.bits(key, (2,), "uint32"))]
    assert_same_bits(*made)
    with pytest.raises(ValueError, match="dropout_seed: expected a number, a key of jax.random, or 2"):
        hj.attention(*arrays, dropout_rate=0.3, dropout_seed=jnp.ones(3))
    with pytest.raises(ValueError, match="dropout_seed: expected a seed, since dropout_rate is 0.3, got None"):
        hj.attention(*arrays, dropout_rate=0.3)
    with pytest.raises(ValueError, match="dropout_rate: expected at least 0 and less than 1, got 1"):
        hj.attention(*arrays, dropout_rate=1.0, dropout_seed=seed)
    with pytest.raises(ValueError, match="dropout_rate: expected at least 0 and less than 1, got 0.9999999999"):
        hj.attention(*arrays, dropout_rate=0.9999999999, dropout_seed=seed)
    with pytest.raises(ValueError, match=r"\[attention\] dropout_rate: expected a finite number, got 'a'"):
        hj.attention(*arrays, dropout_rate="a", dropout_seed=seed)


# ---- transformations -----------------------------------------------------------------------------


def test_jit_changes_no_bit(normal):
    arrays, bias, weighted_by = inputs(normal), normal(1, N, 1, S), normal(B, T, N, V)
    assert_same_bits(jax.jit(gradients)(weighted_by, *arrays, bias),
                     gradients(weighted_by, *arrays, bias))


def test_checkpoint_changes_no_bit(normal):
    arrays, weighted_by = inputs(normal), normal(B, T, N, V)

    def total(query, key, value):
        hidden = hj.attention(query, key, value, is_causal=True)
        return (jnp.tanh(hidden) * weighted_by).sum()

    wanted = (0, 1, 2)
    assert_same_bits(jax.grad(jax.checkpoint(total), wanted)(*arrays), jax.grad(total, wanted)(*arrays))


LANES = 3
# Which of query, key, value, bias, mask, lengths and seed have an axis of lanes, and where.
MAPPED = [
    (0, 0, 0, 0, 0, 0, 0),
    (0, 0, 0, None, None, None, None),
    (0, None, None, None, None, None, None),
    (None, 0, 0, 0, None, 0, None),
    (0, None, None, 0, 0, None, None),
    (1, 2, 3, 1, 1, 1, 0),
    (None, None, None, None, None, None, 0),
]


@pytest.mark.parametrize("batch", [1, B])
@pytest.mark.parametrize("axes", MAPPED, ids=str)
def test_vmap_is_a_loop(normal, axes, batch):
    query, key, value = inputs(normal, (batch,))
    generator = np.random.default_rng(3)
    alone = [query, key, value, normal(batch, N, 1, S), generator.random((1, 1, T, S)) < 0.7,
             np.full(batch, 6, np.int32), np.asarray([1, 2], np.uint32)]

    def in_lanes(array, axis):
        if axis is None:
            return array
        lanes = [array if array.dtype == bool else array + array.dtype.type(i) for i in range(LANES)]
        return np.stack(lanes, axis)

    def of_lane(array, axis, lane):
        return array if axis is None else np.take(array, lane, axis)

    def run(query, key, value, bias, mask, lengths, seed):
        def total(*given):
            made = hj.attention(*given[:3], bias=given[3], mask=mask, key_lengths=lengths,
                                dropout_rate=0.2, dropout_seed=seed)
            return (made ** 2).sum(), made

        return jax.grad(total, (0, 1, 2, 3), has_aux=True)(query, key, value, bias)

    arrays = [in_lanes(array, axis) for array, axis in zip(alone, axes)]
    mapped = jax.vmap(run, in_axes=axes)(*arrays)
    for lane in range(LANES):
        expected = run(*(of_lane(array, axis, lane) for array, axis in zip(arrays, axes)))
        assert_same_bits(jax.tree.map(lambda array: array[lane], mapped), expected)


def test_nested_vmap(normal):
    query, key, value = normal(2, 3, T, N, H), normal(3, S, K, H), normal(2, S, K, V)
    inner = jax.vmap(hj.attention, in_axes=(0, 0, None))
    mapped = jax.jit(jax.vmap(inner, in_axes=(0, None, 0)))(query, key, value)
    for i in range(2):
        for j in range(3):
            assert_same_bits(mapped[i, j], hj.attention(query[i, j], key[j], value[i]))


@pytest.mark.parametrize("axes", [(0, None, None), (0, 0, 0), (None, 0, None), (1, None, 0)], ids=str)
def test_vmap_of_linear_is_a_loop(normal, axes):
    shapes = [(4, 8), (8, 16), (16,)]
    arrays = [normal(*shape) if axis is None else np.stack([normal(*shape) for _ in range(LANES)], axis)
              for shape, axis in zip(shapes, axes)]

    def run(*given):
        return jax.grad(lambda *given: (hj.linear(*given) ** 2).sum(), (0, 1, 2))(*given), hj.linear(*given)

    mapped = jax.vmap(run, in_axes=axes)(*arrays)
    for lane in range(LANES):
        expected = run(*(array if axis is None else np.take(array, lane, axis)
                         for array, axis in zip(arrays, axes)))
        assert_same_bits(jax.tree.map(lambda array: array[lane], mapped), expected)


def test_many_threads_at_once(normal):
    arrays = inputs(normal, (4,), (64, 64))
    run = jax.jit(lambda *given: jax.grad(lambda *g: hj.attention(*g).sum(), (0, 1, 2))(*given))
    expected = run(*arrays)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for made in pool.map(lambda _: run(*arrays), range(64)):
            assert_same_bits(made, expected)


def test_the_number_of_threads_must_be_one_that_can_be():
    for error, wrong in ((ValueError, (0, -1, 4096, 2**40)), (TypeError, (1.5, True))):
        for threads in wrong:
            with pytest.raises(error, match=rf"\[set_threads\] threads: expected 1 … 1024, or None, got {threads}"):
                hj.set_threads(threads)


def test_processes_that_were_forked_or_spawned():
    script = pathlib.Path(__file__).with_name("jax_processes.py")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert made.stdout == "done\n", made.stderr


def test_shards():
    script = pathlib.Path(__file__).with_name("jax_shards.py")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert made.stdout == "done\n", made.stderr
