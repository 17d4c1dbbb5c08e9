"""Every way of the frameworks that start fast gives Headwise's numbers, for every kind of row."""

from __future__ import annotations

import dataclasses

import pytest
from headwise.peers.frameworks import FRAMEWORKS, load, versions
from headwise.peers.peer import Unable
from headwise.peers.rows import ROWS, make_arrays
from headwise.peers.worker import TOLERANCE, largest_difference
from test_peers_rows import small


@pytest.mark.parametrize("key", ["onnxruntime", "openvino"])
def test_ways_agree(key: str):
    peer, headwise = load(key)(1), load("headwise")(1)
    kinds = {dataclasses.replace(small(row), id="", group="", label="") for row in ROWS if not row.training}
    assert len(kinds) > 8
    for row in kinds:
        arrays = make_arrays(row)
        ours = next(headwise.ways(row, arrays))
        expected = ours.outputs(ours.run())
        ways = list(peer.ways(row, arrays))
        assert ways, row
        for way in ways:
            difference = largest_difference(expected, way.outputs(way.run()))
            assert difference <= TOLERANCE, (row, way.name, difference)


@pytest.mark.parametrize("key", ["onnxruntime", "openvino"])
def test_no_training_says_so(key: str):
    row = small(next(row for row in ROWS if row.training))
    with pytest.raises(Unable, match="does not train"):
        next(load(key)(1).ways(row, make_arrays(row)))


def test_missing_packages_are_named():
    class Other(load("torch")):
        packages = ("numpy", "no-such-package-at-all")

    found, missing = versions(Other)
    assert list(found) == ["numpy"]
    assert missing == ["no-such-package-at-all"]


@pytest.mark.parametrize("key", FRAMEWORKS)
def test_each_says_what_it_is(key: str):
    peer = load(key)
    assert peer.name and peer.packages and len(peer.settings) > 5
    assert peer.environment(2)["OMP_NUM_THREADS"] == "2"
