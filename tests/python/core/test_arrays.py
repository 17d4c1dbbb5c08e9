"""What goes in and comes out: strides, other libraries' arrays, buffers of the caller's, ownership."""

from __future__ import annotations

import array
import gc

import headwise as hw
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
import torch
from formulas import same_bits

SHAPE = (2, 5, 4, 6)


@pytest.fixture
def x(normal):
    return normal(*SHAPE)


@pytest.fixture
def layer():
    config = hw.AttentionConfig(num_heads=2, key_dim=3, query_features=6)
    return hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=1))


def reversed_copy(a):
    """The same numbers behind negative strides."""
    return a[::-1, ::-1, ::-1, ::-1].copy()[::-1, ::-1, ::-1, ::-1]


STRIDED = {
    "transposed": lambda a: a.transpose(3, 1, 0, 2).copy().transpose(2, 1, 3, 0),
    "fortran": np.asfortranarray,
    "negative": reversed_copy,
    "every_third": lambda a: np.repeat(a, 3, axis=3)[..., ::3],
    "inside_a_larger_one": lambda a: np.pad(a, 2)[2:-2, 2:-2, 2:-2, 2:-2],
    "derived": lambda a: a.view(Derived),
    "read_only": lambda a: np.frombuffer(a.tobytes(), np.float32).reshape(a.shape),
    "little_endian_by_name": lambda a: a.astype("<f4"),
}

FOREIGN = {
    "torch": torch.from_numpy,
    "torch_strided": lambda a: torch.from_numpy(a).permute(1, 0, 3, 2).contiguous().permute(1, 0, 3, 2),
    "torch_parameter": lambda a: torch.nn.Parameter(torch.from_numpy(a), requires_grad=False),
    "jax": jnp.asarray,
    "tensorflow": tf.constant,
    "memoryview": memoryview,
    "dlpack": lambda a: OnlyDLPack(a),
}


class OnlyDLPack:
    """An array of a library that nobody knows."""

    def __init__(self, a, device=None):
        self.array, self.device = a, device

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Unwilling(OnlyDLPack):
    """One that refuses, and says why."""

    def __dlpack__(self, **keywords):
        raise BufferError("not today")


class Derived(np.ndarray):
    """An array of a library that builds on numpy's."""


@pytest.mark.parametrize("name", [*STRIDED, *FOREIGN])
def test_the_way_in_changes_no_bit(x, name):
    other = {**STRIDED, **FOREIGN}[name](x)
    expected, given = hw.attention(x, x, x), hw.attention(other, other, other)
    assert same_bits(expected.output, given.output)
    g, h = (hw.attention_backward(a, a, a, expected, a) for a in (x, other))
    assert same_bits(g.query, h.query) and same_bits(g.key, h.key) and same_bits(g.value, h.value)


def test_torch_without_gradients(x):
    """Where torch itself would follow nothing, a parameter is an array."""
    parameter = torch.nn.Parameter(torch.from_numpy(x))
    with torch.no_grad():
        given = hw.attention(parameter, parameter, parameter)
    assert same_bits(given.output, hw.attention(x, x, x).output)


def test_broadcast_inputs_are_not_expanded(normal):
    x = np.broadcast_to(normal(1, 5, 1, 6), SHAPE)
    assert x.strides[0] == x.strides[2] == 0
    assert same_bits(hw.attention(x, x, x).output, hw.attention(*[x.copy()] * 3).output)


def test_array_of_the_standard_library():
    """The buffer protocol without numpy."""
    numbers = memoryview(array.array("f", [1, 2, 3, 4])).cast("B").cast("f", (2, 1, 2))
    assert hw.attention(numbers, numbers, numbers).output.shape == (2, 1, 2)


@pytest.mark.parametrize("make", [
    lambda: np.full(SHAPE, 7, np.float32),
    lambda: np.full(SHAPE[::-1], 7, np.float32).transpose(),
    lambda: np.full(SHAPE, 7, np.float32)[::-1, :, ::-1],
    lambda: torch.full(SHAPE, 7.0),
    lambda: torch.full(SHAPE, 7.0).permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0),
], ids=["dense", "transposed", "negative", "torch", "torch_strided"])
def test_out_is_written_in_place(x, make):
    out = make()
    r = hw.attention(x, x, x, out=out)
    assert r.output is out
    assert same_bits(np.ascontiguousarray(out), hw.attention(x, x, x).output)
    g, h = (hw.attention_backward(x, x, x, result, x) for result in (r, hw.attention(x, x, x)))
    assert same_bits(g.query, h.query)


def test_out_leaves_its_neighbours_alone(layer, normal):
    x = normal(2, 5, 6)
    room = np.full((2, 5, 8), 7, np.float32)
    layer.forward(x, out=room[:, :, 1:7])
    assert (room[:, :, [0, 7]] == 7).all()
    assert same_bits(room[:, :, 1:7].copy(), layer.forward(x).output)


def read_only(shape):
    a = np.zeros(shape, np.float32)
    a.flags.writeable = False
    return a


@pytest.mark.parametrize("out, error, text", [
    (lambda x: read_only(SHAPE), hw.ArgumentError, "out: expected an array that may be written, got a read-only one"),
    (lambda x: jnp.zeros(SHAPE), hw.ArgumentError, "out: expected an array that may be written"),
    (lambda x: np.zeros(SHAPE), TypeError, "out: expected float32, got float64"),
    (lambda x: np.zeros(SHAPE[1:], np.float32), hw.ArgumentError, r"out: expected shape \(2, 5, 4, 6\), got \(5, 4, 6\)"),
    (lambda x: x, hw.ArgumentError, "out: expected memory apart from query"),
    (lambda x: np.broadcast_to(np.zeros(6, np.float32), SHAPE), hw.ArgumentError, "out: expected"),
    (lambda x: np.lib.stride_tricks.as_strided(np.zeros(500, np.float32), SHAPE, (4, 4, 4, 4)),
     hw.ArgumentError, "out: expected strides that give every element an address of its own"),
])
def test_outputs_that_cannot_be(x, out, error, text):
    before = x.copy()
    with pytest.raises(error, match=r"\[attention\] " + text):
        hw.attention(x, x, x, out=out(x))
    assert same_bits(x, before)


@pytest.mark.parametrize("value, error, text", [
    (lambda x: x.astype(np.float64), TypeError, "expected float32, got float64"),
    (lambda x: x.astype(np.float16), TypeError, "expected float32, got float16"),
    (lambda x: x.astype(np.int32), TypeError, "expected float32, got int32"),
    (lambda x: x > 0, TypeError, "expected float32, got bool"),
    (lambda x: x.astype(np.complex64), TypeError, "expected float32, got complex64"),
    (lambda x: x.astype(object), TypeError, "expected float32, got object"),
    (lambda x: x.astype(">f4"), TypeError, "expected float32, got >f4"),
    (lambda x: torch.from_numpy(x).bfloat16(), TypeError, "expected float32, got bfloat16"),
    (lambda x: jnp.asarray(x, jnp.bfloat16), TypeError, "expected float32, got bfloat16"),
    (lambda x: tf.constant(x.astype(np.float64)), TypeError, "expected float32, got float64"),
    (lambda x: OnlyDLPack(x.astype(np.float64)), TypeError, "expected float32, got float64"),
    (lambda x: x.tolist(), TypeError, "expected an array of float32, got list"),
    (lambda x: "text", TypeError, "expected an array of float32, got str"),
    (lambda x: 1.0, TypeError, "expected an array of float32, got float"),
    (lambda x: torch.from_numpy(x).to("meta"), hw.ArgumentError, "expected a dense array in the CPU's memory"),
    (lambda x: torch.from_numpy(x).to_sparse(), hw.ArgumentError, "expected a dense array in the CPU's memory"),
    (lambda x: torch.complex(*[torch.from_numpy(x)] * 2).conj().imag, hw.ArgumentError, "got a tensor that is negated lazily"),
    (lambda x: torch.nn.Parameter(torch.from_numpy(x)), hw.ArgumentError,
     r"expected a tensor without a gradient, got one that requires it \(detach\(\) it, or use headwise.torch\)"),
    (lambda x: np.ma.masked_array(x), TypeError,
     r"expected an array of float32 without a mask, got a masked one \(hide keys by keep\(...\), or pass its filled\(\)\)"),
    (lambda x: Unwilling(x), TypeError, "expected an array of float32, got Unwilling, which says: not today"),
    (lambda x: x[0, 0], hw.ArgumentError, r"expected \(B,T,H,d\) or \(T,H,d\), got shape \(4, 6\)"),
    (lambda x: x.reshape((1,) * 5 + SHAPE), hw.ArgumentError, "expected at most 8 axes, got 9"),
    (lambda x: misaligned(x), hw.ArgumentError, "got a misaligned array"),
    (lambda x: field_of_records(x), hw.ArgumentError, "expected steps of whole numbers along every axis, got 30 bytes along axis 2"),
])
def test_inputs_that_cannot_be(x, value, error, text):
    with pytest.raises(error, match=r"\[attention\] query: .*" + text):
        hw.attention(value(x), x, x)


def misaligned(x):
    return np.frombuffer(b"\0" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(x.shape)


def field_of_records(x):
    """Numbers that are 5 bytes apart."""
    records = np.zeros(x.shape, np.dtype([("number", np.float32), ("tag", np.uint8)]))
    records["number"] = x
    return records["number"]


class OnAnotherDevice(OnlyDLPack):
    """DLPack of memory that is not the CPU's, made by changing the device in numpy's capsule."""

    def __dlpack__(self, **keywords):
        import ctypes

        capsule = self.array.__dlpack__(max_version=(1, 0))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        tensor = get(capsule, b"dltensor_versioned")
        device = ctypes.c_int32.from_address(tensor + 8 + 8 + 8 + 8 + 8)  # after data
        assert device.value == 1
        device.value = self.device
        return capsule


@pytest.mark.parametrize("device, name", [(2, "a CUDA device"), (10, "a ROCm device"), (8, "another device")])
def test_other_devices(x, device, name):
    with pytest.raises(hw.ArgumentError, match=f"key: expected an array in the CPU's memory, got one on {name}"):
        hw.attention(x, OnAnotherDevice(x, device), x)


@pytest.mark.parametrize("batch, queries, keys, heads, size", [
    (0, 3, 4, 2, 5), (2, 0, 4, 2, 5), (2, 3, 0, 2, 5), (2, 3, 4, 0, 5), (2, 3, 4, 2, 0), (0, 0, 0, 0, 0),
])
def test_sizes_of_zero(batch, queries, keys, heads, size):
    q = np.ones((batch, queries, heads, 5), np.float32)
    k = np.ones((batch, keys, heads, 5), np.float32)
    v = np.ones((batch, keys, heads, size), np.float32)
    r = hw.attention(q, k, v, weights=hw.all_weights())
    assert r.output.shape == (batch, queries, heads, size)
    assert r.weights.shape == (batch, heads, queries, keys)
    g = hw.attention_backward(q, k, v, r, np.ones_like(r.output))
    assert (g.query.shape, g.key.shape, g.value.shape) == (q.shape, k.shape, v.shape)
    if keys == 0:
        assert not r.output.any() and np.isneginf(r.log_sum_exp).all() and not g.query.any()


def test_layer_of_no_rows(layer):
    x = np.ones((3, 0, 6), np.float32)
    r = layer.forward(x, save_for_backward=True)
    assert r.output.shape == (3, 0, 6)
    assert not layer.backward(x, None, None, r, r.output).weights["query/kernel"].any()


def test_arrays_own_the_library_s_memory(x):
    """No copy: the address is the tensor's, aligned to a cache line, and valid without the result."""
    r = hw.attention(x, x, x, weights=hw.all_weights() | hw.top_k_weights(2))
    arrays = [r.output, r.log_sum_exp, r.weights, r.top.values, r.top.indices]
    assert r.output is arrays[0] and r.weights is arrays[2]
    copies = [a.copy() for a in arrays]
    del r
    gc.collect()
    noise = [hw.attention(x + 1, x, x).output for _ in range(20)]
    assert noise and all(same_bits(a, b) for a, b in zip(arrays, copies, strict=True))
    for a in arrays:
        assert a.ctypes.data % 64 == 0 and a.flags.writeable and not a.flags.owndata


def test_large_results_go_back_to_the_context():
    """Dropping the array drops the tensor, whose memory the context uses again."""
    context = hw.Context(threads=1)
    x = np.ones((1, 64, 4, 256), np.float32)  # 256 KB
    r = hw.attention(x, x, x, context=context)
    output = r.output
    del r
    assert context.recycled_bytes == 0
    address = output.ctypes.data
    del output
    assert context.recycled_bytes == x.nbytes
    assert hw.attention(x, x, x, context=context).output.ctypes.data == address


def test_arrays_outlive_their_context():
    context = hw.Context(threads=1)
    x = np.ones((1, 64, 4, 256), np.float32)
    output = hw.attention(x, x, x, context=context).output
    del context
    gc.collect()
    assert same_bits(output, hw.attention(x, x, x).output)


def test_masks_and_biases_keep_their_arrays(x):
    keep, table = np.tri(5, dtype=bool), np.arange(25, dtype=np.float32).reshape(5, 5)
    expected = hw.attention(x, x, x, mask=hw.keep(keep), bias=hw.Bias(table)).output
    mask, bias = hw.keep(keep.copy()) & hw.Mask(), hw.Bias(table.copy())
    gc.collect()
    noise = [np.full(25, i, kind) for i in range(100) for kind in (bool, np.float32)]
    assert noise and same_bits(hw.attention(x, x, x, mask=mask, bias=bias).output, expected)


def test_an_array_in_a_mask_cannot_be_resized():
    keep = np.ones((4, 4), bool)
    mask = hw.keep(keep)
    with pytest.raises(ValueError, match="resize"):
        keep.resize((1, 1))
    del mask
    keep.resize((1, 1))
