"""Layers in files: found, read, written and read again with the same bits; the frameworks' own files."""

from __future__ import annotations

import headwise as hw
import numpy as np
import pytest
import safetensors.torch
import torch
from formulas import assert_close, same_bits

LAYOUTS = [hw.WeightLayout.Headwise, hw.WeightLayout.Keras, hw.WeightLayout.Torch, hw.WeightLayout.Flax,
           hw.WeightLayout.D2l, hw.WeightLayout.Bert, hw.WeightLayout.Llama, hw.WeightLayout.Gpt2]


@pytest.fixture
def layer(normal):
    config = hw.presets.torch(embed_dim=8, num_heads=2)
    weights = hw.AttentionWeights.glorot(config, seed=1)
    return hw.MultiHeadAttention(config, {n: a if a.ndim > 1 else normal(*a.shape) for n, a in weights.items()})


def parts(layer):
    return hw.LayerParts(layer.config, layer.weights)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_round_trip(tmp_path, layer, normal, layout):
    path = tmp_path / "x.safetensors"
    hw.save_layers(path, {"encoder.0": layer}, layout)
    file = hw.TensorFile.open(path)
    found, = hw.find_layers(file.tensors, file.metadata)
    assert (found.name, found.layout, found.missing) == ("encoder.0", layout, "")
    again = hw.load_layer(path)
    assert all(same_bits(again.weights[name], array) for name, array in layer.weights.items())
    x = normal(2, 3, 8)
    difference = hw.compare_layers(parts(layer), [x], parts(again), [x])
    assert difference.same_bits and difference.output_error == 0 and difference.weight_changes == [0, 0]


@pytest.mark.parametrize("ending", [".weights.h5", ".keras"])
def test_keras_files(tmp_path, layer, ending):
    path = tmp_path / f"x{ending}"
    hw.save_layers(path, {"first": layer, "second": layer}, hw.WeightLayout.Keras)
    again = hw.load_layer(path, "second")
    assert all(same_bits(again.weights[name], array) for name, array in layer.weights.items())
    with pytest.raises(hw.ArgumentError, match=r"name: expected one of 'first', 'second', got None"):
        hw.load_layer(path)
    with pytest.raises(hw.ArgumentError, match="layout: expected WeightLayout.Keras"):
        hw.save_layers(path, layer, hw.WeightLayout.Torch)
    with pytest.raises(hw.ArgumentError, match="path: expected a file that holds text"):
        hw.save_layers(tmp_path / "x.npz", layer)


def test_a_state_dict_of_torch(tmp_path, normal):
    theirs = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    safetensors.torch.save_file(theirs.state_dict(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"num_attention_heads": 2}')
    x = normal(2, 3, 8)
    expected = theirs(*[torch.from_numpy(x)] * 3)[0]
    assert_close(hw.load_layer(tmp_path).forward(x).output, expected.detach().numpy())
    (tmp_path / "config.json").unlink()
    with pytest.raises(hw.ArgumentError, match="hints: expected what tells the layer's sizes, got the file does not"):
        hw.load_layer(tmp_path)
    layer = hw.load_layer(tmp_path, hints=hw.LayerHints(key_dim=4))
    assert layer.config.num_heads == 2


def test_layers_of_a_dict(normal):
    tensors = {f"W_{x}.weight": normal(8, 8) for x in "qkvo"} | {"other.weight": np.zeros(3, np.float32)}
    found, = hw.find_layers(tensors, hints=hw.LayerHints(num_heads=2))
    assert found.tensors["attention_output/weight"] == "W_o.weight"
    asked = []

    def source(name):
        asked.append(name)
        return torch.from_numpy(tensors[name])

    read = hw.read_layer(found, source)
    assert sorted(asked) == ["W_k.weight", "W_o.weight", "W_q.weight", "W_v.weight"]
    assert same_bits(read.weights["query/kernel"], tensors["W_q.weight"].T.copy())


def test_what_cannot_be(tmp_path, normal):
    hw.save_tensors(tmp_path / "x.safetensors", {"x": normal(3)})
    with pytest.raises(hw.ArgumentError, match=r"path: expected a file with an attention layer, got '.*x.safetensors'"):
        hw.load_layer(tmp_path / "x.safetensors")
    with pytest.raises(hw.ArgumentError, match="hints_from_config"):
        hw.hints_from_config("[1]")
    with pytest.raises(TypeError, match=r"\[find_layers\] tensors: expected names that are text"):
        hw.find_layers({3: normal(3)})
    config = hw.AttentionConfig(num_heads=2, key_dim=4, value_dim=3, query_features=8)
    odd = hw.LayerParts(config, hw.AttentionWeights.glorot(config, seed=1))
    with pytest.raises(hw.ArgumentError, match="value_dim: expected 4, as key_dim"):
        hw.write_layer(odd, hw.WeightLayout.Torch)
    found, = hw.find_layers({f"W_{x}.weight": normal(8, 8) for x in "qkvo"}, hints=hw.LayerHints(num_heads=2))
    with pytest.raises(KeyError):
        hw.read_layer(found, {})
