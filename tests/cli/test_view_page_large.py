"""The page in a browser with thousands of tokens, keys or heads."""

from __future__ import annotations

import json
import re

import numpy
import pytest

from view_page import browser, make_page, pages, sentence, visit  # noqa: F401 (fixtures)
from view_page import WIDE, WORDS, said_pair, softmax


def said(weight):
    """A weight as the page writes it: three digits that count."""
    return numpy.format_float_positional(weight, 3, unique=False, fractional=False, trim="k")


def test_a_large_page_stays_small_and_fluid(visit, make_page):
    """4,096 tokens: the file, the document, what is drawn and what is said."""
    size, heads = 4096, 2
    random = numpy.random.default_rng(7)
    array = numpy.zeros((heads, size, size), "float32")
    place = numpy.arange(size, dtype="float32")
    scores = random.standard_normal((size, size), "float32")
    scores -= numpy.abs(place[:, None] - place[None, :]) / 40
    scores[place[None, :] > place[:, None]] = -numpy.inf
    array[0] = softmax(scores)
    array[1] = array[0, ::-1, ::-1]  # looks ahead
    tokens = [WORDS[i] for i in random.integers(0, len(WORDS), size)]
    path = make_page(array, tokens)
    assert path.stat().st_size < 10_000_000
    page = visit(path, WIDE)
    nodes = "document.querySelectorAll('*').length"
    assert page.page.evaluate(nodes) < 1500
    pictures = {page.settled_picture()}
    assert "Reduced resolution: each cell shows the largest of 8 × 8 weights" in page.text("#resolution")
    # Near the diagonal a cell's colour is that of a weight which is known exactly, and named.
    for across in numpy.linspace(0.45, 0.65, 80):
        page.point(across, 0.55)
        if "rank" in page.readout()[1]:
            break
    assert "largest of the 8 × 8 below the pointer" in page.readout()[1]
    query, key, weight, rank = said_pair(page.readout())
    block = array[0, query // 8 * 8:query // 8 * 8 + 8, key // 8 * 8:key // 8 * 8 + 8]
    assert weight == pytest.approx(float(block.max()), rel=5e-3)
    assert rank == 1 + (array[0, query] > array[0, query, key]).sum()
    for _ in range(6):
        page.page.mouse.wheel(0, -500)
        pictures.add(page.settled_picture())
    page.page.mouse.down()
    for step in range(1, 4):
        page.point(across + 0.03 * step, 0.55 + 0.03 * step)
        pictures.add(page.settled_picture())
    page.page.mouse.up()
    assert len(pictures) == 10
    page.page.keyboard.press("ArrowRight")
    page.frame()
    assert page.text("#head-name") == "head 1"

    # From one end of the text to the other, rows are exact and the document stays small.
    for pressed, query in (("End", size - 1), ("Home", 0)):
        page.page.mouse.move(5, 5)
        page.page.keyboard.press(pressed)
        best = array[1, query].argmax()
        assert page.readout() == (
            f"query {query:,} “{tokens[query]}”",
            f"attends most to key {best:,} “{tokens[best]}”: weight {said(array[1, query, best])}")
        assert page.page.locator("#text-keys .chosen").all_inner_texts() == [tokens[query]]
        assert page.page.evaluate(nodes) < 1500


def test_weights_that_are_not_exact_say_so(visit, make_page):
    """Rows longer than what is stored exactly: bytes tell the rest, with their uncertainty."""
    size = 500
    array = softmax(numpy.random.default_rng(8).normal(size=(12, size, size)))
    page = visit(make_page(array), WIDE)
    page.settled_picture()
    page.page.keyboard.press("End")
    found = {"exact": 0, "about": 0}
    for _ in range(40):
        page.page.keyboard.press("h")
        pair, words = page.readout()
        key = int(re.search(r"key (\d+)", pair)[1])
        weight = float(array[0, size - 1, key])
        about = re.match(r"weight about ([\d.e-]+) \(± ([\d.]+) %\), not among this query’s (\d+) largest", words)
        if about:
            found["about"] += 1
            assert abs(float(about[1]) - weight) <= (float(about[2]) + 0.6) / 100 * weight
            assert (array[0, size - 1] > weight).sum() >= int(about[3])
        else:
            found["exact"] += 1
            assert said_pair((pair, words))[2] == pytest.approx(weight, rel=5e-3)
    assert min(found.values()) >= 3


def test_many_heads(visit, make_page):
    array = softmax(numpy.random.default_rng(11).normal(size=(144, 8, 8)))
    page = visit(make_page(array), WIDE)
    assert page.page.locator(".head").count() == 144
    assert page.page.evaluate("document.querySelectorAll('*').length") < 1500
    for _ in range(30):
        page.page.keyboard.press("ArrowRight")
    page.frame()
    assert page.text("#head-name") == "head 30"
    card = page.page.locator(".head[aria-selected=true]").bounding_box()
    box = page.page.locator("#head-list").bounding_box()
    assert box["y"] <= card["y"] and card["y"] + card["height"] <= box["y"] + box["height"]
    # In another order the first of it are shown.
    page.page.select_option("#sort", "entropy")
    page.frame()
    assert page.page.evaluate("document.getElementById('head-list').scrollTop") == 0


def test_one_query_over_a_hundred_thousand_keys(visit, tmp_path, succeed):
    array = softmax(numpy.random.default_rng(12).normal(size=(1, 1, 100_000)) * 2)
    numpy.save(tmp_path / "w.npy", array)
    (tmp_path / "t.json").write_text(json.dumps({"query": ["now"],
                                                 "key": [f"token{i}" for i in range(100_000)]}))
    succeed("view", tmp_path / "w.npy", "--tokens", tmp_path / "t.json", "--html", tmp_path / "p.html")
    page = visit(tmp_path / "p.html", WIDE)
    best = array[0, 0].argmax()
    assert f"key {best:,} “token{best}”" in page.readout()[1]
    assert page.page.evaluate("document.querySelectorAll('*').length") < 1500
    page.page.evaluate("document.getElementById('text-keys').scrollTop = 1e9")
    page.frame()
    assert "token99999" in page.page.locator("#text-keys .token").all_inner_texts()
    assert page.page.evaluate("document.querySelectorAll('*').length") < 1500
