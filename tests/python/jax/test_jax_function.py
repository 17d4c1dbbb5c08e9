"""headwise.jax.dot_product_attention against jax.nn's, and where it differs from that on purpose."""

from __future__ import annotations

import functools
import inspect
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax_cases import assert_close, assert_same_bits

import headwise
import headwise.jax as hj
from headwise.jax._attention import Operands, Options, run

B, T, S, N, K, H = 2, 5, 7, 4, 2, 8
SCORES = (B, N, T, S)


def keep_of(mask=None, is_causal=False, query_seq_lengths=None, key_value_seq_lengths=None,
            local_window_size=None):
    """(B,N,T,S): who attends whom, by the words of jax.nn's documentation."""
    query, key = np.arange(T)[:, None], np.arange(S)[None, :]
    keep = np.ones(SCORES, bool) if mask is None else np.broadcast_to(mask, SCORES).copy()
    if is_causal:
        keep &= key <= query
    if local_window_size is not None:
        left, right = np.broadcast_to(local_window_size, 2)
        keep &= (key >= query - left) & (key <= query + right)
    if query_seq_lengths is not None:
        keep &= (query < np.asarray(query_seq_lengths)[:, None, None, None])
    if key_value_seq_lengths is not None:
        keep &= (key < np.asarray(key_value_seq_lengths)[:, None, None, None])
    return keep


def masks():
    generator = np.random.default_rng(5)
    shapes = [(B, N, T, S), (1, N, T, S), (B, 1, 1, S), (1, 1, T, 1), (T, S), (N, T, S)]
    return [None, *(generator.random(shape) < 0.7 for shape in shapes)]


def biases():
    generator = np.random.default_rng(6)
    shapes = [(B, N, T, S), (1, N, 1, S), (B, 1, T, 1), (1, 1, 1, 1), (S,)]
    return [None, *(generator.standard_normal(shape, np.float32) for shape in shapes)]


LENGTHS = [{}, {"query_seq_lengths": [5, 2]}, {"key_value_seq_lengths": [3, 7]},
           {"query_seq_lengths": [4, 5], "key_value_seq_lengths": [7, 4]}]
POSITIONS = [{}, {"is_causal": True}, {"local_window_size": 2}, {"local_window_size": (1, 3)},
             {"local_window_size": (2, 2), "is_causal": True}]
# Every mask and bias with every set of positions, the rest in turn.
GRID = [
    {"mask": mask, "bias": biases()[(i + j) % 6], "scale": [None, 0.3][(i + j) % 2],
     **LENGTHS[(i + 2 * j) % 4], **positions}
    for (i, mask), (j, positions) in itertools.product(enumerate(masks()), enumerate(POSITIONS))
]


def as_jax(options):
    return {name: jnp.asarray(value, jnp.int32) if name.endswith("lengths") else value
            for name, value in options.items()}


def test_the_signature_is_that_of_jax():
    ours = inspect.signature(hj.dot_product_attention).parameters
    theirs = inspect.signature(jax.nn.dot_product_attention).parameters
    assert list(ours) == list(theirs)
    for name, parameter in theirs.items():
        assert (ours[name].kind, ours[name].default) == (parameter.kind, parameter.default), name


def test_every_option_as_jax_has_it(normal):
    for options, kv_heads in zip(GRID, itertools.cycle([N, K, 1])):
        query, key, value = normal(B, T, N, H), normal(B, S, kv_heads, H), normal(B, S, kv_heads, H)
        options = as_jax(options)
        ours, residual = hj.dot_product_attention(query, key, value, return_residual=True, **options)
        theirs, expected = jax.nn.dot_product_attention(query, key, value, return_residual=True,
                                                        **options)
        rows = keep_of(**{name: option for name, option in options.items()
                          if name not in ("bias", "scale")}).any(axis=3).transpose(0, 2, 1)
        assert rows.any()
        assert_close(np.asarray(ours)[rows], np.asarray(theirs)[rows])
        assert_close(np.asarray(residual)[rows], np.asarray(expected)[rows])
        assert (np.asarray(ours)[~rows] == 0).all()
        assert (np.asarray(residual)[~rows] == -np.inf).all()
        assert_same_bits(
            hj.dot_product_attention(query, key, value, **options), ours)


def test_without_a_batch_axis(normal):
    query, key, value = normal(T, N, H), normal(S, K, H), normal(S, K, H)
    mask, bias = np.tri(T, S, dtype=bool), normal(1, N, T, S)
    for given in ({"mask": mask[None, None], "bias": bias}, {"mask": mask[None], "bias": bias[0]}):
        ours = hj.dot_product_attention(query, key, value, **given, return_residual=True)
        assert_close(ours, jax.nn.dot_product_attention(query, key, value, **given, return_residual=True))
    with pytest.raises(ValueError, match=r"bias: expected a shape that broadcasts to \(4, 5, 7\)"):
        hj.dot_product_attention(query, key, value, np.ones((B, N, T, S), np.float32))
    lengths = jnp.asarray([4], jnp.int32)
    assert_close(
        hj.dot_product_attention(query, key, value, key_value_seq_lengths=lengths),
        jax.nn.dot_product_attention(query, key, value, key_value_seq_lengths=lengths))


def test_value_heads_of_another_size(normal):
    query, key, value = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, 3)
    with pytest.raises(ValueError):
        jax.nn.dot_product_attention(query, key, value)
    expected = headwise.attention(query, key, value).output
    assert_same_bits(hj.dot_product_attention(query, key, value), jnp.asarray(expected))


def test_lengths_out_of_range_mean_all_or_nothing(normal):
    query, key, value = normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, H)
    lengths = jnp.asarray([S + 9, -1], jnp.int32)
    ours = hj.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
    assert_same_bits(ours[0], hj.dot_product_attention(query[0], key[0], value[0]))
    assert (np.asarray(ours[1]) == 0).all()
    for many in (np.asarray([2**33, 2**32 + 1]), [2**33, 2**40], np.asarray([2**31, 2**32 - 1], np.uint32),
                 np.asarray([127, 127], np.int8)):
        ours = hj.dot_product_attention(query, key, value, key_value_seq_lengths=many)
        assert_same_bits(ours, hj.dot_product_attention(query, key, value))


def test_a_window_wider_than_any_number_is_everything(normal):
    query = normal(B, T, N, H)
    assert_same_bits(hj.dot_product_attention(query, query, query, local_window_size=2**70),
                     hj.dot_product_attention(query, query, query))
    assert_same_bits(hj.dot_product_attention(query, query, query, local_window_size=(2**70, 0)),
                     hj.dot_product_attention(query, query, query, is_causal=True))


def test_nothing_masked_leaks(normal):
    query, key, value = normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, H)
    lengths = jnp.asarray([4, 4], jnp.int32)
    clean = hj.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)
    key[:, 4:], value[:, 4:] = np.nan, np.inf

    def run(query, key, value):
        return hj.dot_product_attention(query, key, value, key_value_seq_lengths=lengths)

    assert_same_bits(run(query, key, value), clean)
    gradients = jax.grad(lambda *given: run(*given).sum(), (0, 1, 2))(query, key, value)
    assert all(np.isfinite(gradient).all() for gradient in gradients)


def test_a_traced_scale(normal):
    query, key, value = normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, H)

    def run(function, scale):
        return (function(query, key, value, scale=scale) ** 2).sum()

    ours = jax.value_and_grad(lambda scale: run(hj.dot_product_attention, scale))(0.3)
    theirs = jax.value_and_grad(lambda scale: run(jax.nn.dot_product_attention, scale))(0.3)
    assert_close(ours, theirs)


def test_a_static_scale_has_the_bits_of_numpy_and_a_traced_one_those_of_a_scaled_query(normal):
    arrays = normal(B, T, N, H), normal(B, S, N, H), normal(B, S, N, H)
    expected = jnp.asarray(headwise.attention(*arrays, scale=0.3).output)
    static = jax.jit(hj.dot_product_attention, static_argnames="scale")
    assert_same_bits(static(*arrays, scale=0.3), expected)
    assert_same_bits(jax.jit(functools.partial(hj.dot_product_attention, scale=0.3))(*arrays), expected)
    traced = jax.jit(hj.dot_product_attention)(*arrays, scale=0.3)
    assert_same_bits(traced, hj.dot_product_attention(arrays[0] * np.float32(0.3), *arrays[1:], scale=1.0))
    assert_close(traced, expected)


def test_a_traced_scale_of_short_floats_is_multiplied_in_float32(normal):
    arrays = [jnp.asarray(4 * normal(B, 64, N, H), jnp.bfloat16) for _ in range(3)]
    wide = [array.astype(jnp.float32) for array in arrays]
    traced = jax.jit(hj.dot_product_attention)
    made = traced(*arrays, scale=0.3)
    assert made.dtype == jnp.bfloat16
    assert_same_bits(made, traced(*wide, scale=0.3).astype(jnp.bfloat16))


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
def test_short_floats_are_computed_in_float32(normal, dtype):
    arrays = [jnp.asarray(array, dtype) for array in (
        normal(B, T, N, H), normal(B, S, K, H), normal(B, S, K, H))]
    bias = jnp.asarray(normal(1, N, T, S), dtype)
    wide = [array.astype(jnp.float32) for array in arrays]
    ours = hj.dot_product_attention(*arrays, bias)
    assert ours.dtype == dtype
    assert_same_bits(ours, hj.dot_product_attention(*wide, bias.astype(jnp.float32)).astype(dtype))
    assert_close(ours, jax.nn.dot_product_attention(*arrays, bias), 4 * float(jnp.finfo(dtype).eps))
    gradients = jax.grad(
        lambda *given: hj.dot_product_attention(*given).astype(jnp.float32).sum(), (0, 1, 2, 3)
    )(*arrays, bias)
    assert [gradient.dtype for gradient in gradients] == [dtype] * 4


def test_other_implementations_are_those_of_jax(normal):
    query = normal(B, T, N, H)
    assert_same_bits(
        hj.dot_product_attention(query, query, query, implementation="xla"),
        jax.nn.dot_product_attention(query, query, query))
    with pytest.raises(ValueError, match="Unsupported implementation"):
        hj.dot_product_attention(query, query, query, implementation="fast")


@pytest.mark.parametrize("shapes", [
    ((0, T, N, H), (0, S, N, H)), ((B, 0, N, H), (B, S, N, H)), ((B, T, N, H), (B, 0, N, H)),
    ((B, T, 0, H), (B, S, N, H)), ((B, T, N, 0), (B, S, N, 0))])
def test_sizes_of_nothing(shapes):
    query, key = (jnp.ones(shape) for shape in shapes)

    def run(query, key):
        return hj.dot_product_attention(query, key, key)

    assert run(query, key).shape == query.shape
    gradients = jax.jit(jax.grad(lambda *given: run(*given).sum(), (0, 1)))(query, key)
    assert [gradient.shape for gradient in gradients] == list(shapes)


# ---- errors --------------------------------------------------------------------------------------

X = jnp.ones((B, T, N, H))
BAD = [
    (ValueError, "query: expected shape", {"query": jnp.ones((T, H))}),
    (ValueError, "value: expected shape", {"value": jnp.ones((B, T + 1, N, H))}),
    (ValueError, "query: expected a last axis of 8", {"query": jnp.ones((B, T, N, H + 1))}),
    (ValueError, "query: expected a multiple of key's 4 heads", {"query": jnp.ones((B, T, 6, H))}),
    (ValueError, "query: expected key's batch axes", {"query": jnp.ones((B + 1, T, N, H))}),
    (ValueError, "query: expected key's dtype", {"query": X.astype(jnp.bfloat16)}),
    (TypeError, "query: expected float32, bfloat16 or float16, got int32",
     {"query": X.astype(jnp.int32)}),
    (ValueError, "mask: expected bool", {"mask": jnp.ones((B, N, T, T))}),
    (ValueError, r"mask: expected a shape that broadcasts to \(2, 4, 5, 5\), got \(3, 1, 5, 5\)",
     {"mask": jnp.ones((3, 1, T, T), bool)}),
    (ValueError, "bias: expected a shape that broadcasts", {"bias": jnp.ones((1, B, N, T, T))}),
    (TypeError, "bias: expected float32", {"bias": jnp.ones((T, T), bool)}),
    (ValueError, r"key_value_seq_lengths: expected shape \(2,\)",
     {"key_value_seq_lengths": jnp.ones(3, jnp.int32)}),
    (ValueError, "query_seq_lengths: expected integers", {"query_seq_lengths": jnp.ones(B)}),
    (ValueError, r"local_window_size: expected counts ≥ 0, got \(-1, 2\)", {"local_window_size": (-1, 2)}),
    (ValueError, "local_window_size: expected counts ≥ 0: a whole number, two of them, or None, got 1.5",
     {"local_window_size": 1.5}),
    (ValueError, "local_window_size: expected counts ≥ 0: .* got \\(1, 2, 3\\)", {"local_window_size": (1, 2, 3)}),
    (ValueError, "scale: expected a finite number, got nan", {"scale": np.nan}),
    (ValueError, "scale: expected a finite number, got 'a'", {"scale": "a"}),
    (ValueError, r"scale: expected a finite number, got 1e\+300, in float32 inf", {"scale": 1e300}),
    (ValueError, "scale: expected a finite number, got 1000", {"scale": 10**400}),
    (TypeError, "query: expected an array, got None", {"query": None}),
]


def test_a_traced_scale_is_one_number():
    for scale in (jnp.ones(H), jnp.ones(1), jnp.complex64(1)):
        with pytest.raises(ValueError, match=r"\[dot_product_attention\] scale: expected one real number, got "):
            jax.jit(hj.dot_product_attention)(X, X, X, scale=scale)


@pytest.mark.parametrize("error, message, wrong", BAD, ids=[bad[1][:40] for bad in BAD])
@pytest.mark.parametrize("transform", [lambda f: f, jax.jit], ids=["eager", "jit"])
def test_wrong_arguments_are_named_while_tracing(transform, error, message, wrong):
    arguments = {"query": X, "key": X, "value": X, **wrong}
    static = {name: arguments.pop(name, None) for name in ("local_window_size", "scale")}
    with pytest.raises(error, match=r"\[dot_product_attention\] " + message):
        transform(lambda arguments: hj.dot_product_attention(**arguments, **static))(arguments)


def test_float64_is_refused_with_the_way_out(normal):
    with jax.enable_x64(True):
        x = jnp.asarray(normal(B, T, N, H), jnp.float64)
        with pytest.raises(TypeError, match="got float64; headwise computes in float32, so convert"):
            hj.dot_product_attention(x, x, x)
        with pytest.raises(TypeError, match=r"\[linear\] x: expected float32"):
            hj.linear(x, x[0, 0])
        narrow = x.astype(jnp.float32)
        assert hj.dot_product_attention(narrow, narrow, narrow).dtype == jnp.float32


def test_what_a_handler_throws_is_an_error_of_xla():
    unchecked = Options(scale=np.inf)
    with pytest.raises(jax.errors.JaxRuntimeError, match="scale: expected a finite number"):
        jax.block_until_ready(run(unchecked, Operands(X, X, X)))
    assert hj.dot_product_attention(X, X, X).shape == X.shape  # and the next call works
