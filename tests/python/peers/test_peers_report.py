"""Medians, quiet rounds, tables, picture and JSON, from made-up measurements."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest
from headwise.peers import chart, report
from headwise.peers.frameworks import load
from headwise.peers.measure import Measurement
from headwise.peers.rows import find
from headwise.peers.summary import Spread, summarise
from headwise.peers.table import tables
from headwise.peers.verdict import verdict
from peers_cases import measurement, sample, unable


def test_ratio_is_of_the_same_round():
    """What slows a round slows both: the ratio does not see it."""
    ours = measurement("headwise", [1.0, 2.0, 4.0])
    torch = measurement("torch", [1.5, 3.0, 6.0])
    assert summarise([ours, torch])[1].ratio == Spread(1.5, 1.5, 1.5)
    assert summarise([ours, torch])[1].seconds == Spread(3.0, 2.25, 4.5)


@pytest.mark.parametrize("disturbance", [{"calm": 120e9}, {"waited": 0.3}, {"stray": 0.1}])
def test_disturbed_rounds_are_left_out(disturbance):
    ours = measurement("headwise", [1.0] * 12)
    ours.samples[3] = sample(5.0, **disturbance)
    summary = summarise([ours])[0]
    assert (summary.rounds, summary.disturbed, summary.seconds) == (11, False, Spread(1.0, 1.0, 1.0))


def test_disturbed_all_the_time_is_marked():
    torch = measurement("torch", [2.0])
    torch.samples[0] = sample(2.0, calm=100e9)
    summaries = summarise([measurement("headwise", [1.0] * 20), torch])
    assert summaries[1].disturbed
    assert "**~2.00 (2.00–2.00)**" in tables(summaries)


def test_a_framework_s_own_waiting_is_no_disturbance():
    torch = measurement("torch", [2.0])
    torch.samples = {0: sample(2.0, waited=0.2), 1: sample(2.0, waited=0.22), 2: sample(9.0, waited=0.4)}
    assert summarise([torch])[0].rounds == 2


def test_waiting_a_lot_all_the_time_is_a_disturbance():
    torch = measurement("torch", [2.0])
    torch.samples = {i: sample(2.0, waited=0.3) for i in range(5)}
    assert summarise([torch])[0].disturbed


def everything() -> list[Measurement]:
    died = measurement("keras-jax", [1.0])
    died.failure = "its process ended (Segmentation fault)"
    return [measurement("headwise", [0.010, 0.010, 0.012]), measurement("torch", [0.015, 0.016, 0.015]),
            measurement("jax", [0.5, 0.5, 0.5]), unable("openvino", "does not train"), died,
            measurement("headwise", [0.010], threads=2), measurement("torch", [0.009], threads=2)]


def test_table():
    text = tables(summarise(everything()))
    head, _, row = text.splitlines()[:3]
    assert [cell.strip() for cell in head.strip("|").split("|")] == [
        "attention forward, 1 thread", "shape", "Headwise", "PyTorch", "Keras on JAX", "JAX/Flax", "OpenVINO"]
    # 1.0737 GFLOP in 10 ms on a machine of 100 GFLOP/s
    assert [cell.strip() for cell in row.strip("|").split("|")] == [
        "S 128", "32 × 8 heads, 128, d 64", "10.0 ms, 107% (98–107)", "**1.50 (1.38–1.55)**", "–", "50 (46–50)",
        "–"]
    assert "attention forward, 2 threads" in text
    assert len({len(line) for line in text.splitlines()[:3]}) == 1


def level() -> list[Measurement]:
    """Nobody is surely faster: a median below 1 in one row, in the other a slower peer that may be as fast."""
    first, second = find("tiny-8-256"), find("tiny-32-256")
    return [measurement("headwise", [1.0] * 5, first), measurement("torch", [0.98, 0.99, 0.99, 1.01, 1.02], first),
            measurement("headwise", [1.0] * 5, second), measurement("torch", [1.05] * 5, second),
            measurement("jax", [0.9, 0.99, 1.2, 1.3, 1.4], second)]


def test_verdict_names_rows_that_are_behind():
    lines = verdict(summarise(everything())).splitlines()
    assert lines == ["Headwise is first in 1 of 2 rows, level in 0, behind in 1.", "", "Behind:", "",
                     "- attention-128, 2 threads: PyTorch takes 0.90 (0.90–0.90) of Headwise's time (torch's way)"]


def test_rows_within_the_spread_are_level():
    summaries = summarise(everything() + level())
    lines = verdict(summaries).splitlines()
    assert lines[:5] == ["Headwise is first in 1 of 4 rows, level in 2, behind in 1.", "",
                         "Level, since the quartiles include 1:", "",
                         "- tiny-8-256, 1 thread: PyTorch takes 0.99 (0.99–1.01) of Headwise's time (torch's way)"]
    assert "**=0.99 (0.99–1.01)**" in tables(summaries)
    assert "=1.20 (0.99–1.30)" in tables(summaries)
    assert "=1.0" not in tables(summarise(everything()))
    document = json.loads(report.json_text(everything() + level(), summaries, ["headwise"], {}))
    assert {kind: [row["id"] for row in rows] for kind, rows in document["standings"].items()} == {
        "first": ["attention-128"], "level": ["tiny-8-256", "tiny-32-256"], "behind": ["attention-128"]}
    assert document["standings"]["behind"] == [{"id": "attention-128", "threads": 2, "framework": "torch"}]


def test_text_tells_what_is_missing():
    measurements = everything()
    missing = {"onnxruntime": "not installed: onnx"}
    text = report.text(measurements, summarise(measurements), ["headwise", "torch", "onnxruntime"], missing)
    assert "- ONNX Runtime: **not measured**: not installed: onnx" in text
    assert "- OpenVINO: does not train (attention-128)" in text
    assert "- Keras on JAX: its process ended (Segmentation fault) (attention-128)" in text
    assert "- PyTorch: 2.0e-07 (attention-128)" in text
    assert load("torch").settings in text
    assert "FMA peak 100 GFLOP/s on 1 thread, 100 GFLOP/s on 2 threads" in text


def test_json_has_every_sample():
    measurements = everything()
    document = json.loads(report.json_text(measurements, summarise(measurements), ["headwise"], {"jax": "gone"}))
    assert document["not_measured"] == {"jax": "gone"}
    torch = document["results"][1]
    assert (torch["id"], torch["framework"], torch["threads"]) == ("attention-128", "torch", 1)
    assert [s["seconds"] for s in torch["samples"].values()] == [0.015, 0.016, 0.015]
    assert torch["ratio"]["median"] == pytest.approx(1.5)
    assert torch["tried"][0]["way"] == "torch's way"


def test_picture():
    root = ET.fromstring(chart.chart(summarise(everything()), "a & b"))
    names = [element.text for element in root.iter() if element.tag.endswith("title")]
    assert names == ["JAX/Flax: 50.00 × Headwise's 10.0 ms", "PyTorch: 1.50 × Headwise's 10.0 ms",
                     "PyTorch: 0.90 × Headwise's 10.0 ms"]
    texts = [element.text for element in root.iter() if element.tag.endswith("text")]
    assert {"1 thread", "2 threads", "S 128", "a & b"} <= set(texts)
    assert texts.count("behind") == 1  # on two threads
    assert texts.count("›") == 1  # JAX is off the scale
    sizes = [float(element.get("font-size")) for element in root.iter() if element.tag.endswith("text")]
    assert min(sizes) * 830 / float(root.get("width")) > 10  # pixels, as wide as README shows it


def test_picture_has_no_more_of_the_left_than_it_needs():
    def scale(fastest: float) -> list[str]:
        ours, torch = measurement("headwise", [1.0]), measurement("torch", [fastest])
        root = ET.fromstring(chart.chart(summarise([ours, torch]), "footer"))
        texts = [element.text for element in root.iter() if element.tag.endswith("text")]
        return [text for text in texts if text == "Headwise" or text.endswith("×")]

    assert scale(2.0) == scale(0.9) == scale(0.68) == ["Headwise", "2×", "4×", "8×", "16×"]
    assert scale(0.5) == ["0.5×", *scale(2.0)]
    assert scale(0.01) == ["0.25×", *scale(0.5)]


def test_picture_has_colours_for_dark_paper():
    text = chart.chart(summarise(everything()), "")
    light, dark = text.split("@media (prefers-color-scheme: dark)")
    for name in (*chart.COLOURS, *chart.MARKS):
        assert f".{name}{{fill:" in light and f".{name}{{fill:" in dark.split("</style>")[0]
    used = {name for element in ET.fromstring(text).iter() for name in element.get("class", "").split()}
    assert used <= {*chart.COLOURS, *chart.MARKS, "edged"}
