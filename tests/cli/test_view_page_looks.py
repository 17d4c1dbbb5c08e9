"""The page in a browser: light and dark, narrow and wide, readable, on paper."""

from __future__ import annotations

import re

import numpy
import pytest

from view_page import browser, make_page, pages, sentence, visit  # noqa: F401 (fixtures)
from view_page import NARROW, WIDE, softmax


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


LONG = ["a" * 200, "https://example.com/" + "path/without/a/blank/" * 8, "W" * 70, "many words " * 20,
        "مرحبا" * 30, "日本語" * 40, "the"]


@pytest.fixture(scope="module")
def long_tokens(make_page):
    """A page of tokens that are longer than a window is wide."""
    return make_page(softmax(numpy.random.default_rng(4).normal(size=(3, len(LONG), len(LONG)))), LONG)


# Text of the read-out, line by line: how far it goes, beside what holds it.
READOUT = """() => {
  const box = document.getElementById('readout').getBoundingClientRect();
  const range = document.createRange();
  range.selectNodeContents(document.getElementById('readout'));
  const lines = [...range.getClientRects()];
  return [box.right - Math.max(...lines.map(line => line.right)),
          box.bottom - Math.max(...lines.map(line => line.bottom))];
}"""


@pytest.mark.parametrize("viewport", [
    NARROW, {"width": 320, "height": 640}, {"width": 900, "height": 800}, {"width": 1200, "height": 700},
    WIDE], ids=lambda v: str(v["width"]))
def test_long_tokens_stay_where_they_belong(visit, long_tokens, viewport):
    page = visit(long_tokens, viewport)
    for query in range(len(LONG)):
        for key in ("Home" if query == 0 else "j", "l"):
            page.page.keyboard.press(key)
            page.frame()
            assert page.page.evaluate("document.documentElement.scrollWidth") <= viewport["width"]
            right, below = page.page.evaluate(READOUT)
            assert right >= -0.5 and below >= -0.5
        assert re.search(rf"query {query} “.*” → key {query} “.*”$", page.readout()[0], re.S)
    for name, left, _, right, _ in page.page.evaluate(BOXES):
        assert left >= 0 and right <= viewport["width"] + 0.5, name


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


@pytest.mark.parametrize(("heads", "viewport"), [
    (12, {"width": 1024, "height": 800}), (9, {"width": 820, "height": 1100}), (4, {"width": 1400, "height": 860}),
    (5, NARROW)])
def test_no_head_is_alone_in_its_row(visit, make_page, heads, viewport):
    page = visit(make_page(numpy.full((heads, 9, 9), 1 / 9, "float32")), viewport)
    page.frame()
    rows = page.page.evaluate("""() => {
        const tops = [...document.querySelectorAll('.head')].map(head => head.getBoundingClientRect().top);
        return [...new Set(tops)].map(top => tops.filter(other => other === top).length); }""")
    assert sum(rows) == heads and len(rows) > 1
    assert rows[-1] > rows[0] / 2


def test_forced_colours_mark_what_is_chosen(visit, sentence):
    page = visit(sentence[0], WIDE)
    page.page.emulate_media(forced_colors="active")
    widths = page.page.evaluate("""() => [...document.querySelectorAll('.head, [role=tab]')].map(each => {
        const { outlineStyle, outlineWidth } = getComputedStyle(each);
        return [each.getAttribute('aria-selected'), outlineStyle === 'solid' ? outlineWidth : '']; })""")
    page.page.emulate_media(forced_colors="none")
    assert sorted(widths) == [["false", ""]] * 5 + [["true", "3px"]] * 2


# What stands on the canvases when a page goes to paper: their colours, and whether they are stretched.
ON_PAPER = """addEventListener('beforeprint', () => {
  window.onPaper = [...document.querySelectorAll('canvas')].filter(each => each.checkVisibility()).map(each => {
    const { width, height, clientWidth, clientHeight } = each;
    const pixels = each.getContext('2d').getImageData(0, 0, width, height).data;
    let dark = 0;
    for (let i = 0; i < pixels.length; i += 4) {
      dark += pixels[i + 3] > 128 && pixels[i] + pixels[i + 1] + pixels[i + 2] < 200 ? 1 : 0;
    }
    const isThumbnail = each.closest('.head') !== null;
    return [each.id, dark / (width * height), isThumbnail || width === clientWidth && height === clientHeight];
  });
})"""


STATE = """() => [document.documentElement.dataset.theme, document.documentElement.className,
  ...['text-keys', 'links'].map(id => document.getElementById(id).scrollTop),
  ...['width', 'height', 'clientWidth', 'clientHeight'].map(side => document.getElementById('matrix')[side])]"""


@pytest.mark.parametrize("tokens", [13, 500])
def test_prints(visit, make_page, tokens):
    """Light whatever the screen is, nothing stretched, and as many pages as there is to see."""
    array = softmax(numpy.random.default_rng(6).normal(size=(8, tokens, tokens)))
    page = visit(make_page(array, [f"word{i}" for i in range(tokens)]), WIDE, "dark")
    page.page.keyboard.press("End")
    page.settled_picture()
    before = page.page.evaluate(STATE)
    page.page.evaluate(ON_PAPER)
    pdf = page.page.pdf(format="A4")
    canvases = page.page.evaluate("window.onPaper")
    assert len(canvases) == 8 + 3
    for name, dark, whole in canvases:
        assert dark < 0.3 and whole, name
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) in (2, 3)
    page.settled_picture()
    assert page.page.evaluate(STATE) == before  # the screen is as it was
    page.page.emulate_media(media="print")
    assert not page.page.locator("button:visible, select:visible").count()
    page.page.emulate_media(media="screen")


def test_a_browser_reads_the_png(browser, succeed, sentence, tmp_path):
    path = sentence[0].parent / "w.npy"
    succeed("view", path, "--png", tmp_path / "o.png", "--width", 1000, "--height", 800)
    page = browser.new_page()
    page.goto((tmp_path / "o.png").as_uri())
    assert page.evaluate("[document.images[0].naturalWidth, document.images[0].naturalHeight]") == [1000, 800]
    page.close()
