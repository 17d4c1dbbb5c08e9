"""headwise inspect, against numpy's float64 SVD of the full products."""

from __future__ import annotations

import json
import os
import pathlib
import re
import struct

# Before numpy is there: its threads wait for each other by spinning, which takes minutes instead of
# seconds on a machine that does something else as well.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy
import pytest
import safetensors.numpy
import safetensors.torch
import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FEATURES, HEADS, SIZE = 24, 4, 6
WIDTH = HEADS * SIZE


# ---- what numpy says ----------------------------------------------------------------------------


def products(query, key, value, output, heads, kv_heads):
    """W_q·W_kᵀ and W_v·W_o of every head, in float64, of (in, out) matrices over all heads."""
    query, key, value, output = (x.astype(numpy.float64) for x in (query, key, value, output))
    dk, dv = query.shape[1] // heads, value.shape[1] // kv_heads
    scores, values = [], []
    for head in range(heads):
        own = head * kv_heads // heads
        q, k = query[:, head * dk : (head + 1) * dk], key[:, own * dk : (own + 1) * dk]
        v, o = value[:, own * dv : (own + 1) * dv], output[head * dv : (head + 1) * dv]
        scores.append(q @ k.T)
        values.append(v @ o)
    return scores, values


def expect_spectrum(found, product, inner):
    sigma = numpy.linalg.svd(product, compute_uv=False)[: min(inner, *product.shape)]
    numpy.testing.assert_allclose(found["singular_values"], sigma, rtol=0, atol=1e-12 * sigma[0])
    share = sigma / sigma.sum()
    share = share[share > 0]
    expected = {
        "frobenius_norm": numpy.linalg.norm(product),
        "spectral_norm": sigma[0],
        "condition": sigma[0] / sigma[-1],
        "effective_rank": numpy.exp(-(share * numpy.log(share)).sum()),
        "stable_rank": (sigma**2).sum() / sigma[0] ** 2,
    }
    for name, figure in expected.items():
        assert found[name] == pytest.approx(figure, rel=1e-9), name
    assert found["rank"] == (sigma > max(product.shape) * 2**-24 * sigma[0]).sum()
    energy = numpy.cumsum(sigma**2) / (sigma**2).sum()
    for name, kept in (("90%", 0.9), ("99%", 0.99), ("99.9%", 0.999)):
        assert found["dims"][name] == int((energy < kept).sum()) + 1, name


def expect_similarity(found, matrices):
    unit = numpy.array([matrix.ravel() / numpy.linalg.norm(matrix) for matrix in matrices])
    numpy.testing.assert_allclose(found, unit @ unit.T, rtol=0, atol=2e-6)


def expect_layer(layer, weights, heads, kv_heads):
    """weights: query, key, value, output as (in, out) matrices."""
    scores, values = products(*weights, heads, kv_heads)
    assert [head["head"] for head in layer["heads"]] == list(range(heads))
    for head, score, value in zip(layer["heads"], scores, values, strict=True):
        expect_spectrum(head["scores"], score, weights[0].shape[1] // heads)
        expect_spectrum(head["values"], value, weights[2].shape[1] // kv_heads)
    expect_similarity(layer["score_similarity"], scores)
    expect_similarity(layer["value_similarity"], values)
    median = numpy.median([numpy.linalg.norm(value) for value in values])
    assert layer["median_value_norm"] == pytest.approx(median, rel=1e-9)


# ---- files --------------------------------------------------------------------------------------


def bert_layer(seed, prefix="encoder.layer.0.attention", bias=True):
    """Tensors of one layer under Hugging Face's names, (out, in)."""
    random = numpy.random.default_rng(seed)
    names = ["self.query", "self.key", "self.value", "output.dense"]
    tensors = {
        f"{prefix}.{name}.weight": random.normal(0, 0.3, (WIDTH, FEATURES)).astype(numpy.float32)
        for name in names
    }
    if bias:
        for name in names:
            tensors[f"{prefix}.{name}.bias"] = random.normal(0, 0.3, WIDTH).astype(numpy.float32)
    return tensors


def bert_weights(tensors, prefix="encoder.layer.0.attention"):
    names = ["self.query", "self.key", "self.value", "output.dense"]
    return [tensors[f"{prefix}.{name}.weight"].T for name in names]


def head_rows(head):
    return slice(head * SIZE, (head + 1) * SIZE)


@pytest.fixture
def inspect(succeed):
    def call(path, *arguments):
        return json.loads(succeed("inspect", path, "--json", *arguments))

    return call


# ---- a real model -------------------------------------------------------------------------------


def test_all_heads_of_a_real_model(inspect, minilm):
    report = inspect(minilm / "model.safetensors")
    assert report["format"] == "safetensors"
    assert report["tensor_count"] == 104
    assert len(report["layers"]) == 6
    tensors = safetensors.numpy.load_file(minilm / "model.safetensors")
    for index, layer in enumerate(report["layers"]):
        prefix = f"encoder.layer.{index}.attention"
        assert (layer["name"], layer["layout"]) == (prefix, "bert")
        assert layer["config"]["num_heads"] == 12 and layer["config"]["key_dim"] == 32
        weights = bert_weights(tensors, prefix)
        expect_layer(layer, weights, 12, 12)
        bias = tensors[f"{prefix}.self.query.bias"].astype(numpy.float64)
        value_bias = tensors[f"{prefix}.self.value.bias"].astype(numpy.float64)
        for h, head in enumerate(layer["heads"]):
            own = slice(32 * h, 32 * h + 32)
            parts = [weights[0][:, own], weights[1][:, own], weights[2][:, own], weights[3][own]]
            parts = [part.astype(numpy.float64) for part in parts]
            norms = [numpy.linalg.norm(part) for part in parts]
            assert list(head["norms"].values()) == pytest.approx(norms, rel=1e-9)
            preference = numpy.linalg.norm(bias[own] @ parts[1].T)
            assert head["key_preference"] == pytest.approx(preference, rel=1e-9)
            constant = numpy.linalg.norm(value_bias[own] @ parts[3])
            assert head["constant_output"] == pytest.approx(constant, rel=1e-9)
            spread = numpy.hypot(numpy.linalg.norm(parts[0] @ parts[1].T), preference) / 32**0.5
            assert head["score_spread"] == pytest.approx(spread, rel=1e-6)
            assert head["finite"] and not head["dead"] and not head["uniform"]


def test_the_table_says_what_json_says(succeed, inspect, minilm):
    path = minilm / "model.safetensors"
    layer = inspect(path, "--layer", "encoder.layer.4")["layers"][0]
    text = succeed("inspect", path, "--layer", "encoder.layer.4")
    assert "6 attention layers" in text.splitlines()[0], "of the file, whichever is shown"
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 12
    for row, head in zip(rows, layer["heads"], strict=True):
        expected = [str(head["head"])]
        for product in (head["scores"], head["values"]):
            expected += [f"{product['effective_rank']:.1f}"]
            expected += [str(product["dims"][share]) for share in ("90%", "99%", "99.9%")]
            for norm in (product["spectral_norm"], product["frobenius_norm"]):
                expected += [f"{norm:.{2 if norm < 9.995 else 1}f}"]
        assert row == expected
    assert "Dead heads: none" in text and "of the median" in text
    alike = numpy.array(layer["score_similarity"]) - 2 * numpy.eye(12)
    first, second = sorted(numpy.unravel_index(alike.argmax(), alike.shape))
    assert f"Most alike: {first} and {second} ({alike.max():.2f}) in W_q·W_kᵀ" in text


def test_a_model_has_a_summary_of_its_layers(succeed, minilm):
    text = succeed("inspect", minilm / "model.safetensors")
    assert "safetensors, 104 tensors, 6 attention layers" in text.splitlines()[0]
    summary = [line for line in text.splitlines() if line.startswith("encoder.layer.") and ":" not in line]
    assert [line.split()[0] for line in summary] == [f"encoder.layer.{i}.attention" for i in range(6)]


def test_the_docs_say_what_the_program_says(inspect, minilm):
    heads = [
        head
        for layer in inspect(minilm / "model.safetensors")["layers"]
        for head in layer["heads"]
    ]
    rows = {
        "effective rank, of 32": lambda spectrum: spectrum["effective_rank"],
        "stable rank": lambda spectrum: spectrum["stable_rank"],
        "dimensions for 90%": lambda spectrum: spectrum["dims"]["90%"],
        "for 99%": lambda spectrum: spectrum["dims"]["99%"],
        "for 99.9%": lambda spectrum: spectrum["dims"]["99.9%"],
        "condition": lambda spectrum: spectrum["condition"],
    }
    docs = (ROOT / "docs/inspect.md").read_text()
    for title, figure in rows.items():
        cells = []
        for product in ("scores", "values"):
            figures = [figure(head[product]) for head in heads]
            digits = 0 if isinstance(figures[0], int) else 1
            three = (min(figures), numpy.median(figures), max(figures))
            cells.append(", ".join(f"{number:.{digits}f}" for number in three))
        assert f"| {title} | {cells[0]} | {cells[1]} |" in docs, (title, cells)


# ---- other files --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
def test_other_precisions_are_read_as_they_are(inspect, tmp_path, dtype):
    tensors = {
        name: torch.from_numpy(value).to(getattr(torch, dtype))
        for name, value in bert_layer(1).items()
    }
    safetensors.torch.save_file(tensors, tmp_path / "model.safetensors")
    layer = inspect(tmp_path / "model.safetensors", "--heads", HEADS)["layers"][0]
    # What the file holds, as float32: that of float64 rounds.
    rounded = {name: value.to(torch.float32).numpy() for name, value in tensors.items()}
    expect_layer(layer, bert_weights(rounded), HEADS, HEADS)


def test_grouped_heads_share_keys_and_values(inspect, succeed, tmp_path):
    random = numpy.random.default_rng(2)
    sizes = {"q": (WIDTH, FEATURES), "k": (2 * SIZE, FEATURES), "v": (2 * SIZE, FEATURES), "o": (FEATURES, WIDTH)}
    tensors = {
        f"model.layers.0.self_attn.{name}_proj.weight": random.normal(size=shape).astype(numpy.float32)
        for name, shape in sizes.items()
    }
    safetensors.numpy.save_file(tensors, tmp_path / "llama.safetensors")
    arguments = (tmp_path / "llama.safetensors", "--heads", HEADS, "--kv-heads", 2)
    layer = inspect(*arguments)["layers"][0]
    assert [head["kv_head"] for head in layer["heads"]] == [0, 0, 1, 1]
    expect_layer(layer, [tensor.T for tensor in tensors.values()], HEADS, 2)
    text = succeed("inspect", *arguments)
    assert "4 heads on 2 key/value heads" in text and "rotary" in text
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert [row[:2] for row in rows] == [["0", "0"], ["1", "0"], ["2", "1"], ["3", "1"]]


def test_value_heads_of_another_size(inspect, tmp_path):
    random = numpy.random.default_rng(3)
    tensors = {
        "mha/query/kernel": random.normal(size=(FEATURES, 3, 8)),
        "mha/key/kernel": random.normal(size=(10, 3, 8)),
        "mha/value/kernel": random.normal(size=(11, 3, 5)),
        "mha/attention_output/kernel": random.normal(size=(3, 5, 7)),
    }
    tensors = {name: value.astype(numpy.float32) for name, value in tensors.items()}
    numpy.savez(tmp_path / "keras.npz", **tensors)
    layer = inspect(tmp_path / "keras.npz")["layers"][0]
    query, key, value, output = tensors.values()
    weights = [query.reshape(-1, 24), key.reshape(-1, 24), value.reshape(-1, 15), output.reshape(15, 7)]
    expect_layer(layer, weights, 3, 3)
    assert layer["config"]["value_dim"] == 5 and not layer["config"]["use_bias"]


def test_dead_uniform_and_copied_heads_are_noted(inspect, succeed, tmp_path):
    tensors = bert_layer(4)
    query, key, value, output = (
        tensors[f"encoder.layer.0.attention.{name}.weight"]
        for name in ("self.query", "self.key", "self.value", "output.dense")
    )
    value[head_rows(1)] = 0
    query[head_rows(2)] = 0
    tensors["encoder.layer.0.attention.self.query.bias"][head_rows(2)] = 0
    query[head_rows(3)], key[head_rows(3)] = 2 * query[head_rows(0)], key[head_rows(0)]
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path)
    text = succeed("inspect", path, "--heads", HEADS)
    notes = [line.split(maxsplit=13)[13:] for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert notes == [["looks like 3 (1.00)"], ["dead"], ["uniform"], ["looks like 0 (1.00)"]]
    assert "Dead heads: 1 (norm of W_v·W_o below 1% of the median" in text
    assert "Uniform: 2." in text
    layer = inspect(path, "--heads", HEADS)["layers"][0]
    assert [head["dead"] for head in layer["heads"]] == [False, True, False, False]
    assert [head["uniform"] for head in layer["heads"]] == [False, False, True, False]
    assert [(pair["head"], pair["other"]) for pair in layer["alike_scores"]] == [(0, 3)]
    assert layer["heads"][1]["values"]["condition"] is None, "infinite"
    # Thresholds are the user's.
    lax = inspect(path, "--heads", HEADS, "--dead", 2, "--uniform", 1000, "--alike", -1)["layers"][0]
    assert all(head["dead"] and head["uniform"] for head in lax["heads"])
    assert len(lax["alike_values"]) == 6


def test_weights_that_are_not_finite_are_noted(inspect, succeed, tmp_path):
    tensors = bert_layer(5)
    tensors["encoder.layer.0.attention.self.key.weight"][2 * SIZE, 3] = numpy.nan
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(tensors, path)
    text = succeed("inspect", path, "--heads", HEADS)
    assert "   2 " in text and "has weights that are not finite" in text
    heads = inspect(path, "--heads", HEADS)["layers"][0]["heads"]
    assert [head["finite"] for head in heads] == [True, True, False, True]
    assert "scores" not in heads[2]


def test_huge_numbers_take_few_columns(succeed, tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file({name: array * 1e15 for name, array in bert_layer(6).items()}, path)
    text = succeed("inspect", path, "--heads", HEADS, "--values")
    assert re.search(r" \d\.\d\de\+3\d ", text)
    assert not re.search(r"\d{8}", text)


def test_values_are_printed_on_request(succeed, tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(bert_layer(6), path)
    text = succeed("inspect", path, "--heads", HEADS, "--values")
    lines = [line for line in text.splitlines() if line.startswith("head ") and ":" in line]
    assert len(lines) == 2 * HEADS
    assert all(len(line.split(": ")[1].split()) == SIZE for line in lines)


# ---- layers, tensors, pictures ------------------------------------------------------------------


@pytest.fixture
def two_layers(tmp_path):
    path = tmp_path / "two.safetensors"
    tensors = bert_layer(7, "a.attention") | bert_layer(8, "b.attention")
    safetensors.numpy.save_file(tensors | {"head.weight": numpy.zeros((3, 2), numpy.float16)}, path)
    return path


def test_one_layer_of_several(inspect, fails, two_layers):
    hints = ("--heads", HEADS)
    assert [layer["name"] for layer in inspect(two_layers, *hints)["layers"]] == ["a.attention", "b.attention"]
    assert [layer["name"] for layer in inspect(two_layers, *hints, "--layer", 1)["layers"]] == ["b.attention"]
    assert "'a.attention'" in fails(2, "inspect", two_layers, *hints, "--layer", "a.atention")


def test_without_the_number_of_heads_it_says_what_to_do(fails, two_layers):
    line = fails(1, "inspect", two_layers)
    assert "two.safetensors" in line and "number of heads" in line and "--heads" in line


def test_heads_that_do_not_fit_are_refused(fails, two_layers):
    assert "7" in fails(1, "inspect", two_layers, "--heads", 7)


def test_tensors_are_listed(inspect, succeed, two_layers):
    text = succeed("inspect", two_layers, "--tensors")
    assert [line.split() for line in text.splitlines() if "F16" in line] == [
        ["head.weight", "F16", "(3,", "2)"]
    ]
    assert len([line for line in text.splitlines() if "F32" in line]) == 16
    report = inspect(two_layers, "--tensors")
    assert report["tensors"][-1] == {"name": "head.weight", "dtype": "F16", "shape": [3, 2]}
    assert [layer["name"] for layer in report["layers"]] == ["a.attention", "b.attention"]
    assert all("heads" not in layer for layer in report["layers"])


def test_a_file_without_attention(fails, succeed, tmp_path):
    path = tmp_path / "cnn.safetensors"
    tensors = {f"conv{i}.weight": numpy.zeros((8, 3, 3, 3), numpy.float32) for i in range(5)}
    safetensors.numpy.save_file(tensors, path)
    line = fails(1, "inspect", path)
    assert "no attention layer" in line
    assert "'conv0.weight' (8, 3, 3, 3)" in line and "5 tensors" in line and "--tensors" in line
    assert "conv4.weight" in succeed("inspect", path, "--tensors")


def test_names_cannot_command_the_terminal(run, tmp_path):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(bert_layer(9, "\x1b[2J\x07evil.attention"), path)
    for arguments in ((), ("--tensors",)):
        outcome = run("inspect", path, "--heads", HEADS, *arguments)
        assert outcome.code == 0 and "evil" in outcome.out
        assert "\x1b" not in outcome.out and "\x07" not in outcome.out


def test_the_picture_is_a_png(succeed, fails, tmp_path, two_layers):
    picture = tmp_path / "spectra.png"
    text = succeed("inspect", two_layers, "--heads", HEADS, "--plot", picture)
    assert f"Picture: {picture}" in text
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert 600 <= width <= 2000 and 400 <= height <= 2000
    json.loads(succeed("inspect", two_layers, "--heads", HEADS, "--plot", picture, "--json"))
    assert "--tensors" in fails(2, "inspect", two_layers, "--tensors", "--plot", picture)


def test_the_picture_on_standard_output(run, fails, tmp_path, two_layers):
    outcome = run("inspect", two_layers, "--heads", HEADS, "--plot", "-", cwd=tmp_path)
    assert outcome.bytes[:8] == b"\x89PNG\r\n\x1a\n" and outcome.bytes[-8:-4] == b"IEND"
    assert "a.attention" in outcome.err and not (tmp_path / "-").exists()
    line = fails(2, "inspect", two_layers, "--heads", HEADS, "--plot", "spectra.txt")
    assert "--plot: expected a name that ends in .png" in line


def test_an_array_without_a_name(fails, tmp_path):
    numpy.save(tmp_path / "x.npy", numpy.zeros((2, 7, 32), numpy.float32))
    assert "''" not in fails(1, "inspect", tmp_path / "x.npy")


def test_nothing_is_left_of_a_picture_that_cannot_be_written(fails, tmp_path, two_layers):
    line = fails(1, "inspect", two_layers, "--heads", HEADS, "--plot", tmp_path / "no" / "x.png")
    assert "x.png" in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["two.safetensors"]
