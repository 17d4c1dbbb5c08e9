"""headwise.torch.MultiheadAttention against torch.nn.MultiheadAttention, over a grid of every option."""

from __future__ import annotations

import copy
import inspect
import itertools
import pickle

import headwise.torch
import pytest
import torch
import torch.nn.utils.prune
from torch_cases import (
    EMBED,
    HEADS,
    MASK_CASES,
    B,
    S,
    T,
    assert_close,
    attn_mask,
    double,
    mask_options,
    padding_mask,
    same_bits,
)

FLAGS = ("bias", "add_bias_kv", "add_zero_attn", "batch_first", "own_sizes")
OPTIONS = [dict(zip(FLAGS, flags, strict=True)) for flags in itertools.product((True, False), repeat=len(FLAGS))]


def make(options: dict, **more):
    """torch's layer, and ours with the same parameters."""
    options = dict(options)
    if options.pop("own_sizes", False):
        options |= {"kdim": 6, "vdim": 10}
    theirs = torch.nn.MultiheadAttention(EMBED, HEADS, **options, **more)
    ours = headwise.torch.MultiheadAttention(EMBED, HEADS, **options, **more)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.copy_(torch.randn_like(parameter) / parameter.shape[-1] ** 0.5)
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def inputs_of(layer) -> list[torch.Tensor]:
    shapes = ((B, T, layer.embed_dim), (B, S, layer.kdim), (B, S, layer.vdim))
    batched = [torch.randn(shape) for shape in shapes]
    return [(x if layer.batch_first else x.transpose(0, 1)).requires_grad_() for x in batched]


def assert_results(ours, theirs) -> None:
    assert_close(ours[0], theirs[0])
    assert (ours[1] is None) == (theirs[1] is None)
    if theirs[1] is not None:
        assert_close(ours[1], theirs[1])


def gradients(result, leaves, cotangents) -> tuple:
    given = [(x, c) for x, c in zip(result, cotangents, strict=True) if x is not None]
    return torch.autograd.grad([x for x, _ in given], leaves, [c for _, c in given], allow_unused=True)


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: "-".join(k for k, v in o.items() if v) or "plain")
def test_grid(options):
    """Outputs, weights and gradients of everything; the same bits with and without autograd."""
    torch.manual_seed(1)
    theirs, ours = make(options)
    reference = double(theirs)
    for case in MASK_CASES:
        inputs, masks = inputs_of(ours), (attn_mask(case[0]), padding_mask(case[1]))
        floats = [m.requires_grad_() for m in masks if m is not None and m.is_floating_point()]
        result = ours(*inputs, **mask_options(case, masks))
        exact_inputs, exact_masks = [*map(double, inputs)], tuple(map(double, masks))
        exact = reference(*exact_inputs, **mask_options(case, exact_masks))
        assert_results(result, exact)

        cotangents = [None if x is None else torch.randn_like(x) for x in result]
        exact_floats = [m for m in exact_masks if m is not None and m.is_floating_point()]
        found = gradients(result, [*inputs, *ours.parameters(), *floats], cotangents)
        wanted = gradients(exact, [*exact_inputs, *reference.parameters(), *exact_floats],
                           [None if c is None else c.double() for c in cotangents])
        for gradient, expected in zip(found, wanted, strict=True):
            assert_close(gradient, expected)

        ours.eval()
        with torch.no_grad():
            direct = ours(*inputs, **mask_options(case, masks))
        ours.train()
        assert same_bits(direct[0], result[0])
        assert direct[1] is None or same_bits(direct[1], result[1])
        assert direct[0].stride() == exact[0].stride() or direct[0].is_contiguous()


@pytest.mark.parametrize("mask", ["none", "bool_2d", "float_3d"])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_unbatched(mask, average, batch_first):
    torch.manual_seed(2)
    theirs, ours = make({"batch_first": batch_first})
    query, key = torch.randn(T, EMBED), torch.randn(S, EMBED)
    options = {"attn_mask": attn_mask(mask, batch=1), "average_attn_weights": average,
               "key_padding_mask": torch.arange(S) >= 3 if mask == "bool_2d" else None}
    exact = double(theirs)(double(query), double(key), double(key), **{k: double(v) for k, v in options.items()})
    assert_results(ours(query, key, key, **options), exact)
    ours.eval()
    with torch.no_grad():
        assert_results(ours(query, key, key, **options), exact)


@pytest.mark.parametrize("batch_first", [True, False])
def test_self_attention_uses_one_projection(batch_first):
    torch.manual_seed(3)
    theirs, ours = make({"batch_first": batch_first})
    x = torch.randn(3, 4, EMBED, requires_grad=True)
    exact_x, reference = double(x), double(theirs)
    assert_results(ours(x, x, x), reference(exact_x, exact_x, exact_x))
    ours(x, x, x)[0].square().sum().backward()
    reference(exact_x, exact_x, exact_x)[0].square().sum().backward()
    assert_close(x.grad, exact_x.grad)
    for a, b in zip(ours.parameters(), reference.parameters(), strict=True):
        assert_close(a.grad, b.grad)


def test_signatures_are_torchs():
    for method in ("__init__", "forward"):
        ours, theirs = (inspect.signature(getattr(module.MultiheadAttention, method))
                        for module in (headwise.torch, torch.nn))
        assert [(p.name, p.default, p.kind) for p in ours.parameters.values()] == [
            (p.name, p.default, p.kind) for p in theirs.parameters.values()]
    assert isinstance(headwise.torch.MultiheadAttention(8, 2), torch.nn.MultiheadAttention)


def test_initialisation_is_torchs():
    for options in ({}, {"kdim": 3, "vdim": 5, "add_bias_kv": True}, {"bias": False}):
        made = []
        for module in (torch.nn, headwise.torch):
            torch.manual_seed(5)
            layer = module.MultiheadAttention(8, 2, **options)
            layer._reset_parameters()
            made.append(layer.state_dict())
        assert made[0].keys() == made[1].keys()
        assert all(torch.equal(made[0][name], made[1][name]) for name in made[0])


def test_state_dict_goes_both_ways():
    for options in OPTIONS[::3]:
        theirs, ours = make(options)
        assert [n for n, _ in theirs.named_parameters()] == [n for n, _ in ours.named_parameters()]
        back = copy.deepcopy(theirs)
        back.load_state_dict(ours.state_dict())
        assert all(torch.equal(a, b) for a, b in zip(back.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("need_weights", [True, False])
def test_is_causal_is_a_hint(need_weights):
    """As in torch: it needs a mask, and replaces it only without weights and padding."""
    torch.manual_seed(6)
    theirs, ours = make({"batch_first": True})
    x = torch.randn(2, T, EMBED)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(T)
    expected = double(theirs)(*[double(x)] * 3, attn_mask=causal.double(), need_weights=need_weights)
    hinted = ours(x, x, x, attn_mask=causal, is_causal=True, need_weights=need_weights)
    assert_results(hinted, expected)
    plain = ours(x, x, x, attn_mask=causal, need_weights=need_weights)
    assert same_bits(hinted[0], plain[0])
    # A wrong hint is believed exactly where torch believes it.
    nothing = torch.zeros(T, T)
    wrong = ours(x, x, x, attn_mask=nothing, is_causal=True, need_weights=need_weights)
    assert_results(wrong, double(theirs)(*[double(x)] * 3, attn_mask=nothing.double(), is_causal=True,
                                         need_weights=need_weights))
    for training in (True, False):
        ours.train(training)
        with torch.no_grad(), pytest.raises(RuntimeError, match=r"attn_mask: expected a mask beside the hint"):
            ours(x, x, x, is_causal=True, need_weights=need_weights)


@pytest.mark.parametrize("mask, error", [
    ("causal", TypeError),
    ([[0.0] * T] * T, TypeError),
    (torch.zeros(T, T, dtype=torch.int64), AssertionError),
    (torch.zeros(T), AssertionError),
    (torch.zeros(2, HEADS, T, T), AssertionError),
])
def test_masks_that_the_hint_replaces_are_checked(mask, error):
    x = torch.randn(2, T, EMBED)
    for layer in make({"batch_first": True}):
        with pytest.raises(error):
            layer(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)


def test_the_extra_key_stays_visible_beside_a_causal_hint():
    """torch hides it there, and shows it with the same mask and no hint."""
    _, ours = make({"add_bias_kv": True, "batch_first": True})
    x = torch.randn(1, T, EMBED)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(T)
    hinted = ours(x, x, x, attn_mask=causal, is_causal=True, need_weights=False)[0]
    assert same_bits(hinted, ours(x, x, x, attn_mask=causal, need_weights=False)[0])


def test_empty_row_is_zero_and_nan_does_not_leak():
    _, ours = make({"batch_first": True})
    x, y = torch.randn(2, 3, EMBED), torch.randn(2, 3, EMBED)
    y[0, 1:] = torch.nan
    y[1] = torch.nan
    padding = torch.tensor([[False, True, True], [True, True, True]])
    for training in (True, False):
        ours.train(training)
        output, weights = ours(x, y, y, key_padding_mask=padding)
        assert torch.isfinite(output).all()
        assert not weights[1].any()
        assert same_bits(output[1], ours.out_proj.bias.detach().expand(3, -1).contiguous())
    output.sum().backward()
    assert all(torch.isfinite(p.grad).all() for n, p in ours.named_parameters() if n == "out_proj.bias")


def test_dropout_follows_torchs_seed():
    _, ours = make({"batch_first": True}, dropout=0.5)
    x = torch.randn(2, 6, EMBED)
    runs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        runs.append(ours(x, x, x))
    assert same_bits(runs[0][0], runs[1][0])
    assert not same_bits(runs[0][0], runs[2][0])
    assert same_bits(runs[0][1], runs[2][1])  # weights are those before dropout
    ours.eval()
    assert same_bits(ours(x, x, x)[0], ours(x, x, x)[0])
    ours.train()
    dropped = torch.stack([ours(x, x, x)[0] for _ in range(400)])
    away = (dropped.mean(0) - ours.eval()(x, x, x)[0]).abs() / (dropped.std(0) / 400**0.5)
    assert away.max() < 5  # standard errors


def test_no_stale_weights():
    """Every way to change a parameter shows in the next call."""
    theirs, ours = make({"batch_first": True})
    theirs.eval()
    ours.eval()
    x = torch.randn(1, 3, EMBED)

    def check():
        with torch.no_grad():
            assert_close(ours(x, x, x)[0], theirs(x, x, x)[0])

    check()
    changes = (
        lambda layer: layer.in_proj_weight.detach().mul_(1.5),
        lambda layer: layer.out_proj.weight.data.mul_(0.5),
        lambda layer: setattr(layer.in_proj_weight, "data", layer.in_proj_weight.data * 2),
        lambda layer: setattr(layer, "in_proj_bias", torch.nn.Parameter(torch.ones(3 * EMBED))),
        lambda layer: layer.out_proj.bias.detach().numpy().fill(3),
        lambda layer: layer.load_state_dict({k: v * 0.7 for k, v in layer.state_dict().items()}),
        lambda layer: setattr(layer.out_proj, "weight", torch.nn.Parameter(torch.eye(EMBED))),
    )
    for change in changes:
        for layer in (theirs, ours):
            change(layer)
        check()
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        copied.in_proj_weight.data.zero_()
        with torch.no_grad():
            assert not same_bits(copied(x, x, x)[0], ours(x, x, x)[0])
    with torch.inference_mode():
        theirs_too, ours_too = make({"batch_first": True})
        ours_too.eval()
        for _ in range(2):
            assert_close(ours_too(x, x, x)[0], theirs_too(x, x, x)[0])
            for layer in (theirs_too, ours_too):
                layer.in_proj_weight[0, 0] += 1


@pytest.mark.parametrize("transposed", [False, True])
def test_no_stale_blocks(transposed):
    """A sixteenth of a parameter's rows or columns, changed behind torch's back."""
    size = 64
    layer = headwise.torch.MultiheadAttention(size, 4, batch_first=True).eval().requires_grad_(False)
    if transposed:  # in memory
        layer.in_proj_weight = torch.nn.Parameter(layer.in_proj_weight.t().contiguous().t(), requires_grad=False)
    x = torch.randn(1, 3, size)
    for parameter in layer.parameters():
        for view in (parameter, parameter.t())[: parameter.dim()]:
            for block in view.data.chunk(16):
                before = layer(x, x, x, need_weights=False)[0]
                block.add_(torch.randn_like(block))
                after = layer(x, x, x, need_weights=False)[0]
                assert same_bits(after, layer.eval()(x, x, x, need_weights=False)[0])
                key_bias = parameter is layer.in_proj_bias  # a part of it shifts all scores of a row alike
                assert key_bias or not same_bits(after, before)
    layer.in_proj_weight.data[1, 1] += 1  # too small to be seen in a call of few rows: eval() forgets
    after = layer.eval()(x, x, x, need_weights=False)[0]
    assert same_bits(after, copy.deepcopy(layer)(x, x, x, need_weights=False)[0])


@pytest.mark.parametrize("threads", [1, 2])
def test_no_stale_numbers_in_large_calls(threads):
    """A single number of any parameter, or two that change places, behind torch's back: with enough rows for
    each thread all of them are looked at."""
    size = 48
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    layer = headwise.torch.MultiheadAttention(size, 4, batch_first=True).eval().requires_grad_(False)
    linear = headwise.torch.Linear(size, 47).eval().requires_grad_(False)
    x = torch.randn(2, 64 * threads, size)
    for module, call in ((layer, lambda: layer(x, x, x, need_weights=False)[0]), (linear, lambda: linear(x))):
        for parameter in module.parameters():
            numbers = parameter.data.view(-1)
            for place in torch.randint(numbers.numel(), (20,)).tolist():
                call()
                numbers[place] += 1
                assert same_bits(call(), (module.eval(), call())[1])
                numbers[[place, 0]] = numbers[[0, place]]
                assert same_bits(call(), (module.eval(), call())[1])
    torch.set_num_threads(before)


def test_parameters_with_gaps_are_not_kept():
    layer = headwise.torch.Linear(8, 4).eval().requires_grad_(False)
    layer.weight = torch.nn.Parameter(torch.randn(4, 16)[:, ::2], requires_grad=False)
    x = torch.randn(3, 8)
    for _ in range(2):
        assert_close(layer(x), torch.nn.functional.linear(x.double(), layer.weight.double(), layer.bias.double()))
        layer.weight.data[0, 0] += 1


@pytest.mark.parametrize("need_weights", [True, False])
def test_computed_parameters_are_not_kept(need_weights):
    """Pruned and parametrised layers, before and after they ran plainly."""
    theirs, ours = make({"batch_first": True})
    x = torch.randn(2, 3, EMBED)

    def check():
        with torch.no_grad():
            result = ours.eval()(x, x, x, need_weights=need_weights)
            assert_close(result[0], theirs(x, x, x, need_weights=need_weights)[0])

    check()
    for layer in (theirs, ours):
        torch.nn.utils.parametrizations.weight_norm(layer.out_proj, "weight")
        torch.manual_seed(0)
        torch.nn.utils.prune.random_unstructured(layer, "in_proj_weight", 0.5)
    check()
    for layer in (theirs, ours):
        layer.out_proj.parametrizations.weight.original0.data.mul_(3)
    check()
