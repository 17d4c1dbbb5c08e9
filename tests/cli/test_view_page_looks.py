"""The page in a browser: light and dark, narrow and wide, readable, on paper."""

from __future__ import annotations

import re

import numpy
import pytest

from view_page import browser, make_page, pages, sentence, visit  # noqa: F401 (fixtures)
from view_page import NARROW, WIDE


# Contrast of text with what is behind it, as WCAG 2.1 has it; large canvases aside.
CONTRASTS = """() => {
  const channel = x => (x /= 255) <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
  const parse = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const colour = parse(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some(n => n.nodeType === 3 && n.data.trim() !== '');
    if (!own || !element.checkVisibility() || element.closest('dialog, script, option')) continue;
    const [a, b] = [luminance(parse(getComputedStyle(element).color)), luminance(behind(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    found.push([ratio, element.tagName + '.' + element.className + ' ' + element.textContent]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [WIDE, NARROW], ids=["wide", "narrow"])
def test_text_is_readable(visit, sentence, scheme, viewport):
    page = visit(sentence[0], viewport, scheme)
    page.page.keyboard.press("j")
    page.frame()
    contrasts = page.page.evaluate(CONTRASTS)
    assert len(contrasts) > 50
    assert [each for each in contrasts if each[0] < 4.5] == []


def test_light_and_dark(visit, sentence):
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(sentence[0], WIDE, "light"), visit(sentence[0], WIDE, "dark")
    assert sum(map(int, re.findall(r"\d+", light.page.evaluate(ground)))) > 700
    assert sum(map(int, re.findall(r"\d+", dark.page.evaluate(ground)))) < 60
    assert light.settled_picture() != dark.settled_picture()
    wanted = dark.settled_picture()
    light.page.click("#theme")
    light.page.locator("h1").click()
    assert light.page.evaluate(ground) == dark.page.evaluate(ground)
    assert light.settled_picture() == wanted
    light.page.keyboard.press("t")
    assert light.settled_picture() != wanted


BOXES = """() => [...document.querySelectorAll('header, section, .bar > *, .tools > *, #readout, #links')]
  .filter(e => e.checkVisibility())
  .map(e => { const b = e.getBoundingClientRect();
              return [e.tagName + '#' + e.id, b.left, b.top, b.right, b.bottom]; })"""


@pytest.mark.parametrize("viewport", [
    NARROW, {"width": 320, "height": 640}, {"width": 800, "height": 1000},
    {"width": 1200, "height": 700}, WIDE, {"width": 2560, "height": 1300}], ids=lambda v: str(v["width"]))
def test_nothing_overlaps_or_sticks_out(visit, sentence, viewport):
    page = visit(sentence[0], viewport)
    page.frame()
    width = viewport["width"]
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.page.evaluate(BOXES)
    for name, left, _, right, _ in boxes:
        assert left >= 0 and right <= width + 0.5, name
    sections = [box for box in boxes if box[0].startswith(("SECTION", "HEADER"))]
    assert len(sections) == 4
    for i, (a, left, top, right, bottom) in enumerate(sections):
        for b, left2, top2, right2, bottom2 in sections[i + 1:]:
            apart = right <= left2 or right2 <= left or bottom <= top2 or bottom2 <= top
            assert apart, (a, b)
    if width >= 1200:  # everything at once, nothing scrolls but the lists
        assert page.page.evaluate("document.documentElement.scrollHeight") <= viewport["height"]


HEADS = """() => {
  const list = document.getElementById('head-list').getBoundingClientRect();
  return [...document.querySelectorAll('.head')].map(head => {
    const box = head.getBoundingClientRect();
    const cut = [...head.querySelectorAll('span')].some(span => span.scrollWidth > span.clientWidth);
    return box.top >= list.top && box.bottom <= list.bottom && !cut; });
}"""


@pytest.fixture(scope="module")
def twelve(make_page):
    """A page of 12 heads over tokens of very different lengths, with the smallest of weights."""
    array = numpy.full((12, 15, 15), 1e-6, "float32")
    array[:, range(15), range(15)] = 5e-6
    return make_page(array, ["i", "Wolkenkratzer", "internationalisation", "mmmmm", "."] * 3)


@pytest.mark.parametrize("viewport", [NARROW, {"width": 820, "height": 1100}, {"width": 1400, "height": 860},
                                      {"width": 2560, "height": 1300}], ids=lambda v: str(v["width"]))
def test_twelve_heads_have_room(visit, twelve, viewport):
    page = visit(twelve, viewport)
    page.frame()
    assert page.page.evaluate(HEADS) == [True] * 12
    # A large head uses a large window.
    if viewport["width"] >= 1400:
        page.settled_picture()
        pixels = page.colours()
        inside = (pixels != pixels[2, 2]).any(-1)
        assert numpy.ptp(numpy.flatnonzero(inside.any(1))) > 0.9 * inside.shape[0]
    # "Links" is said once, by the tab.
    assert page.text(".tokens .bar").count("Links") == 1


def test_labels_are_drawn_whole(visit, twelve):
    """Chosen ones are bold, and wider for it; long ones end in "…" within the room they have."""
    page = visit(twelve, NARROW)
    for _ in range(4):
        page.page.keyboard.press("j")
        labels = page.drawn("matrix")
        assert [each["text"] for each in labels if each["bold"]]
        assert all(each["left"] >= 0 for each in labels)
    # Along a slant of 55 degrees, above the cells: what is longer than the room would leave the canvas.
    wide = visit(twelve, WIDE)
    keys = [each for each in wide.drawn("matrix") if each["left"] == 0]
    assert {"i", "Wolkenkratzer", "mmmmm", "."} <= {each["text"] for each in keys}
    assert any(each["text"].endswith("…") for each in keys)
    assert max(each["right"] for each in keys) <= 84


def test_numbers_of_the_scale_keep_apart(visit, twelve):
    page = visit(twelve, WIDE)
    width = page.page.locator("#scale-bar").bounding_box()["width"]
    for scale in ("sqrt", "linear", "log"):
        page.page.select_option("#scale", scale)
        numbers = sorted(page.drawn("scale-bar"), key=lambda each: each["left"])
        assert len(numbers) >= 3 and numbers[-1]["text"] == "5.0e-6"
        assert numbers[0]["left"] >= 0 and numbers[-1]["right"] <= width
        for before, after in zip(numbers, numbers[1:]):
            assert before["right"] + 4 <= after["left"]


def test_prints(visit, sentence):
    page = visit(sentence[0], WIDE, "dark")
    page.page.emulate_media(media="print")
    assert not page.page.locator("button:visible, select:visible").count()
    page.page.emulate_media(media="screen")
    assert page.page.pdf().startswith(b"%PDF")


def test_a_browser_reads_the_png(browser, succeed, sentence, tmp_path):
    path = sentence[0].parent / "w.npy"
    succeed("view", path, "--png", tmp_path / "o.png", "--width", 1000, "--height", 800)
    page = browser.new_page()
    page.goto((tmp_path / "o.png").as_uri())
    assert page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == [1000, 800]
    page.close()
