"""Layers of models by the real Transformers: the same function, or the program says what is not.

Tiny models with random weights, saved as their users save them. Where a model does something outside the
weights, that is left out here (rotary positions) or asked for by an option (a causal mask).
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers as hf

HIDDEN = 24
SIZES = {"hidden_size": HIDDEN, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 32,
         "vocab_size": 20}
GPT2 = {"n_embd": HIDDEN, "n_layer": 3, "n_head": 4, "vocab_size": 20}
GPT_NEO = {"hidden_size": HIDDEN, "num_layers": 2, "num_heads": 4, "window_size": 4, "vocab_size": 20,
           "attention_types": [[["global", "local"], 1]]}
GROUPED = {**SIZES, "num_key_value_heads": 2}


@pytest.fixture
def saved(tmp_path):
    """saved(model class, configuration) → the model, with random weights, and its folder."""

    def save(model_class, config):
        torch.manual_seed(3)
        config._attn_implementation = "eager"
        model = model_class(config).eval()
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
        model.save_pretrained(tmp_path / "model")
        return model, tmp_path / "model"

    return save


def check(succeed, folder, layer, attend, *options) -> str:
    """Runs a layer and compares it with Transformers' own; returns the report."""
    x = np.random.default_rng(4).standard_normal((2, 7, HIDDEN), dtype=np.float32)
    files = folder.parent
    np.save(files / "x.npy", x)
    text = succeed("run", "--weights", folder, "--layer", layer, "--input", files / "x.npy",
                   "--output", files / "y.npy", *options)
    with torch.no_grad():
        expected = attend(torch.from_numpy(x)).numpy()
    assert np.abs(np.load(files / "y.npy") - expected).max() <= 1e-5 * np.abs(expected).max()
    return text


CAUSAL = torch.full((7, 7), -1e30).triu(1)[None, None]


@pytest.mark.parametrize("options", [{}, {"scale_attn_weights": False},
                                     {"scale_attn_by_inverse_layer_idx": True},
                                     {"scale_attn_weights": False, "scale_attn_by_inverse_layer_idx": True}])
def test_gpt2_and_its_scales(options, saved, succeed):
    model, folder = saved(hf.GPT2Model, hf.GPT2Config(**GPT2, **options))
    for place in (0, 2):
        text = check(succeed, folder, f"h.{place}.attn",
                     lambda x, at=place: model.h[at].attn(x, attention_mask=CAUSAL)[0], "--causal")
        assert "note     a causal mask" in text


def test_gpt_neo_has_no_scale(saved, succeed):
    model, folder = saved(hf.GPTNeoModel, hf.GPTNeoConfig(**GPT_NEO))
    attend = model.h[0].attn.attention
    text = check(succeed, folder, "h.0", lambda x: attend(x, attention_mask=CAUSAL)[0], "--causal")
    assert "window_size" not in text
    local = succeed("run", "--weights", folder, "--layer", "h.1", "--shape", "1,3")
    assert "note     window_size 4, a mask that is outside the weights" in local


def test_towers_have_their_own_heads(saved, succeed):
    config = hf.BartConfig(d_model=HIDDEN, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=32,
                           decoder_ffn_dim=32, encoder_attention_heads=4, decoder_attention_heads=6,
                           vocab_size=20)
    model, folder = saved(hf.BartModel, config)
    for tower in ("encoder", "decoder"):
        attend = getattr(model, tower).layers[0].self_attn
        check(succeed, folder, f"{tower}.layers.0.self_attn", lambda x, attend=attend: attend(x)[0])


def test_mistral_and_its_window(saved, succeed):
    model, folder = saved(hf.MistralModel, hf.MistralConfig(**GROUPED, sliding_window=4))
    attend = model.layers[1].self_attn
    unturned = (torch.ones(2, 7, attend.head_dim), torch.zeros(2, 7, attend.head_dim))
    text = check(succeed, folder, "layers.1", lambda x: attend(
        x, position_embeddings=unturned, attention_mask=torch.zeros(2, 1, 7, 7))[0])
    assert "note     sliding_window 4, a mask that is outside the weights" in text


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("GptOss", {**GROUPED, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1},
         "'sinks' is not understood"),
        ("Cohere", {**GROUPED, "use_qk_norm": True}, "norm.weight': expected 1 axis, got shape"),
        ("StableLm", {**GROUPED, "qk_layernorm": True}, "_layernorm.norms.0.weight' is not understood"),
        ("Olmo", {**SIZES, "clip_qkv": 0.5}, "off at ±0.5 (clip_qkv)"),
        ("Longformer", {**SIZES, "attention_window": 4}, "_global.bias' is not understood"),
        ("Llama4Text", {**GROUPED, "head_dim": 6, "intermediate_size_mlp": 32, "num_local_experts": 2},
         "norms of queries and keys"),
    ],
)
def test_what_is_another_function_is_refused(name, options, says, saved, fails):
    config = getattr(hf, f"{name}Config")(**options)
    _, folder = saved(getattr(hf, f"{name}Model"), config)
    assert says in fails(1, "run", "--weights", folder, "--layer", "layers.1" if name != "Longformer"
                         else "layer.1", "--shape", "1,3")


@pytest.mark.parametrize(
    ("name", "options", "notes"),
    [
        ("GPTJ", {**GPT2, "rotary_dim": 2}, ("rotary positions", "a causal mask")),
        ("Esm", {**SIZES, "position_embedding_type": "rotary", "pad_token_id": 0}, ("rotary positions",)),
        ("LayoutLMv3", {**SIZES, "coordinate_size": 4, "shape_size": 4, "input_size": 32},
         ("biases of relative positions",)),
    ],
)
def test_what_is_outside_the_weights_is_said(name, options, notes, saved, succeed, fails, tmp_path):
    _, folder = saved(getattr(hf, f"{name}Model"), getattr(hf, f"{name}Config")(**options))
    text = succeed("run", "--weights", folder, "--layer", "1", "--shape", "1,3")
    for note in notes:
        assert f"note     {note}, which its model has" in text
    if "rotary positions" in notes:
        message = fails(2, "convert", folder, tmp_path / "small.safetensors", "--to", "headwise",
                        "--key-dim", 3)
        assert "--key-dim: not for layer" in message and "rotary" in message
