"""A real trained model from end to end: MiniLM, six BERT layers of 12 heads, on a real sentence."""

from __future__ import annotations

import json
import pathlib
import re
import shlex

import numpy
import pytest
import torch
import transformers
from safetensors.numpy import load_file

SENTENCE = "The animal did not cross the street because it was too tired."


class RealModel:
    """The model by Transformers, and what its layers see of the sentence."""

    def __init__(self, folder: pathlib.Path):
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager")
        self.model.eval()
        ids = tokenizer(SENTENCE, return_tensors="pt")
        self.tokens = tokenizer.convert_ids_to_tokens(ids["input_ids"][0])
        with torch.no_grad():
            seen = self.model(**ids, output_attentions=True, output_hidden_states=True)
        self.inputs = [state.numpy() for state in seen.hidden_states]  # of layer 0, 1, …
        self.attentions = [weights.numpy() for weights in seen.attentions]

    def attend(self, layer: int, hidden: numpy.ndarray) -> numpy.ndarray:
        """Self-attention and its output projection by PyTorch, in float64, without the residual."""
        attention = self.model.encoder.layer[layer].attention.double()
        with torch.no_grad():
            heads = attention.self(torch.from_numpy(hidden).double())[0]
            return attention.output.dense(heads).numpy()


@pytest.fixture(scope="module")
def real(minilm) -> RealModel:
    return RealModel(minilm)


@pytest.mark.parametrize("layer", [0, 3])
def test_run_equals_pytorch(succeed, minilm, real, tmp_path, layer):
    hidden = real.inputs[layer]
    numpy.save(tmp_path / "x.npy", hidden)
    succeed("run", "--weights", minilm, "--layer", f"encoder.layer.{layer}.attention",
            "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy",
            "--attention-weights", tmp_path / "w.npy")
    output, weights = numpy.load(tmp_path / "y.npy"), numpy.load(tmp_path / "w.npy")
    wanted = real.attend(layer, hidden)
    assert output.shape == wanted.shape == (1, len(real.tokens), 384)
    difference = numpy.abs(output - wanted).max()
    print(f"layer {layer}: output up to {numpy.abs(wanted).max():.3f}, "
          f"largest difference from PyTorch in float64 {difference:.1e}")
    assert difference <= 5e-6 * numpy.abs(wanted).max()
    # Transformers' own weights are float32 too: both are within some roundings of the truth.
    assert numpy.abs(weights - real.attentions[layer]).max() <= 5e-6


def test_convert_to_keras_and_back_bit_for_bit(succeed, minilm, tmp_path):
    original = load_file(minilm / "model.safetensors")
    succeed("convert", minilm, tmp_path / "all.weights.h5", "--to", "keras")
    succeed("convert", tmp_path / "all.weights.h5", tmp_path / "back.safetensors", "--to", "bert")
    back = load_file(tmp_path / "back.safetensors")
    attention = {name: tensor for name, tensor in original.items()
                 if ".attention.self." in name or ".attention.output.dense." in name}
    assert len(attention) == 6 * 8
    for name, tensor in attention.items():
        assert back[name].dtype == tensor.dtype and back[name].tobytes() == tensor.tobytes(), name


def test_view_of_a_real_sentence(succeed, minilm, real, tmp_path):
    numpy.save(tmp_path / "x.npy", real.inputs[3])
    (tmp_path / "tokens.json").write_text(json.dumps(real.tokens))
    succeed("view", "--weights", minilm, "--layer", "3", "--input", tmp_path / "x.npy",
            "--tokens", tmp_path / "tokens.json", "--png", tmp_path / "heads.png",
            "--html", tmp_path / "heads.html")
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "heads.html").read_text(encoding="utf-8")
    assert all(f'"{token}"' in page for token in real.tokens)
    # Head 1 looks from "it" to "animal".
    text = succeed("view", "--weights", minilm, "--layer", "3", "--input", tmp_path / "x.npy",
                   "--tokens", tmp_path / "tokens.json", "--show-heads", "1")
    row = next(line.split() for line in text.splitlines() if line.split()[1:2] == ["it"])
    percents = [0.0 if cell == "·" else float(cell) for cell in row[2:]]
    wanted = 100 * real.attentions[3][0, 1, real.tokens.index("it")]
    assert numpy.argmax(percents) == real.tokens.index("animal")
    assert numpy.abs(numpy.array(percents) - wanted).max() <= 0.51


ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def test_the_recipe_for_a_sentence(succeed, minilm, real, tmp_path, monkeypatch):
    """docs/sentence.md as it stands, block by block."""
    (tmp_path / "model").symlink_to(minilm)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    text = (ROOT / "docs/sentence.md").read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(block, names)
            continue
        for command in block.splitlines():
            succeed(*shlex.split(command)[1:], cwd=tmp_path)
    assert json.loads((tmp_path / "tokens.json").read_text()) == real.tokens
    assert numpy.abs(numpy.load("x.npy") - real.inputs[3]).max() <= 5e-6
    wanted = real.attend(3, real.inputs[3])
    assert numpy.abs(numpy.load("y.npy") - wanted).max() <= 1e-5 * numpy.abs(wanted).max()
    assert numpy.abs(numpy.load("w.npy") - real.attentions[3]).max() <= 5e-6
    assert (tmp_path / "heads.html").exists() and (tmp_path / "heads.png").exists()


def test_the_command_of_the_readmes_pictures(succeed, tmp_path):
    command, = (line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
                if line.startswith("headwise view examples/"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    succeed(*shlex.split(command)[1:], cwd=tmp_path)
    assert (tmp_path / "page.html").exists() and (tmp_path / "heads.png").exists()
