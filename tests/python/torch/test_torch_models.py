"""Whole models: swap and back, torch's encoder and its shortcuts, training."""

from __future__ import annotations

import copy

import headwise.overhead
import headwise.torch
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch_cases import assert_close, same_bits


def encoder(**options) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


@pytest.fixture
def called(monkeypatch):
    """Layers of ours that really ran."""
    layers = set()
    original = headwise.torch.MultiheadAttention.forward

    def noted(self, *arguments, **options):
        layers.add(self)
        return original(self, *arguments, **options)

    monkeypatch.setattr(headwise.torch.MultiheadAttention, "forward", noted)
    return layers


def test_swap_and_back_keep_every_object():
    model = nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
    modules, parameters = list(model.modules()), list(model.parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    kinds = [type(module) for module in modules]
    flags = [module._qkv_same_embed_dim for module in modules if isinstance(module, nn.MultiheadAttention)]
    assert headwise.torch.swap(model, linear=True) is model
    assert all(a is b for a, b in zip(model.modules(), modules, strict=True))
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    assert optimiser.param_groups[0]["params"][0] is parameters[0]
    assert sum(type(module) is headwise.torch.MultiheadAttention for module in modules) == 3
    assert sum(type(module) is headwise.torch.Linear for module in modules) == 4
    model.eval()
    with torch.no_grad():
        model(torch.randn(1, 3, 16), torch.randn(1, 3, 16))
    assert headwise.torch.swap_back(model) is model
    assert [type(module) for module in model.modules()] == kinds
    assert flags == [m._qkv_same_embed_dim for m in modules if isinstance(m, nn.MultiheadAttention)]
    assert not any("_packed_cache" in vars(module) for module in modules)


def test_swap_of_a_lone_layer_and_of_others_subclasses():
    class Own(nn.MultiheadAttention):
        pass

    class OwnLinear(nn.Linear):
        pass

    lone = nn.MultiheadAttention(8, 2)
    assert type(headwise.torch.swap(lone)) is headwise.torch.MultiheadAttention
    assert type(headwise.torch.swap_back(lone)) is nn.MultiheadAttention
    with pytest.warns(UserWarning, match=r"^\[swap\] subclasses are left alone: 2 Own$") as warned:
        model = headwise.torch.swap(nn.Sequential(Own(8, 2), Own(8, 2), OwnLinear(8, 8), nn.TransformerEncoderLayer(8, 2)))
    assert [type(module) for module in model[:3]] == [Own, Own, OwnLinear] and warned[0].filename == __file__
    with pytest.warns(UserWarning, match="alone: 2 Own, 1 OwnLinear$"):
        headwise.torch.swap(model, linear=True)


def test_swap_of_no_model():
    for function in (headwise.torch.swap, headwise.torch.swap_back):
        with pytest.raises(TypeError, match=rf"^\[{function.__name__}\] model: expected a torch.nn.Module, got int"):
            function(3)


def test_scripting_is_refused():
    model = headwise.torch.swap(nn.Sequential(nn.Linear(4, 2)), linear=True)
    for module in (headwise.torch.MultiheadAttention(8, 2), model):
        with pytest.raises(NotImplementedError, match="has no torch.jit.script; use torch.compile"):
            torch.jit.script(module)
    torch.jit.script(headwise.torch.swap_back(model))


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("mask", ["none", "padding", "causal"])
@pytest.mark.parametrize("swapped", ["before", "after"])
def test_encoder_is_not_bypassed(called, norm_first, mask, swapped):
    """In evaluation mode torch's encoder takes the parameters and calls fused kernels; with padding it
    makes nested tensors. Ours must run all the same."""
    torch.manual_seed(31)
    theirs = encoder(norm_first=norm_first).eval()
    if swapped == "after":
        ours = headwise.torch.swap(copy.deepcopy(theirs))
    else:
        layer = headwise.torch.swap(nn.TransformerEncoderLayer(16, 4, 32, 0.0, batch_first=True,
                                                               norm_first=norm_first))
        ours = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        ours.load_state_dict(theirs.state_dict())
    x = torch.randn(3, 5, 16)
    padding = torch.arange(5) >= torch.tensor([[5], [2], [4]])
    options = {
        "none": {},
        "padding": {"src_key_padding_mask": padding},
        "causal": {"mask": nn.Transformer.generate_square_subsequent_mask(5), "is_causal": True},
    }[mask]
    attended = ~padding if mask == "padding" else torch.ones(3, 5, dtype=torch.bool)
    with torch.no_grad():
        expected = theirs(x, **options)
        assert_close(ours(x, **options)[attended], expected[attended])
    assert len(called) == 2
    assert_close(ours(x, **options)[attended], expected[attended])  # with autograd


def test_nested_tensors():
    torch.manual_seed(32)
    layer = headwise.torch.MultiheadAttention(8, 2, batch_first=True).eval()
    rows = [torch.randn(n, 8) for n in (3, 5, 1)]
    nested = torch.nested.as_nested_tensor(rows)
    with torch.no_grad():
        output, _ = layer(nested, nested, nested, need_weights=False)
        for one, row in zip(output.unbind(), rows, strict=True):
            assert same_bits(one, layer(row, row, row)[0])
    with pytest.raises(AssertionError, match="query: expected a NestedTensor only as"):
        layer(nested, rows[0], rows[0])


def toy_data(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Which number of a sequence is the largest?"""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(count, 6, 1, generator=generator)
    return x, x.squeeze(2).argmax(1)


class Toy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(1, 16)
        self.encoder = encoder()
        self.score = nn.Linear(16, 1)

    def forward(self, x):
        return self.score(self.encoder(self.embed(x))).squeeze(2)


@pytest.mark.parametrize("linear", [False, True])
def test_training_equals_torchs_own_run(linear):
    torch.manual_seed(33)
    theirs = Toy()
    ours = headwise.torch.swap(copy.deepcopy(theirs), linear=linear)
    x, y = toy_data(64)
    losses = []
    for model in (theirs, ours):
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses.append([])
        for _ in range(30):
            loss = nn.functional.cross_entropy(model(x), y)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses[-1].append(loss.item())
    assert losses[0][-1] < 0.8 * losses[0][0]
    torch.testing.assert_close(torch.tensor(losses[1]), torch.tensor(losses[0]), rtol=0, atol=2e-5)
    for model in (theirs, ours):
        model.eval()
    with torch.no_grad():
        torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-3)


def swapped_layer() -> nn.Module:
    return headwise.torch.MultiheadAttention(16, 4, dropout=0.3, batch_first=True)


# What is checkpointed: a module, and how it is called.
CHECKPOINTED = {
    "layer": (swapped_layer, lambda layer, x: layer(x, x, x, attn_mask=torch.zeros(5, 5))[0]),
    "layer_weights": (swapped_layer, lambda layer, x: sum(y.sum() for y in layer(x, x, x))),
    "function": (nn.Identity, lambda _, x: headwise.torch.scaled_dot_product_attention(x, x, x, dropout_p=0.3)),
    "linear": (lambda: headwise.torch.Linear(16, 3), lambda layer, x: layer(x)),
    "encoder": (lambda: headwise.torch.swap(nn.TransformerEncoderLayer(16, 4, 32, 0.3, batch_first=True)),
                lambda layer, x: layer(x)),
}


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("name", CHECKPOINTED)
def test_checkpointing_gives_the_same_gradients(name, use_reentrant):
    torch.manual_seed(35)
    make, call = CHECKPOINTED[name]
    module, x = make(), torch.randn(2, 5, 16, requires_grad=True)
    found = []
    for run in (call, lambda *given: checkpoint(call, *given, use_reentrant=use_reentrant)):
        torch.manual_seed(1)
        module.zero_grad()
        x.grad = None
        run(module, x).square().sum().backward()
        found.append([x.grad, *(p.grad for p in module.parameters())])
    assert all(same_bits(a, b) for a, b in zip(*found, strict=True))


def test_bfloat16_and_autocast():
    torch.manual_seed(34)
    wide = headwise.torch.MultiheadAttention(16, 4, batch_first=True)
    narrow = copy.deepcopy(wide).bfloat16()
    x = torch.randn(2, 5, 16).bfloat16()
    output, weights = narrow(x, x, x)
    assert output.dtype == weights.dtype == torch.bfloat16
    exact = copy.deepcopy(narrow).float()(x.float(), x.float(), x.float())[0]
    assert torch.equal(output, exact.bfloat16())
    output.float().sum().backward()
    assert narrow.in_proj_weight.grad.dtype == torch.bfloat16
    with torch.autocast("cpu", dtype=torch.bfloat16):
        for value in (x, x.float()):
            result = wide(value, value, value)[0]
            assert result.dtype == torch.float32
            assert same_bits(result, wide(x.float(), x.float(), x.float())[0])


X = torch.ones(2, 3, 8)
MISTAKES = {
    "dtype": ((X.double(),) * 3, {}, RuntimeError, r"query: expected float32 .*, got torch.float64"),
    "other_dtype": ((X.bfloat16(),) * 3, {}, RuntimeError, r"in_proj_weight: expected the same dtype"),
    "features": ((X[..., :7],) * 3, {}, AssertionError, r"query: expected a last axis of 8, got shape \(2, 3, 7\)"),
    "rank": ((X[None],) * 3, {}, AssertionError, r"query: expected 2 axes, or 3"),
    "ranks": ((X, X[0], X[0]), {}, AssertionError, r"key: expected 3 axes"),
    "value": ((X, X, X[:, :2]), {}, AssertionError, r"value: expected the axes of key"),
    "attn_mask": ((X, X, X), {"attn_mask": torch.ones(3, 4)}, RuntimeError,
                  r"attn_mask: expected shape \(3, 3\) or \(8, 3, 3\), got shape \(3, 4\)"),
    "attn_mask_3d": ((X, X, X), {"attn_mask": torch.ones(2, 3, 3)}, RuntimeError, r"attn_mask: expected shape"),
    "attn_mask_rank": ((X, X, X), {"attn_mask": torch.ones(3)}, AssertionError, r"attn_mask: expected 2 or 3 axes"),
    "attn_mask_dtype": ((X, X, X), {"attn_mask": torch.ones(3, 3).int()}, AssertionError,
                        r"attn_mask: expected bool or float32, got torch.int32"),
    "padding": ((X, X, X), {"key_padding_mask": torch.ones(2, 4)}, AssertionError,
                r"key_padding_mask: expected shape \(2, 3\)"),
    "padding_rank": ((X, X, X), {"key_padding_mask": torch.ones(3)}, AssertionError, r"key_padding_mask: expected"),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name, training):
    """torch's own kind of exception, with our message."""
    tensors, options, kind, message = MISTAKES[name]
    ours = headwise.torch.MultiheadAttention(8, 4, batch_first=True).train(training)
    with torch.set_grad_enabled(training), pytest.raises(kind, match=r"^\[MultiheadAttention\] " + message):
        ours(*tensors, **options)
    theirs = nn.MultiheadAttention(8, 4, batch_first=True)
    with pytest.raises(kind):
        theirs(*tensors, **options)


@pytest.mark.parametrize("training", [True, False])
def test_what_is_no_tensor(training):
    layer = headwise.torch.MultiheadAttention(8, 4, batch_first=True).train(training)
    with torch.set_grad_enabled(training):
        for options in ({}, {"need_weights": False}):
            for tensors, name in (((X.numpy(), X, X), "query"), ((None,) * 3, "query"), ((X, None, X), "key")):
                with pytest.raises(TypeError, match=rf"\[MultiheadAttention\] {name}: expected a torch.Tensor"):
                    layer(*tensors, **options)
        for name in ("attn_mask", "key_padding_mask"):
            with pytest.raises(TypeError, match=rf"\[MultiheadAttention\] {name}: expected a torch.Tensor, got list"):
                layer(X, X, X, **{name: [[0]]})


@pytest.mark.parametrize("dropout", [1.0, 2.0])
def test_impossible_dropout(dropout):
    layer = headwise.torch.MultiheadAttention(8, 4, dropout=dropout)
    with pytest.raises(ValueError, match=r"\[MultiheadAttention\] dropout: expected a number in \[0, 1\), got"):
        layer(X, X, X)
    layer.eval()(X, X, X)  # nothing is dropped


def test_mistakes_of_linear():
    linear = headwise.torch.Linear(4, 2)
    for wrong in (None, [1.0], torch.ones(3, 4).numpy()):
        with pytest.raises(TypeError, match=r"\[Linear\] input: expected a torch.Tensor"):
            linear(wrong)
    with pytest.raises(RuntimeError, match=r"\[Linear\] input: expected a last axis of 4, got shape \(3, 5\)"):
        linear(torch.ones(3, 5))
    with pytest.raises(RuntimeError, match=r"\[Linear\] input: expected float32 .*, got torch.float64"):
        linear(torch.ones(3, 4).double())


def test_overhead_is_measured():
    times = headwise.overhead.measure(features=64, torch=True)
    assert min(times, key=times.get) == "C++"
    assert list(times)[-1] == headwise.overhead.TORCH
