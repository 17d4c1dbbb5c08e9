"""Every script of examples/python runs as its reader would run it, and prints what it promises."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Callable

import pytest
from conftest import ROOT

EXAMPLES = sorted((ROOT / "examples/python").glob("*.py"))


def expect_same_layer(text: str) -> None:
    assert "read back from both files, the same bits: True" in text


def expect_keras_shapes(text: str) -> None:
    """The shapes of Keras's documentation, for both classes; numbers that agree."""
    for expected in ("symbol (None, 8, 16), output (2, 8, 16), scores (2, 2, 8, 4)",
                     "symbol (None, 5, 3, 4, 16), output (2, 5, 3, 4, 16), scores (2, 5, 2, 3, 4, 3, 4)",
                     "symbol (None, 8, 10), output (2, 8, 10), scores (2, 2, 8, 4)",
                     "symbol (None, 128, 512), output (32, 128, 512), scores (32, 8, 128, 128)"):
        assert text.count(expected) == 2, expected
    shapes = dict(re.findall(r"^  ((?:query|key|value|attention_output)/\w+) +(\(.*\))$", text, re.MULTILINE))
    assert shapes == {**{f"{name}/kernel": "(512, 8, 64)" for name in ("query", "key", "value")},
                      **{f"{name}/bias": "(8, 64)" for name in ("query", "key", "value")},
                      "attention_output/kernel": "(8, 64, 512)", "attention_output/bias": "(512,)"}
    differences = re.findall(r"output (\S+), scores (\S+)$", text.replace("largest difference: ", ""), re.MULTILINE)
    numbers = [float(number) for pair in differences for number in pair if "e" in number]
    assert len(numbers) == 8 and max(numbers) < 5e-6


def expect_d2l_lesson(text: str) -> None:
    assert "output  (2, 4, 100)" in text and "weights (2, 5, 4, 6)" in text
    assert text.count("rows sum to 1: True  exactly 0 beyond the length: True") == 2
    assert "changes a bit of the output: False" in text
    rows = [line.strip(" []").split() for line in text.splitlines() if line.lstrip(" ").startswith("[")]
    assert [row.count("0.") for row in rows] == [3] * 4 + [4] * 4


def expect_questions(text: str) -> None:
    asked = re.findall(r"^(.*)   (\w)\? (\d)$", text, re.MULTILINE)
    assert len(asked) == 3
    assert all(letter + digit in pairs.split() for pairs, letter, digit in asked)


def expect_learning(text: str) -> None:
    """Losses go down, as the framework's own do, to a task that is solved."""
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", text)]
    theirs = [float(loss) for loss in re.findall(r"\(\w+: (\S+)\)", text)]
    assert len(losses) >= 7 and losses == sorted(losses, reverse=True)
    assert losses[0] > 1.9 and losses[-1] < 0.05
    assert not theirs or losses == pytest.approx(theirs, abs=2e-3)
    assert float(re.search(r"new questions: (\S+)% right", text)[1]) > 99


def expect_sentences(text: str) -> None:
    assert float(re.search(r"^largest difference: (\S+)$", text, re.MULTILINE)[1]) < 5e-6
    rows = re.findall(r"^ +(-?\d\.\d\d) +(-?\d\.\d\d) +(-?\d\.\d\d) +(-?\d\.\d\d)  ", text, re.MULTILINE)
    alike = [[float(value) for value in row] for row in rows]
    assert [max(range(4), key=lambda j, i=i: alike[i][j] if i != j else -1) for i in range(4)] == [1, 0, 3, 2]
    assert re.search(r"^  headwise +True, largest difference 0.0e\+00$", text, re.MULTILINE)
    assert re.search(r"^  transformers +(True|False)", text, re.MULTILINE)  # by the machine


def expect_same_bits(text: str) -> None:
    ours, theirs = text.split("the framework's own")
    rows = re.findall(r"^  (.+?) +([12]) +([0-9a-f]+) +([0-9a-f]+) +([0-9a-f]+) +([0-9a-f]+)$", ours, re.MULTILINE)
    assert [(name, threads) for name, threads, *_ in rows] == [
        (name, threads) for name in ("numpy", "torch", "JAX (Flax)", "Keras") for threads in "12"]
    assert len({checksum for _, _, *checksums in rows for checksum in checksums}) == 1
    assert "32 calls, different results: 1\n" in ours
    rows = [re.findall(r"\b[0-9a-f]{8}\b", line) for line in theirs.splitlines()]
    assert sum(map(len, rows)) == 24  # whether they differ is the machine's business


CHECKS: dict[str, Callable[[str], None]] = {
    "plan_and_save": expect_same_layer, "keras_examples": expect_keras_shapes, "d2l_lesson": expect_d2l_lesson,
    "recall": expect_questions, "train_numpy": expect_learning, "train_torch": expect_learning,
    "train_jax": expect_learning, "train_keras": expect_learning, "sentences": expect_sentences,
    "same_bits": expect_same_bits,
}


def run(example: pathlib.Path, folder: pathlib.Path, **environment: str) -> str:
    """Checked; → its last line."""
    done = subprocess.run([sys.executable, example], cwd=folder, capture_output=True, text=True, check=False,
                          timeout=300, env=os.environ | environment)
    assert done.returncode == 0, done.stdout + done.stderr
    CHECKS[example.stem](done.stdout)
    return done.stdout.rstrip().splitlines()[-1].strip()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path, report):
    report(f"{example.name}: {run(example, tmp_path)}")


# Without being told, one of them takes torch and the other JAX.
@pytest.mark.parametrize("stem", ["keras_examples", "train_keras"])
def test_example_on_another_backend(stem, tmp_path, report):
    last = run(ROOT / f"examples/python/{stem}.py", tmp_path, KERAS_BACKEND="tensorflow")
    report(f"{stem}.py on TensorFlow: {last}")
