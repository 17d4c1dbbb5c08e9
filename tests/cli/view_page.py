"""The page of `headwise view --html` in a real browser, opened from a file as a user does: what the
tests of it share."""

from __future__ import annotations

import base64
import json
import re
import shutil

import numpy
import pytest
from playwright.sync_api import sync_playwright

WIDE = {"width": 1600, "height": 1000}
NARROW = {"width": 390, "height": 844}


def softmax(scores):
    powers = numpy.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype("float32")


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert path, "Chromium is not installed: scripts/install.sh"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


class Visit:
    """An open page, with all that went wrong or was asked for on it."""

    def __init__(self, browser, path, viewport, scheme="light", touch=False):
        self.context = browser.new_context(viewport=viewport, color_scheme=scheme, has_touch=touch)
        self.page = self.context.new_page()
        self.said, self.requests = [], []
        self.page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.goto(path.as_uri())
        # The largest weights are unpacked when the read-out knows what the first query attends.
        self.page.wait_for_selector("#readout-weight:not(:empty)")

    def text(self, selector):
        return self.page.inner_text(selector)

    def readout(self):
        self.frame()
        return self.text("#readout-pair"), self.text("#readout-weight")

    def frame(self):
        """Until what was changed has been drawn."""
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => "
                           "requestAnimationFrame(() => done())))")

    def picture(self):
        self.frame()
        return self.page.evaluate("document.getElementById('matrix').toDataURL()")

    def settled_picture(self):
        """The picture when no tile is on its way any more."""
        before = None
        for _ in range(100):
            now = self.picture()
            if now == before:
                return now
            before = now
            self.page.wait_for_timeout(50)
        raise AssertionError("the picture never comes to rest")

    def point(self, across, down):
        """Moves the mouse to a share of the matrix's canvas; returns the colour there."""
        box = self.page.locator("#matrix").bounding_box()
        x, y = round(across * box["width"]), round(down * box["height"])
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        self.frame()
        return x, y

    def colours(self):
        """All pixels of the matrix's canvas, (height, width, 3)."""
        self.frame()
        width, height, data = self.page.evaluate("""() => {
            const canvas = document.getElementById('matrix');
            const { width, height } = canvas;
            const pixels = canvas.getContext('2d').getImageData(0, 0, width, height).data;
            let text = '';
            for (let i = 0; i < pixels.length; i += 4) {
                text += String.fromCharCode(pixels[i], pixels[i + 1], pixels[i + 2]);
            }
            return [width, height, btoa(text)];
        }""")
        return numpy.frombuffer(base64.b64decode(data), "uint8").reshape(height, width, 3)

    def close(self):
        assert self.said == []
        assert len(self.requests) == 1 and self.requests[0].startswith("file:")
        assert self.page.evaluate("window.__pwned") is None
        self.context.close()


@pytest.fixture(scope="module")
def make_page(succeed, tmp_path_factory):
    """make_page(array, tokens, …options) → the path of its page."""

    def make(array, tokens=None, *options):
        folder = tmp_path_factory.mktemp("page")
        numpy.save(folder / "w.npy", array)
        if tokens is not None:
            (folder / "t.json").write_text(json.dumps(tokens), encoding="utf-8")
            options = (*options, "--tokens", folder / "t.json")
        succeed("view", folder / "w.npy", "--html", folder / "p.html", *options)
        return folder / "p.html"

    return make


@pytest.fixture
def visit(browser):
    """visit(path, …) → Visit; when the test ends, nothing may have gone wrong on any."""
    visits = []

    def open_page(*arguments, **options):
        visits.append(Visit(browser, *arguments, **options))
        return visits[-1]

    yield open_page
    for each in visits:
        each.close()


WORDS = "the quick brown fox jumps over the lazy dog and then it sleeps".split()


@pytest.fixture(scope="module")
def sentence(make_page):
    """A page of 5 heads over 13 words, and its weights."""
    array = softmax(numpy.random.default_rng(3).normal(size=(5, 13, 13)) * 1.5)
    return make_page(array, WORDS, "--title", "A sentence"), array


def entropies(array):
    return -(array.astype("float64") * numpy.log(array.astype("float64"))).sum(-1).mean(-1)


def said_pair(readout):
    """(query, key, weight, rank) of the read-out's words."""
    pair = re.fullmatch(r"query ([\d,]+)\b.*→ key ([\d,]+)\b.*", readout[0], re.S)
    said = re.match(r"weight ([\d.e+-]+)(?:, rank ([\d,]+) of ([\d,]+) keys)?", readout[1])
    number = lambda text: int(text.replace(",", ""))
    return (number(pair[1]), number(pair[2]), float(said[1]), said[2] and number(said[2]))
