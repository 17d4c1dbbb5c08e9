"""headwise view: what it takes, what it writes, what it refuses. Pictures themselves are tested in
tests/view, the page in test_view_page.py."""

from __future__ import annotations

import fcntl
import hashlib
import base64
import functools
import json
import os
import pty
import re
import struct
import subprocess
import termios

import numpy
import pytest
import safetensors.numpy

TOKENS = ["the", "cat", "sat", "on", "it"]


def softmax(scores):
    powers = numpy.exp(scores - scores.max(-1, keepdims=True))
    return (powers / powers.sum(-1, keepdims=True)).astype("float32")


@pytest.fixture
def weights(tmp_path):
    """(2, 3, 5, 5): two sequences of three heads."""
    array = softmax(numpy.random.default_rng(1).normal(size=(2, 3, 5, 5)))
    numpy.save(tmp_path / "w.npy", array)
    return tmp_path / "w.npy", array


def percent_rows(text):
    """The numbers of every row of a plain picture."""
    rows = []
    for line in text.splitlines():
        match = re.match(r"^ *\d+ (?:\S+ +)?((?: *(?:\d+|·))+)$", line)
        if match and not line.startswith("    "):
            rows.append([0 if cell == "·" else int(cell) for cell in match[1].split()])
    return rows


def test_plain_picture_holds_the_numbers(succeed, weights):
    path, array = weights
    for sequence in (0, 1):
        text = succeed("view", path, "--sequence", sequence)
        assert text.startswith(f"w.npy, sequence {sequence} of 2: 3 heads, 5 queries × 5 keys\n")
        wanted = numpy.floor(100 * array[sequence].reshape(15, 5) + 0.5).astype(int)
        assert percent_rows(text) == wanted.tolist()


def test_heads_rows_and_title(succeed, weights):
    path, array = weights
    text = succeed("view", path, "--show-heads", "2,0", "--rows", "1:3", "--title", "Mine")
    assert text.startswith("Mine: 2 heads, 2 queries × 5 keys\n")
    assert re.findall(r"^head \d", text, re.M) == ["head 2", "head 0"]
    wanted = numpy.floor(100 * array[0][[2, 0], 1:3].reshape(4, 5) + 0.5).astype(int)
    assert percent_rows(text) == wanted.tolist()


@pytest.mark.parametrize("name,content", [
    ("t.txt", "the\ncat\nsat\non\nit\n"),
    ("t.txt", "the\r\ncat\r\nsat\r\non\r\nit"),
    ("t.txt", "the cat  sat on it\n"),
    ("t.txt", "\ufeffthe cat sat on it"),
    ("t.json", json.dumps(TOKENS)),
    ("t.json", json.dumps({"tokens": TOKENS})),
    ("t.json", json.dumps({"query": TOKENS})),
    ("t.json", json.dumps({"query": TOKENS, "key": TOKENS})),
])
def test_tokens_of_every_kind(succeed, weights, tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    text = succeed("view", weights[0], "--tokens", tmp_path / name)
    assert re.search(r"^ +the +cat +sat +on +it$", text, re.M)
    assert re.findall(r"^\d (\w+)", text, re.M)[:5] == TOKENS


def test_tokens_may_hold_brackets_and_blanks(succeed, weights, tmp_path):
    (tmp_path / "t.txt").write_text("[CLS]\n two words\n\n{}\n[SEP]\n")
    text = succeed("view", weights[0], "--tokens", tmp_path / "t.txt", "--show-heads", 0)
    for row in ("0 [CLS] ", "1  two words ", "3 {} ", "4 [SEP] "):
        assert f"\n{row}" in text


def test_token_ids_do(succeed, weights, tmp_path):
    (tmp_path / "t.json").write_text("[101, 7592, 2088, 999, 102]")
    assert "\n1 7592 " in succeed("view", weights[0], "--tokens", tmp_path / "t.json")


def test_other_keys(succeed, tmp_path):
    numpy.save(tmp_path / "w.npy", softmax(numpy.zeros((1, 2, 3))))
    (tmp_path / "q.txt").write_text("le chat")
    (tmp_path / "k.txt").write_text("the black cat")
    text = succeed("view", tmp_path / "w.npy", "--tokens", tmp_path / "q.txt",
                   "--key-tokens", tmp_path / "k.txt")
    assert re.search(r"^ +the black +cat\n0 le +33 +33 +33\n1 chat ", text, re.M)


def test_tokens_of_all_keys_name_the_last_queries(succeed, fails, tmp_path):
    numpy.save(tmp_path / "w.npy", softmax(numpy.zeros((1, 2, 5))))
    (tmp_path / "t.txt").write_text("the cat sat on it")
    call = ("view", tmp_path / "w.npy", "--tokens", tmp_path / "t.txt")
    text = succeed(*call, "--query-offset", 3)
    assert "\n3 on " in text and "\n4 it " in text
    # Offset 0 is what nobody has to say: the queries are the first tokens.
    assert "\n0 the " in succeed(*call)
    assert "5 tokens, but the weights have 2 queries" in fails(1, *call, "--query-offset", 4)


@pytest.mark.parametrize("name,content,mentions", [
    ("t.txt", "a b c", "3 tokens, but the weights have 5 queries"),
    ("t.txt", "", "0 tokens, but the weights have 5 queries"),
    ("t.json", "[1, 2", "not JSON: wrong at byte"),
    ("t.json", '{"words": []}', "expected an array of strings"),
    ("t.json", '["a", ["b"]]', "token 1: expected a string, got array"),
    ("t.json", '{"tokens": "a b"}', "expected an array of tokens"),
    ("t.json", '{"query": ["a","b","c","d","e"], "key": ["a"]}', "1 token, but the weights have 5 keys"),
    ("t.JSON", "[1, 2", "not JSON: wrong at byte"),
    ("t.json", "[" * 100000, "not JSON"),
    ("t.json", '["\xff"]', "not JSON"),
])
def test_wrong_tokens(fails, weights, tmp_path, name, content, mentions):
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    line = fails(1, "view", weights[0], "--tokens", tmp_path / name)
    assert mentions in line and name in line


def test_a_hundred_thousand_tokens(succeed, fails, weights, tmp_path):
    (tmp_path / "t.txt").write_text("\n".join(f"token{i}" for i in range(100_000)))
    assert "100000 tokens, but the weights have 5 queries" in fails(
        1, "view", weights[0], "--tokens", tmp_path / "t.txt")
    numpy.save(tmp_path / "w.npy", softmax(numpy.random.default_rng(0).normal(size=(1, 1, 100_000))))
    (tmp_path / "q.txt").write_text("now")
    out = tmp_path / "p.html"
    succeed("view", tmp_path / "w.npy", "--tokens", tmp_path / "q.txt",
            "--key-tokens", tmp_path / "t.txt", "--html", out, "--png", tmp_path / "p.png")
    assert out.stat().st_size < 10_000_000
    succeed("view", tmp_path / "w.npy", "--tokens", tmp_path / "q.txt",
            "--key-tokens", tmp_path / "t.txt")


@pytest.mark.parametrize("array,mentions", [
    (numpy.random.default_rng(0).normal(size=(2, 4, 4)), "scores before the softmax?"),
    (numpy.full((2, 4, 4), numpy.nan), "got nan at head 0, query 0, key 0"),
    (numpy.zeros((4,)), "expected shape (T, S), (H, T, S) or (B, H, T, S), got (4,)"),
    (numpy.zeros((1, 1, 1, 4, 4)), "got (1, 1, 1, 4, 4)"),
    (numpy.zeros((2, 0, 4)), "at least one head, query and key"),
    (numpy.zeros((0, 2, 3, 3)), "expected at least one sequence, got (0, 2, 3, 3)"),
])
def test_what_are_not_weights(fails, tmp_path, array, mentions):
    numpy.save(tmp_path / "w.npy", array.astype("float32"))
    for options in ((), ("--png", tmp_path / "o.png"), ("--html", tmp_path / "o.html")):
        line = fails(1, "view", tmp_path / "w.npy", *options)
        assert mentions in line and "w.npy" in line
    assert not (tmp_path / "o.png").exists() and not (tmp_path / "o.html").exists()


def test_rows_beyond_one_are_drawn_with_a_warning(run, tmp_path):
    numpy.save(tmp_path / "w.npy", numpy.full((1, 2, 3), 0.5, "float32"))
    outcome = run("view", tmp_path / "w.npy")
    assert outcome.code == 0 and "50  50  50" in outcome.out
    assert re.fullmatch(r"headwise: warning: .*w\.npy: a row of head 0 sums to 1\.50, not to 1: .*\n",
                        outcome.err)


@pytest.mark.parametrize(("weight", "sum"), [(0.2, "0.60"), (1e-4, "less than 0.01")])
def test_rows_far_below_one_are_drawn_with_a_warning(run, tmp_path, weight, sum):
    array = numpy.full((1, 3, 3), 1 / 3, "float32")
    array[0, 1] = 0  # a row that attends nothing is none of them
    numpy.save(tmp_path / "w.npy", array)
    assert run("view", tmp_path / "w.npy").err == ""
    array[0, 2] = weight
    numpy.save(tmp_path / "w.npy", array)
    outcome = run("view", tmp_path / "w.npy")
    assert outcome.code == 0 and outcome.err.count("\n") == 1
    assert f"w.npy: a row of head 0 sums to {sum}, not to 1: " in outcome.err


def test_a_head_that_attends_nothing(succeed, tmp_path):
    numpy.save(tmp_path / "w.npy", numpy.zeros((2, 3, 3), "float32"))
    assert re.findall(r"^head \d  (.*)$", succeed("view", tmp_path / "w.npy"), re.M) == ["attends nothing"] * 2
    masked = succeed("view", "--shape", "2,10,64", "--heads", 4, "--valid-lens", "3,0", "--sequence", 1)
    assert masked.count("attends nothing") == 4 and "entropy" not in masked


def test_an_empty_token_shows(succeed, weights, tmp_path):
    (tmp_path / "t.json").write_text(json.dumps(["the", "", "sat", " ", "it"]))
    text = succeed("view", weights[0], "--tokens", tmp_path / "t.json", "--show-heads", 0)
    assert re.search(r"^ +the +∅ +sat +␣ +it$", text, re.M)
    assert "\n1 ∅ " in text and "\n3 ␣ " in text


@pytest.mark.parametrize("arguments,mentions", [
    (["--show-heads", "3"], "--show-heads: expected indices within 0 … 2, got 3"),
    (["--show-heads", "a"], "--show-heads: expected whole numbers"),
    (["--rows", "2:9"], "--rows: expected a range within 0 … 5, got 2 … 9"),
    (["--rows", "1:1"], "--rows: expected a range within 0 … 5, got 1 … 1, which is none"),
    (["--rows", "5:"], "--rows: expected a range within 0 … 5, got 5 … 5, which is none"),
    (["--rows", "3"], "--rows: expected FIRST:END"),
    (["--rows", "-1:2"], "--rows: expected FIRST:END"),
    (["--sequence", "2"], "--sequence: expected an index within 0 … 1, got 2"),
    (["--theme", "blue"], "--theme: expected light or dark"),
    (["--scale", "cubic"], "--scale: expected linear, sqrt or log"),
    (["--width", "-5"], "--width: expected a whole number, 1 … 32767"),
    (["--width", "5"], "--width: expected at least 20 columns"),
    (["--png", "-", "--html", "-"], "--png and --html: expected two places"),
    (["--png", "x.png", "--width", "50"], "--width and --height: expected at least"),
    (["--png", "x.png", "--width", "300", "--height", "300"], "pixels for 3 heads, got 300 × 300"),
    (["--key-tokens", "x.txt"], "--key-tokens: needs --tokens"),
    (["--heads", "8"], "leave out the options of a run"),
])
def test_bad_use(fails, weights, tmp_path, arguments, mentions):
    assert mentions in fails(2, "view", weights[0], *arguments, cwd=tmp_path)


def test_files_that_cannot_be_read(fails, weights, tmp_path):
    assert "what to show is missing" in fails(2, "view")
    fails(1, "view", tmp_path / "none.npy")
    fails(1, "view", tmp_path)
    assert "is a folder" in fails(1, "view", weights[0], "--tokens", tmp_path)
    fails(1, "view", weights[0], "--tokens", tmp_path / "none.txt")
    fails(1, "view", weights[0], "--png", tmp_path / "none" / "x.png")


def test_arrays_of_an_npz(succeed, fails, weights, tmp_path):
    array = weights[1][0]
    numpy.savez(tmp_path / "w.npz", one=array, two=array[::-1])
    wanted = numpy.floor(100 * array[::-1].reshape(15, 5) + 0.5).astype(int).tolist()
    assert percent_rows(succeed("view", tmp_path / "w.npz", "--array", "two")) == wanted
    assert percent_rows(succeed("view", f"{tmp_path / 'w.npz'}:two")) == wanted
    assert "one, two" in fails(1, "view", tmp_path / "w.npz")
    assert "no array 'three'; there are one and two" in fails(
        1, "view", tmp_path / "w.npz", "--array", "three")


def test_standard_input(succeed, weights):
    path, array = weights
    text = succeed("view", "-", input=path.read_bytes())
    assert text.startswith("standard input, sequence 0 of 2: 3 heads")
    assert len(percent_rows(text)) == 15


def test_pictures_to_files_and_standard_output(succeed, run, weights, tmp_path):
    path, _ = weights
    said = succeed("view", path, "--png", tmp_path / "o.png", "--html", tmp_path / "o.html")
    assert re.fullmatch(r".*o\.png: [\d.]+ KB\n.*o\.html: [\d.]+ KB\n", said)
    png = (tmp_path / "o.png").read_bytes()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert run("view", path, "--png", "-").bytes == png  # and no word beside it
    assert run("view", path, "--html", "-").bytes == (tmp_path / "o.html").read_bytes()
    width, height = struct.unpack(">II", run("view", path, "--png", "-", "--width", 900,
                                             "--height", 700).bytes[16:24])
    assert (width, height) == (900, 700)


def test_the_policy_names_script_and_style(succeed, weights):
    """By hashlib, of what a browser takes for their content."""
    page = succeed("view", weights[0], "--html", "-")
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)[1]
    for kind, content in (("script", re.search(r"<script>(.*?)</script>", page, re.S)[1]),
                          ("style", re.search(r"<style>(.*?)</style>", page, re.S)[1])):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def on_terminal(tool, *arguments, columns=80, lines=24, **environment):
    """What the program writes to a terminal of that size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    cleared = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "COLORTERM", "TERM")}
    process = subprocess.Popen([tool, *map(str, arguments)], stdout=theirs, stdin=theirs,
                               env={**cleared, "TERM": "xterm-256color", **environment})
    os.close(theirs)
    output = b""
    try:
        while chunk := os.read(ours, 65536):
            output += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait(timeout=60) == 0
    return output.decode("utf-8").replace("\r\n", "\n")


def test_colours_on_a_terminal(tool, weights):
    path, _ = weights
    rich = on_terminal(tool, "view", path, COLORTERM="truecolor")
    assert "\x1b[38;2;" in rich and "▀" in rich
    assert all(len(re.sub(r"\x1b\[[\d;]*m", "", line)) <= 80 for line in rich.splitlines())
    assert len(rich.splitlines()) <= 24
    plain_palette = on_terminal(tool, "view", path)
    assert "\x1b[38;5;" in plain_palette and ";2;" not in plain_palette
    for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        plain = on_terminal(tool, "view", path, **environment)
        assert "\x1b" not in plain and len(percent_rows(plain)) == 15


@pytest.mark.parametrize(("heads", "columns", "lines"), [(32, 80, 24), (144, 80, 24), (32, 120, 30), (3, 80, 16)])
def test_all_of_it_fits_the_window(tool, tmp_path, heads, columns, lines):
    numpy.save(tmp_path / "w.npy", softmax(numpy.random.default_rng(2).normal(size=(heads, 15, 15))))
    (tmp_path / "t.txt").write_text(" ".join(f"word{i}" for i in range(15)))
    text = re.sub(r"\x1b\[[\d;]*m", "", on_terminal(
        tool, "view", tmp_path / "w.npy", "--tokens", tmp_path / "t.txt", columns=columns, lines=lines))
    assert text.count("\n") < lines  # the prompt has one as well
    named = {int(name) for name in re.findall(r"\bh(?:ead )?(\d+)\b", text)}
    left_out = re.search(r"head 0 … head (\d+) of (\d+) heads; --show-heads for others\n", text)
    assert (left_out is not None) == (heads == 144)
    assert named == set(range(heads if left_out is None else int(left_out[1]) + 1))


def test_a_window_too_narrow_is_no_mistake(tool, weights):
    text = on_terminal(tool, "view", weights[0], columns=15)
    assert "head 0" in text and "--width" not in text


def test_weights_of_a_run(succeed, tmp_path):
    """The same as `run --attention-weights` of the same call."""
    call = ("--shape", "2,6,32", "--heads", 4, "--seed", 3, "--causal")
    succeed("run", *call, "--attention-weights", tmp_path / "w.npy")
    array = numpy.load(tmp_path / "w.npy")
    whole = succeed("view", *call, "--sequence", 1)
    assert "4 heads, 6 queries × 6 keys" in whole
    shown = array[1].reshape(24, 6)
    expected = [[int(numpy.floor(100 * w + 0.5)) for w in row if w > 0] for row in shown]
    assert percent_rows(whole) == expected
    (tmp_path / "t.txt").write_text("a b c d e f")
    part = succeed("view", *call, "--sequence", 1, "--show-heads", "3,1", "--rows", "4:6",
                   "--tokens", tmp_path / "t.txt")
    assert re.findall(r"^head \d", part, re.M) == ["head 3", "head 1"]
    assert "\n4 e " in part and "\n5 f " in part
    assert percent_rows(part) == [expected[3 * 6 + 4], expected[3 * 6 + 5], expected[6 + 4], expected[6 + 5]]
    # Distances are counted from the rows' own positions.
    distance = (array[1, 3, 4:6] * numpy.abs(numpy.arange(4, 6)[:, None] - numpy.arange(6))).sum(-1).mean()
    assert f"distance {distance:.1f} " in part


def test_rows_of_a_run_that_are_not_there(fails):
    assert "--rows: expected a range within 0:6, got 4:9" in fails(
        2, "view", "--shape", "1,6,32", "--heads", 4, "--rows", "4:9")


def test_the_title_of_a_layer_names_no_folders(succeed, tmp_path):
    folder = tmp_path / "some" / "model"
    folder.mkdir(parents=True)
    zeros = functools.partial(numpy.zeros, dtype="float32")
    safetensors.numpy.save_file({"attention.in_proj_weight": zeros((48, 16)), "attention.in_proj_bias": zeros(48),
                                 "attention.out_proj.weight": zeros((16, 16)),
                                 "attention.out_proj.bias": zeros(16)}, folder / "model.safetensors")
    for path, name in [(folder / "model.safetensors", "model.safetensors"), (folder, "model"),
                       (f"{folder}/", "model"), (f"{folder}/.", "model")]:
        text = succeed("view", "--weights", path, "--heads", 2, "--shape", "1,3,16")
        assert text.startswith(f"layer 'attention' (torch) of {name}: 2 heads")
