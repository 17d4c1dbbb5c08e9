"""The page in a browser: what it says, and what mouse, keys and fingers do."""

from __future__ import annotations

import json
import re

import numpy
import pytest

from view_page import browser, make_page, pages, sentence, visit  # noqa: F401 (fixtures)
from view_page import NARROW, WIDE, WORDS, distances, entropies, said_pair, softmax

HOSTILE = [
    "</script><script>window.__pwned = 1</script>", "<img src=x onerror=window.__pwned=1>",
    "<!--", "\"'`;window.__pwned=1//", "{{script}}", "${window.__pwned=1}", "&lt;b&gt;",
    "\u202eevil\u2066\u200f", "שלום", "مرحبا", "日本語", "👩‍👩‍👧", "e\u0301", "\n\t\x00\x1b[31m", " ", "",
    "a" * 500, "<style>*{display:none}</style>", "javascript:window.__pwned=1", "\u2028",
]


def test_opens_with_everything_in_place(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    assert page.text("#title") == "A sentence"
    assert page.page.title() == "A sentence · attention"
    assert page.text("#sizes") == "5 heads · 13 queries × 13 keys"
    assert page.text("#head-name") == "head 0"
    cards = page.page.locator(".head").all_inner_texts()
    assert [card.split("\n") for card in cards] == [
        [f"head {h}", f"Entropy {entropies(array)[h]:.2f}", f"Distance {distances(array)[h]:.1f}"]
        for h in range(5)]
    statistics = page.text("#statistics")
    own = array[0].astype("float64").diagonal().mean()
    assert re.search(rf"Entropy\s*{entropies(array)[0]:.2f}", statistics)
    assert re.search(rf"Own key\s*{100 * own:.{0 if own >= 0.1 else 1}f} %", statistics)
    assert page.text("#resolution") == "Full resolution: one cell is one weight."
    best = array[0, 0].argmax()
    assert page.readout() == (f"query 0 “{WORDS[0]}”",
                              f"attends most to key {best} “{WORDS[best]}”: "
                              f"weight {array[0, 0, best]:.3g}".rstrip())


def test_hover_reads_the_weight_below_the_pointer(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    seen = set()
    for across, down in [(0.3, 0.3), (0.5, 0.4), (0.6, 0.7), (0.4, 0.9), (0.7, 0.5), (0.35, 0.6)]:
        page.point(across, down)
        readout = page.readout()
        query, key, weight, rank = said_pair(readout)
        assert f"“{WORDS[query]}”" in readout[0] and f"“{WORDS[key]}”" in readout[0]
        assert weight == pytest.approx(float(array[0, query, key]), rel=5e-3)
        assert rank == 1 + (array[0, query] > array[0, query, key]).sum()
        seen.add((query, key))
    assert len(seen) == 6
    page.page.mouse.move(5, 5)
    assert page.readout()[0] == f"query 0 “{WORDS[0]}”"


def test_colours_stand_for_what_the_readout_says(visit, make_page):
    """Weights of 0 and 1 in a pattern without symmetry."""
    array = numpy.zeros((1, 11, 11), "float32")
    for query in range(11):
        array[0, query, query * query * 3 % 11] = 1
    page = visit(make_page(array), WIDE)
    page.settled_picture()
    pixels = page.colours()
    dark = 0
    for across in numpy.linspace(0.3, 0.7, 6):
        for down in numpy.linspace(0.2, 0.9, 6):
            x, y = page.point(across, down)
            readout = page.readout()
            if "→" not in readout[0]:
                continue
            query, key, weight, _ = said_pair(readout)
            assert weight == array[0, query, key]
            assert (pixels[y, x].sum() < 300) == (weight == 1)
            dark += weight == 1
    assert dark >= 3


def test_arrows_walk_the_heads(visit, sentence):
    page = visit(sentence[0], WIDE)
    before = page.settled_picture()
    page.page.keyboard.press("ArrowRight")
    page.frame()
    assert page.text("#head-name") == "head 1"
    assert page.page.locator(".head[aria-selected=true]").inner_text().startswith("head 1")
    assert page.settled_picture() != before
    page.page.keyboard.press("ArrowLeft")
    page.page.keyboard.press("ArrowLeft")  # stops at the first
    page.frame()
    assert page.text("#head-name") == "head 0"
    assert page.settled_picture() == before


def test_keys_walk_the_tokens(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)

    def pressed(key):
        page.page.keyboard.press(key)
        return page.readout()

    for key, query in [("j", 1), ("ArrowDown", 2), ("k", 1), ("End", 12), ("j", 12), ("ArrowUp", 11),
                       ("PageUp", 1), ("Home", 0), ("k", 0)]:
        assert pressed(key)[0] == f"query {query} “{WORDS[query]}”"
        assert page.text("#selected-query").startswith(f"query {query} “{WORDS[query]}”")
        assert page.page.locator("#text-keys .chosen").all_inner_texts() == [WORDS[query]]
        assert page.page.locator(".link-row.chosen").all_inner_texts() == [WORDS[query]]
    pressed("j")
    assert said_pair(pressed("l"))[:2] == (1, 1)  # the walk begins at the query itself
    assert said_pair(pressed("Shift+ArrowRight"))[:2] == (1, 2)
    query, key, weight, rank = said_pair(pressed("h"))
    assert (query, key) == (1, 1)
    assert weight == pytest.approx(float(array[0, 1, 1]), rel=5e-3)
    assert rank == 1 + (array[0, 1] > array[0, 1, 1]).sum()
    assert "pinned" in page.text("#selected-query")
    pressed("Escape")
    assert "pinned" not in page.text("#selected-query")


def test_other_keys(visit, sentence):
    page = visit(sentence[0], WIDE)
    page.page.keyboard.press("?")
    assert page.page.locator("#help-dialog").is_visible()
    page.page.keyboard.press("j")  # is not for what lies below
    page.page.keyboard.press("Escape")
    assert not page.page.locator("#help-dialog").is_visible()
    assert page.readout()[0].startswith("query 0 ")
    whole = page.settled_picture()
    page.page.keyboard.press("+")
    assert page.settled_picture() != whole
    page.page.keyboard.press("0")
    assert page.settled_picture() == whole
    page.page.keyboard.press("2")
    page.frame()
    assert page.page.locator("#key-list").is_visible() and not page.page.locator("#links").is_visible()
    page.page.keyboard.press("1")
    page.frame()
    assert page.page.locator("#links").is_visible()


def test_what_is_chosen_stays_in_view(visit, sentence):
    """Zooming by keys is about it, and walking on moves what is zoomed."""
    page = visit(sentence[0], WIDE)

    def bold():
        return [each["text"] for each in page.drawn("matrix") if each["bold"]]

    page.page.keyboard.press("End")
    for _ in range(5):
        page.page.keyboard.press("+")
    assert bold() == ["sleeps"]
    assert len([each for each in page.drawn("matrix") if each["text"] in WORDS]) < 20  # of 26: it is zoomed
    for query in range(11, -1, -1):
        page.page.keyboard.press("k")
        assert bold() == [WORDS[query]]
    for key in range(13):
        page.page.keyboard.press("l")
        assert set(bold()) == {WORDS[0], WORDS[key]}


@pytest.fixture(scope="module")
def long_text(make_page):
    """A page of one head over 300 words."""
    array = softmax(numpy.random.default_rng(11).normal(size=(1, 300, 300)))
    return make_page(array, [f"word{i}" for i in range(300)])


SCROLLING = [("PageDown", "now > before"), ("End", "Math.abs(now - last) < 1"), ("PageUp", "now < before"),
             ("Home", "now === 0")]


@pytest.mark.parametrize("list_id", ["key-list", "text-keys"])
def test_a_list_with_the_focus_scrolls(visit, long_text, list_id):
    page = visit(long_text, WIDE)
    page.page.keyboard.press("2")
    page.frame()
    page.page.focus(f"#{list_id}")
    for key, wanted in [*SCROLLING, ("ArrowDown", "now > before"), ("ArrowUp", "now === 0")]:
        page.scrolled(key, f"document.getElementById('{list_id}')", wanted)
    assert page.readout()[0] == "query 0 “word0”"
    page.page.keyboard.press("j")
    assert page.readout()[0] == "query 1 “word1”"


def test_a_page_higher_than_its_window_scrolls(visit, long_text):
    page = visit(long_text, {"width": 1024, "height": 600})
    for key, wanted in SCROLLING:
        page.scrolled(key, "document.documentElement", wanted)
    assert page.readout()[0] == "query 0 “word0”"
    page.page.keyboard.press("ArrowDown")
    assert page.readout()[0] == "query 1 “word1”"
    page.page.focus("#matrix")
    page.page.keyboard.press("PageDown")
    assert page.readout()[0] == "query 11 “word11”"


def test_a_click_pins_a_row(visit, sentence):
    page = visit(sentence[0], WIDE)
    page.point(0.5, 0.5)
    pinned = said_pair(page.readout())[0]
    page.page.mouse.down()
    page.page.mouse.up()
    page.point(0.4, 0.8)
    other = said_pair(page.readout())[0]
    assert other != pinned
    assert page.text("#selected-query").startswith(f"query {pinned} ")
    page.page.keyboard.press("Escape")
    page.point(0.41, 0.8)
    assert page.text("#selected-query").startswith(f"query {other} ")


def test_tokens_can_be_chosen_in_text_and_links(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    page.page.locator("#text-keys .token", has_text="lazy").click()
    page.page.mouse.move(5, 5)
    assert page.readout()[0] == "query 7 “lazy”"
    page.page.locator(".link-row.query", has_text="jumps").click()
    page.page.mouse.move(5, 5)
    assert page.readout()[0] == "query 4 “jumps”"
    page.page.locator("#text-keys .token", has_text="fox").hover()
    query, key, weight, _ = said_pair(page.readout())
    assert (query, key) == (4, 3)
    assert weight == pytest.approx(float(array[0, 4, 3]), rel=5e-3)


def test_text_is_coloured_by_weight(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    page.page.keyboard.press("j")
    page.frame()
    colours = page.page.locator("#text-keys .token").evaluate_all(
        "tokens => tokens.map(token => getComputedStyle(token).backgroundColor)")
    darkness = [-sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours]
    order = numpy.argsort(array[0, 1])
    assert (numpy.diff(numpy.array(darkness)[order]) >= 0).all()
    assert darkness[order[-1]] - darkness[order[0]] > 100


def test_largest_keys_are_listed(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    page.page.keyboard.press("End")
    page.page.click("#tab-keys")
    page.frame()
    items = [item.split("\n") for item in page.page.locator("#key-list li").all_inner_texts()]
    order = numpy.argsort(-array[0, 12], kind="stable")
    assert [[item[1], int(item[2])] for item in items] == [[WORDS[key], key] for key in order]
    assert [float(item[3]) for item in items] == pytest.approx(array[0, 12][order].tolist(), rel=6e-3)


def test_links_are_as_thick_as_weights(visit, make_page):
    """One link of weight 1: its curve ends at its key, and nothing is drawn elsewhere."""
    array = numpy.zeros((1, 6, 6), "float32")
    array[0, :, 4] = 1
    page = visit(make_page(array, list("abcdef")), WIDE)
    page.frame()
    ends = page.page.evaluate("""() => {
        const canvas = document.getElementById('link-lines');
        const column = Math.round(canvas.width * 0.66) - 4;
        const pixels = canvas.getContext('2d').getImageData(column, 0, 1, canvas.height).data;
        const found = [];
        for (let y = 0; y < canvas.height; ++y) if (pixels[4 * y + 3] > 40) found.push(y);
        return found;
    }""")
    row = page.page.locator(".link-row.key", has_text="e").bounding_box()
    top = page.page.locator("#link-lines").bounding_box()["y"]
    middle = row["y"] + row["height"] / 2 - top
    assert ends and abs(numpy.mean(ends) - middle) < 2 and max(ends) - min(ends) < 12


def test_heads_sort_by_their_statistics(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    array = array.astype("float64")
    for name, values, sign in [
            ("entropy", entropies(array), 1), ("distance", distances(array), 1),
            ("firstKey", array[:, :, 0].mean(-1), -1),
            ("own", array.diagonal(axis1=1, axis2=2).mean(-1), -1),
            ("previous", array[:, 1:].diagonal(axis1=1, axis2=2).sum(-1) / 13, -1)]:
        page.page.select_option("#sort", name)
        page.frame()
        order = numpy.argsort(sign * values)
        names = [text.split("\n")[0] for text in page.page.locator(".head").all_inner_texts()]
        assert names == [f"head {h}" for h in order]
        shown = page.page.locator(".head").first.inner_text().split("\n")[1:]
        assert [line.rsplit(" ", 2 if "%" in line else 1)[0] for line in shown] == ["Entropy", "Distance"] + {
            "firstKey": ["First key"], "own": ["Own key"], "previous": ["Previous key"]}.get(name, [])
        # The arrows follow the order that is shown.
        page.page.locator(".head").first.click()
        page.page.locator("h1").click()  # away from the menu, which has arrows of its own
        page.page.keyboard.press("ArrowRight")
        page.frame()
        assert page.text("#head-name") == f"head {order[1]}"


def test_zoom_and_drag(visit, sentence):
    path, array = sentence
    page = visit(path, WIDE)
    whole = page.settled_picture()
    page.point(0.5, 0.5)
    page.page.mouse.wheel(0, -600)
    zoomed = page.settled_picture()
    assert zoomed != whole
    page.point(0.5, 0.5)
    before = said_pair(page.readout())
    page.page.mouse.down()
    page.point(0.65, 0.62)
    page.page.mouse.up()
    assert page.settled_picture() != zoomed
    page.point(0.5, 0.5)
    after = said_pair(page.readout())
    assert after[0] < before[0] and after[1] < before[1]  # what was left and above has come here
    assert after[2] == pytest.approx(float(array[0, after[0], after[1]]), rel=5e-3)
    assert "pinned" not in page.text("#selected-query")  # a drag is no click
    page.page.click("#zoom-fit")
    page.page.mouse.move(5, 5)
    assert page.settled_picture() == whole


def test_two_fingers_zoom(visit, sentence):
    page = visit(sentence[0], NARROW, touch=True)
    whole = page.settled_picture()
    page.page.locator("#matrix").scroll_into_view_if_needed()
    box = page.page.locator("#matrix").bounding_box()
    x, y = box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"]
    session = page.context.new_cdp_session(page.page)

    def touch(kind, *apart):
        points = [{"x": x + sign * d, "y": y, "id": i} for d in apart for i, sign in enumerate((-1, 1))]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 20)
    for apart in (30, 40, 60):
        touch("touchMove", apart)
    touch("touchEnd")
    assert page.settled_picture() != whole
    page.page.touchscreen.tap(x, y)
    page.frame()
    assert "pinned" in page.text("#selected-query")


def test_tokens_are_text_and_nothing_else(visit, make_page):
    count = len(HOSTILE)
    array = softmax(numpy.random.default_rng(5).normal(size=(2, count, count)))
    path = make_page(array, HOSTILE, "--title", "</title></script><script>window.__pwned=1</script>")
    page = visit(path, WIDE)
    assert page.text("#title") == "</title></script><script>window.__pwned=1</script>"
    # Nothing but what the page itself is made of.
    assert page.page.evaluate("document.querySelectorAll('script').length") == 2
    assert page.page.evaluate("document.querySelectorAll('img, iframe, object, link').length") == 0
    assert page.page.evaluate("document.querySelectorAll('style').length") == 1
    shown = page.page.locator(".link-row.key").all_inner_texts()
    assert shown[:3] == HOSTILE[:3]
    for query in range(count):
        readout = page.readout()
        assert readout[0].startswith(f"query {query} ")
        if query in (0, 1, 2, 3, 4, 5, 6, 8, 9, 10):
            assert f"“{HOSTILE[query]}”" in readout[0]
        page.page.keyboard.press("j")
    page.page.keyboard.press("Home")
    for query, said in [(14, "␣"), (15, "∅"), (16, "a" * 60 + "…")]:
        page.page.locator(".link-row.query").nth(query).click()
        page.page.mouse.move(5, 5)
        assert page.readout()[0] == f"query {query} “{said}”"
    assert page.page.locator("#readout-pair bdi").get_attribute("title") == "a" * 200 + "…"
    assert [page.page.locator(f".{kind}").nth(15).inner_text() for kind in ("link-row.key", "token")] == ["∅", "∅"]
    everything = page.page.evaluate("document.body.innerText")
    for hidden in "\u202e\u2066\u200f\x1b\x00\u2028":
        assert hidden not in everything
    # A token that reads from right to left turns nothing but itself.
    page.page.keyboard.press("Home")
    for _ in range(8):
        page.page.keyboard.press("j")
    page.frame()
    order = page.page.evaluate("""() => {
        const range = document.createRange();
        const pair = document.getElementById('readout-pair');
        return [...pair.childNodes].map(node => {
            range.selectNodeContents(node); return range.getBoundingClientRect().left; });
    }""")
    assert order == sorted(order)


def test_two_texts(visit, tmp_path, succeed):
    """Queries and keys that are different texts: queries are chosen, keys are coloured."""
    array = softmax(numpy.random.default_rng(9).normal(size=(1, 3, 5)))
    numpy.save(tmp_path / "w.npy", array)
    (tmp_path / "t.json").write_text(json.dumps({"query": ["le", "chat", "dort"],
                                                 "key": ["the", "black", "cat", "sleeps", "now"]}))
    succeed("view", tmp_path / "w.npy", "--tokens", tmp_path / "t.json", "--html", tmp_path / "p.html")
    page = visit(tmp_path / "p.html", WIDE)
    page.page.locator("#text-queries .token", has_text="dort").click()
    page.page.mouse.move(5, 5)
    best = array[0, 2].argmax()
    assert page.readout()[0] == "query 2 “dort”"
    assert f"key {best} " in page.readout()[1]
    page.page.locator("#text-keys .token", has_text="cat").click()
    page.page.mouse.move(5, 5)
    assert said_pair(page.readout())[:2] == (2, 2)


def test_a_part_of_the_rows_keeps_its_positions(visit, make_page):
    array = softmax(numpy.random.default_rng(10).normal(size=(1, 13, 13)))
    page = visit(make_page(array, WORDS, "--rows", "5:9"), WIDE)
    assert page.text("#sizes") == "1 head · 4 queries × 13 keys"
    assert page.readout()[0] == "query 5 “over”"
    page.page.keyboard.press("End")
    assert page.readout()[0] == "query 8 “dog”"
    page.page.keyboard.press("l")
    assert said_pair(page.readout())[:2] == (8, 8)


def test_few_queries_over_many_keys(visit, make_page):
    """Each query keeps its row, however many keys share a pixel."""
    array = numpy.zeros((1, 3, 4000), "float32")
    for query, key in enumerate((400, 3900, 2000)):
        array[0, query, key] = 1
    page = visit(make_page(array), WIDE)
    page.settled_picture()
    assert "each cell shows the largest of 1 × 8 weights" in page.text("#resolution")
    for query, key in enumerate((400, 3900, 2000)):
        page.page.keyboard.press("j" if query > 0 else "Home")
        assert page.readout() == (f"query {query}", f"attends most to key {key:,}: weight 1.00")
    # Besides the labels, dark pixels stand at the three weights alone, each in its own row.
    down, across = numpy.nonzero(page.colours()[40:, 80:].sum(-1) < 200)
    share = (across - across.min()) / numpy.ptp(across)
    first, last, middle = (down[numpy.abs(share - place) < 0.1] for place in (0, 1, 0.5))
    assert first.max() < last.min() and last.max() < middle.min()
    page.page.click("#tab-keys")
    page.frame()
    assert page.page.locator("#key-list li").all_inner_texts() == ["1.\nkey 2,000\n1.00"]


def test_a_row_that_attends_nothing(visit, make_page):
    array = softmax(numpy.zeros((1, 3, 3)))
    array[0, 1] = 0
    page = visit(make_page(array, ["a", "b", "c"]), WIDE)
    page.page.keyboard.press("j")
    assert page.readout() == ("query 1 “b”", "attends nothing: all its weights are 0")
    assert re.search(r"Empty rows\s*1", page.text("#statistics"))


def test_a_head_that_attends_nothing(visit, make_page):
    array = softmax(numpy.zeros((2, 3, 3)))
    array[0] = 0
    page = visit(make_page(array), WIDE)
    assert page.page.locator(".head").first.inner_text() == "head 0\nattends nothing"
    assert page.text("#statistics") == "attends nothing"
    page.page.keyboard.press("ArrowRight")
    page.frame()
    assert "attends nothing" not in page.text("#statistics")
