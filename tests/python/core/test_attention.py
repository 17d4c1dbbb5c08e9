"""attention() and attention_backward() against the formula in float64."""

from __future__ import annotations

import formulas
import headwise as hw
import numpy as np
import pytest
import torch
from formulas import assert_close, same_bits

B, T, S, HQ, HKV, DK, DV = 2, 5, 7, 4, 2, 6, 3


@pytest.fixture
def qkv(normal):
    return normal(B, T, HQ, DK), normal(B, S, HKV, DK), normal(B, S, HKV, DV)


ROWS = np.arange(T)[:, None]
KEYS = np.arange(S)[None, :]
DENSE = np.random.default_rng(5).random((B, HQ, T, S)) < 0.6
DENSE[0, 1, 2] = False  # a row that attends nothing
LENGTHS = np.array([3, 6])
PER_QUERY = np.array([[0, 1, 2, 3, 7], [7, 6, 5, 4, 0]])
QUERY_IDS = np.array([[0, 0, 1, 1, 2], [0, 1, 1, 1, 1]])
KEY_IDS = np.array([[0, 0, 0, 1, 1, 1, 3], [1, 1, 1, 0, 0, 0, 0]])

# Mask, and the (B,H,T,S) of bool that it stands for.
MASKS = {
    "none": (lambda: None, np.True_),
    "top_left": (lambda: hw.causal(hw.Alignment.TopLeft), KEYS <= ROWS),
    "bottom_right": (lambda: hw.causal(hw.Alignment.BottomRight), KEYS <= ROWS + S - T),
    "query_offset": (lambda: hw.causal() & hw.query_offset(1), KEYS <= ROWS + 1),
    "query_offsets": (lambda: hw.causal() & hw.query_offsets([0, 2]),
                      KEYS <= (ROWS + np.array([0, 2])[:, None, None, None])),
    "window": (lambda: hw.window(1, 2) & hw.aligned(hw.Alignment.TopLeft),
               (KEYS >= ROWS - 1) & (KEYS <= ROWS + 2)),
    "half_window": (lambda: hw.window(None, 1) & hw.aligned(hw.Alignment.TopLeft), KEYS <= ROWS + 1),
    "lengths": (lambda: hw.valid_lengths([3, 6]), KEYS < LENGTHS[:, None, None, None]),
    "lengths_int32": (lambda: hw.valid_lengths(LENGTHS.astype(np.int32)),
                      KEYS < LENGTHS[:, None, None, None]),
    "lengths_per_query": (lambda: hw.valid_lengths(PER_QUERY),
                          KEYS < PER_QUERY[:, None, :, None]),
    "query_lengths": (lambda: hw.query_lengths(np.array([2, 5], np.uint8)),
                      ROWS < np.array([2, 5])[:, None, None, None]),
    "keep": (lambda: hw.keep(DENSE), DENSE),
    "keep_query_key": (lambda: hw.keep(DENSE[0, 0]), DENSE[0, 0]),
    "keep_batch_key": (lambda: hw.keep(DENSE[:, 0, 0], hw.Axes.BatchKey), DENSE[:, :1, :1]),
    "keep_batch_query": (lambda: hw.keep(DENSE[:, 0, :, 0], hw.Axes.BatchQuery),
                         DENSE[:, :1, :, :1]),
    "keep_head": (lambda: hw.keep(DENSE[1], hw.Axes.HeadQueryKey), DENSE[1]),
    "keep_batch": (lambda: hw.keep(DENSE[:, 1], hw.Axes.BatchQueryKey), DENSE[:, 1:2]),
    "keep_of_torch": (lambda: hw.keep(torch.from_numpy(DENSE)), DENSE),
    "segments": (lambda: hw.segments(QUERY_IDS, KEY_IDS),
                 (QUERY_IDS[:, :, None] == KEY_IDS[:, None, :])[:, None]),
    "segments_of_lists": (lambda: hw.segments(QUERY_IDS[0].tolist(), KEY_IDS[0].tolist()),
                          QUERY_IDS[0][:, None] == KEY_IDS[0][None, :]),
    "all": (lambda: hw.keep(DENSE) & hw.valid_lengths(LENGTHS) & hw.causal(hw.Alignment.BottomRight)
            & hw.Mask(),
            # the last query stands on the last valid key
            DENSE & (KEYS < LENGTHS[:, None, None, None])
            & (KEYS <= ROWS + LENGTHS[:, None, None, None] - T)),
}


def expected_keep(name):
    return np.broadcast_to(MASKS[name][1], (B, HQ, T, S)).copy()


@pytest.mark.parametrize("name", MASKS)
def test_masks(qkv, name):
    r = hw.attention(*qkv, mask=MASKS[name][0](), weights=hw.all_weights())
    output, weights, lse = formulas.attention(*map(formulas.heads, qkv), keep=expected_keep(name))
    assert_close(r.output, output)
    assert_close(r.weights, weights)
    assert_close(r.log_sum_exp, lse)


@pytest.mark.parametrize("name", ["none", "bottom_right", "lengths", "keep", "all"])
@pytest.mark.parametrize("softcap", [None, 0.7])
def test_gradients(qkv, normal, name, softcap):
    table = normal(HQ, T, S)
    bias = hw.Bias(table, hw.Axes.HeadQueryKey)
    options = {"mask": MASKS[name][0](), "bias": [bias], "softcap": softcap, "scale": 0.4}
    cotangent = normal(B, T, HQ, DV)
    r = hw.attention(*qkv, **options)
    g = hw.attention_backward(*qkv, r, cotangent, **options, bias_gradient=True)

    leaves = [formulas.heads(x) for x in qkv]
    slope = torch.tensor(table, dtype=torch.float64, requires_grad=True)
    output, _, _ = formulas.attention(*leaves, keep=expected_keep(name), bias=slope, scale=0.4,
                                      softcap=softcap)
    expected = torch.autograd.grad(output, [*leaves, slope], torch.tensor(cotangent).double())
    for ours, theirs in zip((g.query, g.key, g.value, *g.bias), expected, strict=True):
        assert_close(ours, theirs, 1e-5)


def test_no_bias_gradient_unasked(qkv):
    r = hw.attention(*qkv)
    assert hw.attention_backward(*qkv, r, np.ones_like(r.output)).bias == []


def test_backward_from_arrays_is_the_same(qkv, normal):
    r = hw.attention(*qkv, mask=hw.valid_lengths(LENGTHS))
    cotangent = normal(*r.output.shape)
    arrays = (r.output.copy(), r.row_reference, r.row_sum)
    again = hw.AttentionResult.from_arrays(*(torch.from_numpy(a) for a in arrays))
    a, b = (hw.attention_backward(*qkv, result, cotangent, mask=hw.valid_lengths(LENGTHS))
            for result in (r, again))
    for name in ("query", "key", "value"):
        assert same_bits(getattr(a, name), getattr(b, name))
        assert np.abs(getattr(a, name)).max() > 0.01


def test_row_numbers_give_the_weights(qkv):
    r = hw.attention(*qkv, weights=hw.all_weights())
    q, k = (x.astype(np.float64) for x in qkv[:2])
    scores = np.einsum("bthd,bshd->bhts", q, k.repeat(HQ // HKV, axis=2)) * DK**-0.5
    powers = 2.0 ** (scores * np.log2(np.e) - r.row_reference[..., None])
    assert_close(r.weights, powers / r.row_sum[..., None])


def test_heads_first_is_a_view_of_the_same(qkv):
    a = hw.attention(*qkv)
    b = hw.attention(*(x.transpose(0, 2, 1, 3) for x in qkv), layout=hw.Layout.HeadsFirst)
    assert same_bits(a.output, b.output.transpose(0, 2, 1, 3).copy())
    assert same_bits(a.log_sum_exp, b.log_sum_exp)


def test_one_sequence_and_packed_batch_have_the_bits_of_the_batch(qkv):
    q, k, v = qkv
    batch = hw.attention(q, k, v)
    packed = hw.attention(q.reshape(B * T, HQ, DK), k.reshape(B * S, HKV, DK),
                          v.reshape(B * S, HKV, DV),
                          packed=hw.PackedLengths([0, T, 2 * T], [0, S, 2 * S]))
    assert same_bits(packed.output.reshape(batch.output.shape), batch.output)
    assert packed.log_sum_exp.shape == (HQ, B * T)
    for b in range(B):
        alone = hw.attention(q[b], k[b], v[b])
        assert same_bits(alone.output, batch.output[b])


def test_unmasked_tail(qkv):
    r = hw.attention(*qkv, mask=hw.valid_lengths([2, 1]), unmasked_tail=1, weights=hw.all_weights())
    keep = (KEYS < np.array([2, 1])[:, None, None, None]) | (KEYS == S - 1)
    _, weights, _ = formulas.attention(*map(formulas.heads, qkv),
                                       keep=np.broadcast_to(keep, (B, HQ, T, S)).copy())
    assert_close(r.weights, weights)


def test_requests_of_weights(qkv):
    whole = hw.attention(*qkv, weights=hw.all_weights()).weights
    assert whole.shape == (B, HQ, T, S)
    averaged = hw.attention(*qkv, weights=hw.averaged_weights()).weights
    assert_close(averaged, whole.astype(np.float64).mean(axis=1))
    some = hw.attention(*qkv, weights=hw.selected_weights(heads=[3, 0], rows=np.array([4]))).weights
    assert same_bits(some, whole[:, [3, 0]][:, :, [4]])

    r = hw.attention(*qkv, weights=hw.top_k_weights(3) | hw.weight_statistics())
    assert r.weights is None
    order = np.argsort(-whole, axis=3, kind="stable")[..., :3]
    np.testing.assert_array_equal(r.top.indices, order)
    assert r.top.indices.dtype == np.int64
    assert same_bits(r.top.values, np.take_along_axis(whole, order, axis=3))
    assert_close(r.statistics.entropy, -(whole * np.log(whole.astype(np.float64))).sum(axis=3))
    assert_close(r.statistics.first_key_mass, whole[..., 0])
    distance = (whole * np.abs(KEYS - ROWS)).sum(axis=3)
    assert_close(r.statistics.mean_distance, distance)

    nothing = hw.attention(*qkv, weights=hw.no_weights())
    assert (nothing.weights, nothing.top, nothing.statistics) == (None, None, None)


def test_dropout_is_a_function_of_its_places(qkv):
    q, k, v = qkv
    dropped = hw.attention(q, k, v, dropout=hw.Dropout(0.5, seed=3))
    kept = hw.attention(q, k, v)
    assert not same_bits(dropped.output, kept.output)
    again = hw.attention(q[1:], k[1:], v[1:], dropout=hw.Dropout(0.5, 3, sequence_ids=[1]))
    assert same_bits(again.output, dropped.output[1:])
    other = hw.attention(q, k, v, dropout=hw.Dropout(0.5, seed=4))
    assert not same_bits(dropped.output, other.output)


def test_dropout_has_its_gradient(normal):
    """With dropout fixed by its seed the output is linear in value, so the gradient is its transpose."""
    q, k, v, cotangent = normal(1, 4, 2, 3), normal(1, 6, 2, 3), normal(1, 6, 2, 5), normal(1, 4, 2, 5)
    dropout = hw.Dropout(0.4, seed=11)
    r = hw.attention(q, k, v, dropout=dropout)
    g = hw.attention_backward(q, k, v, r, cotangent, dropout=dropout)
    one = (r.output.astype(np.float64) * cotangent).sum()
    other = (g.value.astype(np.float64) * v).sum()
    assert abs(one - other) < 1e-5
    assert abs(one - (hw.attention(q, k, v).output.astype(np.float64) * cotangent).sum()) > 1e-2


def test_masked_nan_stays_where_it_is(qkv):
    q, k, v = (x.copy() for x in qkv)
    clean = hw.attention(q, k, v, mask=hw.valid_lengths(LENGTHS))
    k[0, 3:], v[0, 3:], k[1, 6:], v[1, 6:] = np.nan, np.inf, np.inf, np.nan
    dirty = hw.attention(q, k, v, mask=hw.valid_lengths(LENGTHS))
    assert same_bits(clean.output, dirty.output)
    g = hw.attention_backward(q, k, v, dirty, np.ones_like(dirty.output),
                              mask=hw.valid_lengths(LENGTHS))
    assert np.isfinite(g.query).all() and not g.key[0, 3:].any() and not g.value[1, 6:].any()
