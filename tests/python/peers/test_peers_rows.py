"""The rows: names and work as in the C++ benchmark, masks that say the same in every form."""

from __future__ import annotations

import dataclasses
import re

import headwise as hw
import numpy as np
import pytest
from conftest import ROOT
from headwise.peers.frameworks.headwise_peer import config_of, mask_of
from headwise.peers.rows import ROWS, Row, dense_mask, find, make_arrays


def test_names_are_those_of_the_benchmark():
    text = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "bench").glob("*_cases.cc"))
    known = set(re.findall(r'"([a-z0-9]+-[a-z0-9-]+)"', text))
    assert {row.id for row in ROWS} <= known
    assert len({row.id for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("row", [row for row in ROWS if row.batch * row.queries * row.keys < 3e6],
                         ids=lambda row: row.id)
def test_pairs_are_those_of_the_mask(row: Row):
    mask = dense_mask(row)
    everything = np.ones((row.batch, 1, row.queries, row.keys), bool)
    pairs = row.heads * int((everything if mask is None else everything & mask).sum())
    assert row.pairs == pairs
    width = 2 * (row.heads + row.kv_heads) * row.size
    projections = 2 * row.batch * row.queries * row.features * width
    assert row.flops == (14 * pairs * row.size + 3 * projections if row.training
                         else 4 * pairs * row.size + projections)


@pytest.mark.parametrize("row", [row for row in ROWS if row.is_layer], ids=lambda row: row.id)
def test_work_of_layers_is_what_the_library_counts(row: Row):
    call = hw.LayerCall(queries=row.queries, batch=row.batch, mask=mask_of(row), training=row.training)
    cost = hw.layer_cost(config_of(row), call)
    assert (cost.flops, cost.pairs) == (row.flops, row.pairs)


def small(row: Row) -> Row:
    """The same kind of row with few numbers."""
    queries = 1 if row.queries == 1 else 21 if row.queries != row.keys else 37
    return dataclasses.replace(row, batch=2, queries=queries, keys=37, features=32 if row.features else 0,
                               heads=4, kv_heads=2 if row.is_grouped else 4, size=8,
                               lengths=(30, 5) if row.lengths else (), window=9 if row.window else 0)


@pytest.mark.parametrize("id", ["variant-keep", "variant-lengths", "variant-causal", "variant-window"])
def test_headwise_s_mask_is_the_dense_one(id: str):
    row = small(find(id))
    arrays = make_arrays(row)
    inputs = arrays["query"], arrays["key"], arrays["value"]
    mine = hw.attention(*inputs, mask=mask_of(row), layout=hw.Layout.HeadsFirst).output
    dense = np.ascontiguousarray(np.broadcast_to(dense_mask(row), (2, 1, 37, 37)))
    np.testing.assert_array_equal(
        mine, hw.attention(*inputs, mask=hw.keep(dense), layout=hw.Layout.HeadsFirst).output)


def test_numbers_depend_on_the_row_alone():
    first, again = make_arrays(find("tiny-8-256")), make_arrays(find("tiny-8-256"))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert all(array.dtype == np.float32 for array in first.values())
    assert not np.array_equal(first["query/kernel"], make_arrays(find("tiny-32-256"))["query/kernel"])
