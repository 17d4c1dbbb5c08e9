"""Text from files on a terminal: nothing that a file holds commands it."""

from __future__ import annotations

import json
import re
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

NAME = "evil\033[31m\nlayer\x9b2J\x7f"  # \x9b is a control character of two bytes in UTF-8
FORBIDDEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def weights(tmp_path):
    """A BERT layer of 8 features whose name holds what terminals obey."""
    arrays = {}
    for part in ("self.query", "self.key", "self.value", "output.dense"):
        arrays[f"{NAME}.{part}.weight"] = np.eye(8, dtype="float32")
        arrays[f"{NAME}.{part}.bias"] = np.zeros(8, "float32")
    save_file(arrays, tmp_path / "evil.safetensors")
    return tmp_path / "evil.safetensors"


@pytest.fixture
def model(weights, succeed, tmp_path):
    """A .keras file of that layer with a window, of which a note speaks by the layer's name."""
    plain = tmp_path / "plain.keras"
    succeed("convert", weights, plain, "--to", "keras", "--heads", 2)
    path = tmp_path / "evil.keras"
    with zipfile.ZipFile(plain) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            content = old.read(entry)
            if entry == "config.json":
                document = json.loads(content)
                layer = document["config"]["layers"][-1]
                layer["config"] |= {"name": NAME, "sliding_window": 3}
                content = json.dumps(document)
            new.writestr(entry, content)
    return path


def check(outcome, code=0):
    assert outcome.code == code, outcome.err
    for text in (outcome.out, outcome.err):
        assert not FORBIDDEN.search(text), FORBIDDEN.search(text)
    return outcome.out + outcome.err


def test_run(run, weights, model):
    assert "evil?[31m?layer?2J?" in check(run("run", "--weights", weights, "--heads", 2, "--shape", "1,2"))
    text = check(run("run", "--weights", model, "--shape", "1,2"))
    assert "has sliding_window 3" in text and text.count("evil?[31m?layer?2J?") == 2


def test_convert(run, weights, model, tmp_path):
    text = check(run("convert", weights, tmp_path / "a.safetensors", "--to", "torch", "--heads", 2))
    assert "evil?[31m?layer?2J?" in text
    text = check(run("convert", weights, tmp_path / "b.safetensors", "--to", "headwise", "--heads", 2,
                     "--key-dim", 2))
    assert "evil?[31m?layer?2J?: the output changes by" in text
    assert "has sliding_window 3" in check(run("convert", model, tmp_path / "c.keras", "--to", "keras"))


def test_view(run, weights, model, tmp_path):
    assert "evil" in check(run("view", "--weights", weights, "--heads", 2, "--shape", "1,3"))
    outcome = run("view", "--weights", model, "--shape", "1,3", "--png", tmp_path / "x.png")
    assert "note: layer 'evil?[31m?layer?2J?' has sliding_window 3" in check(outcome)


def test_inspect(run, weights, model):
    assert "evil?[31m?layer?2J?" in check(run("inspect", weights, "--heads", 2))
    assert "evil?[31m?layer?2J?" in check(run("inspect", weights, "--heads", 2, "--tensors"))
    assert "has sliding_window 3" in check(run("inspect", model))


def test_plan(run, succeed, weights, tmp_path):
    check(run("plan", "--weights", weights, "--shape", "1,4"), 1)  # the heads are missing
    machine = json.loads(succeed("plan", "--shape", "1,4,8", "--heads", 2, "--json"))
    machine["machine"]["cpu"] = NAME
    (tmp_path / "machine.json").write_text(json.dumps(machine))
    text = check(run("plan", "--shape", "1,4,8", "--heads", 2, "--machine", tmp_path / "machine.json"))
    assert "evil?[31m?layer?2J?" in text


def test_errors(run, weights):
    check(run("run", "--weights", weights, "--shape", "1,2"), 1)
    check(run("run", "--weights", weights, "--heads", 2, "--layer", "\033[2J", "--shape", "1,2"), 2)
