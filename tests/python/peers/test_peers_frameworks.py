"""Every way of the frameworks gives Headwise's numbers, for every kind of row; compiled ones where that is fast."""

from __future__ import annotations

import dataclasses

import pytest
from headwise.peers.frameworks import FRAMEWORKS, load, versions
from headwise.peers.peer import Unable
from headwise.peers.rows import ROWS, Row, make_arrays
from headwise.peers.worker import TOLERANCE, TRAINING_TOLERANCE, largest_difference
from test_peers_rows import small


TRAIN = ["torch", "keras-torch", "jax"]


def kinds(training: bool) -> list[Row]:
    """Of every kind of row one, with few numbers."""
    found = [dataclasses.replace(small(row), id="", group="", label="") for row in ROWS if training or not row.training]
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("key", ["onnxruntime", "openvino", *TRAIN])
def test_ways_agree(key: str, monkeypatch):
    if key == "jax":  # most of the time would go into optimising code that runs once
        monkeypatch.setenv("XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true")
    if key.endswith("torch"):  # which a process may call only once
        monkeypatch.setattr("torch.set_num_interop_threads", lambda _: None)
    monkeypatch.setenv("KERAS_BACKEND", "torch")  # the peer sets it for good
    peer, headwise = load(key)(1), load("headwise")(1)
    rows = kinds(training=key in TRAIN)
    assert len(rows) > (12 if key in TRAIN else 8)
    for row in rows:
        arrays = make_arrays(row)
        ours = next(headwise.ways(row, arrays))
        expected = ours.outputs(ours.run())
        ways = [way for way in peer.ways(row, arrays) if "compile" not in way.name]  # by torch: minutes
        assert ways, row
        for way in ways:
            difference = largest_difference(expected, way.outputs(way.run()))
            assert difference <= (TRAINING_TOLERANCE if row.training else TOLERANCE), (row, way.name, difference)


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
