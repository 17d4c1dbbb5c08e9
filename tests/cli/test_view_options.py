"""headwise view: options that contradict each other, and where its words go."""

from __future__ import annotations

import numpy
import pytest


@pytest.fixture
def weights(tmp_path):
    numpy.save(tmp_path / "w.npy", numpy.full((2, 3, 5, 5), 0.2, "float32"))
    return tmp_path / "w.npy"


@pytest.mark.parametrize("options", [
    ("--causal",), ("--mask", "nope.npy"), ("--layer", "3"), ("--seed", "4"), ("--gate",),
    ("--threads", "2"), ("--target", "avx2"), ("--keys", "3"), ("--window", "1,1"), ("--no-bias",),
])  # fmt: skip
def test_a_file_is_shown_as_it_is(fails, weights, options):
    line = fails(2, "view", weights, *options)
    assert line.startswith(f"headwise: {options[0]}: ") and "leave out the options of a run" in line


def test_where_the_queries_of_a_file_stand_may_be_said(succeed, weights):
    succeed("view", weights, "--query-offset", 0)
    succeed("view", weights, "--align", "bottom-right")


@pytest.mark.parametrize(("first", "second", "magic"), [
    ("--png", "--html", b"\x89PNG"), ("--html", "--png", b"<!DOCTYPE html>")])  # fmt: skip
def test_a_picture_on_standard_output_has_it_for_itself(run, weights, tmp_path, first, second, magic):
    other = tmp_path / ("z" + {"--png": ".png", "--html": ".html"}[second])
    outcome = run("view", weights, first, "-", second, other)
    assert outcome.code == 0 and str(other) in outcome.err and other.exists()
    assert outcome.bytes[: len(magic)].lower() == magic.lower()
    assert outcome.bytes == run("view", weights, first, "-").bytes


@pytest.mark.parametrize(("options", "says"), [
    (("--png", "p.jpg"), "--png: expected a name that ends in .png, got 'p.jpg'"),
    (("--html", "p.txt"), "--html: expected a name that ends in .html or .htm"),
    (("--png", "a.png", "--html", "./a.png"), "--png and --html: expected two places"),
    (("--theme", "dark"), "--theme: needs --png"),
    (("--theme", "dark", "--html", "a.html"), "--theme: needs --png"),
    (("--width", "900", "--html", "a.html"), "--width: needs --png"),
    (("--height", "900", "--html", "a.html"), "--height: needs --png"),
])  # fmt: skip
def test_names_of_pictures(fails, weights, tmp_path, options, says):
    assert says in fails(2, "view", weights, *options, cwd=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["w.npy"]


def test_names_in_capitals(succeed, weights, tmp_path):
    succeed("view", weights, "--png", "P.PNG", "--html", "P.Html", cwd=tmp_path)
    assert (tmp_path / "P.PNG").read_bytes().startswith(b"\x89PNG") and (tmp_path / "P.Html").exists()


def test_characters_that_no_font_has(run, weights, tmp_path):
    (tmp_path / "t.json").write_text('["the", "cat", "\\udbff\\udffd", "on", "it"]')
    outcome = run("view", weights, "--tokens", "t.json", "--png", "o.png", cwd=tmp_path)
    assert outcome.code == 0 and outcome.err.count("\n") == 1
    assert outcome.err.startswith("headwise: note: no font has all characters of '\U0010fffd'")


def test_the_sequence_of_a_batch_is_said(succeed, weights):
    assert "sequence 0 of 2" in succeed("view", weights).splitlines()[0]
    assert "sequence 1 of 2" in succeed("view", weights, "--sequence", 1).splitlines()[0]
    assert "sequence 0 of 2" in succeed("view", weights, "--html", "-")
    assert "sequence" not in succeed("view", "--shape", "1,3,16", "--heads", 2).splitlines()[0]


def test_an_array_without_a_name(fails, weights):
    line = fails(1, "view", weights, "--array", "q")
    assert "its array has no name: leave out --array" in line


def test_tokens_that_cannot_be_read(fails, weights, tmp_path):
    assert "No such file" in fails(1, "view", weights, "--tokens", tmp_path / "none.txt")
