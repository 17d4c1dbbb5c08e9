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
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-smooth-scrolling"])
        yield chromium
        chromium.close()


# In the page, one call for all of it: every call costs as much as a frame.
FRAMES = """const frames = count => new Promise(done => {
    const next = () => count-- > 0 ? requestAnimationFrame(next) : done();
    next();
});"""
SETTLED = """async () => {
    FRAMES
    let before = null;
    for (let i = 0; i < 200; ++i) {
        await frames(3);
        const now = document.getElementById('matrix').toDataURL();
        if (now === before) return now;
        before = now;
    }
    return null;
}""".replace("FRAMES", FRAMES)
# All text drawn on canvases, with the place it takes before it is turned.
DRAWN = """window.drawn = [];
const fillText = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function(text, x, y) {
    const width = this.measureText(text).width;
    const left = x - { left: 0, center: width / 2, right: width }[this.textAlign];
    window.drawn.push({ canvas: this.canvas.id, text, left, right: left + width, bold: /bold/.test(this.font) });
    return fillText.call(this, text, x, y);
};"""


class Visit:
    """An open page, with all that went wrong or was asked for on it."""

    def __init__(self, page, path):
        self.page, self.context = page, page.context
        self.said, self.requests = [], []
        self.listeners = {
            "console": lambda message: self.said.append(f"{message.type}: {message.text}"),
            "pageerror": lambda error: self.said.append(f"error: {error}"),
            "request": lambda request: self.requests.append(request.url),
        }
        for event, listener in self.listeners.items():
            page.on(event, listener)
        page.mouse.move(5, 5)
        page.goto(path.as_uri())
        # The largest weights are unpacked when the read-out knows what the first query attends.
        page.wait_for_selector("#readout-weight:not(:empty)")

    def text(self, selector):
        return self.page.inner_text(selector)

    def readout(self):
        return tuple(self.page.evaluate(f"""async () => {{ {FRAMES} await frames(2);
            return ['readout-pair', 'readout-weight'].map(id => document.getElementById(id).innerText); }}"""))

    def frame(self):
        """Until what was changed has been drawn."""
        self.page.evaluate(f"async () => {{ {FRAMES} await frames(2); }}")

    def settled_picture(self):
        """The picture when no tile is on its way any more."""
        picture = self.page.evaluate(SETTLED)
        assert picture is not None, "the picture never comes to rest"
        return picture

    def drawn(self, canvas):
        """The text that a canvas is given when it is drawn anew, here in another theme."""
        self.frame()
        texts = self.page.evaluate(f"""async () => {{ {FRAMES}
            window.drawn.length = 0;
            document.getElementById('theme').click();
            await frames(3);
            return window.drawn.filter(each => each.canvas === '{canvas}'); }}""")
        return list({(each["text"], each["left"]): each for each in texts}.values())

    def point(self, across, down):
        """Moves the mouse to a share of the matrix's canvas; returns the pixel below it."""
        box = self.page.locator("#matrix").bounding_box()
        x, y = round(across * box["width"]), round(down * box["height"])
        self.page.mouse.move(box["x"] + x, box["y"] + y)
        return x, y

    def scrolled(self, key, element, wanted):
        """Presses a key and waits until `wanted` of the element's place, the one before and the last."""
        self.page.evaluate(f"window.before = {element}.scrollTop")
        self.page.keyboard.press(key)
        self.page.wait_for_function(f"""() => {{
            const {{ scrollTop: now, scrollHeight, clientHeight }} = {element};
            const [before, last] = [window.before, scrollHeight - clientHeight];
            return {wanted}; }}""")

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
        for event, listener in self.listeners.items():
            self.page.remove_listener(event, listener)


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


@pytest.fixture(scope="module")
def pages(browser):
    """pages(viewport, …) → a browser's page of that kind. It is made once: that takes a second, and
    what it shows begins anew with every visit."""
    made = {}

    def page(viewport, scheme="light", touch=False):
        key = (*viewport.items(), scheme, touch)
        if key not in made:
            context = browser.new_context(viewport=viewport, color_scheme=scheme, has_touch=touch)
            context.add_init_script(DRAWN)
            made[key] = context.new_page()
        return made[key]

    return page


@pytest.fixture
def visit(pages):
    """visit(path, viewport, …) → Visit; when the test ends, nothing may have gone wrong on any. One
    of a kind at a time."""
    visits = []

    def open_page(path, *kind, **more):
        visits.append(Visit(pages(*kind, **more), path))
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


def distances(array):
    apart = numpy.abs(numpy.subtract.outer(range(array.shape[1]), range(array.shape[2])))
    return (array.astype("float64") * apart).sum(-1).mean(-1)


def said_pair(readout):
    """(query, key, weight, rank) of the read-out's words."""
    pair = re.fullmatch(r"query ([\d,]+)\b.*→ key ([\d,]+)\b.*", readout[0], re.S)
    said = re.match(r"weight ([\d.e+-]+)(?:, rank ([\d,]+) of ([\d,]+) keys)?", readout[1])
    number = lambda text: int(text.replace(",", ""))
    return (number(pair[1]), number(pair[2]), float(said[1]), said[2] and number(said[2]))
