"""The operators as torch sees them: opcheck, gradcheck, torch.compile, torch.export, vmap."""

from __future__ import annotations

import copy
import warnings

import headwise.torch
import pytest
import torch
from headwise.torch import scaled_dot_product_attention
from torch_cases import assert_close, same_bits

OPS = torch.ops.headwise


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def qkv(queries=3, keys=6, heads=4, kv_heads=2, size=8, value_size=5):
    return leaf(2, queries, heads, size), leaf(2, keys, kv_heads, size), leaf(2, keys, kv_heads, value_size)


KEEP = torch.tensor([[True, True, False, True, False, True]] * 3)[None, None]

# Arguments after query, key and value; keys that masks speak of are those before the tail.
ATTENTION = {
    "plain": lambda: ([], [], None, 0.0, False, None, None, 0, 0),
    "masked": lambda: ([KEEP], [leaf(1, 4, 3, 6)], None, 0.0, False, None, None, 0, 1),
    "two_biases": lambda: ([KEEP], [leaf(2, 1, 1, 6), leaf(1, 4, 3, 6)], None, 0.0, True, 0.5, 1.5, 0, 2),
    "tail": lambda: ([KEEP[..., :5]], [leaf(1, 1, 3, 5)], None, 0.0, False, None, None, 1, 1),
    "dropout": lambda: ([], [], torch.tensor(5), 0.3, True, 0.4, None, 0, 0),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_opcheck_attention(name):
    torch.manual_seed(21)
    arguments = (*qkv(), *ATTENTION[name]())
    torch.library.opcheck(OPS.attention.default, arguments)
    plain = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    plain[4] = [bias.detach() for bias in plain[4]]
    result = OPS.attention(*plain)[:3]
    torch.library.opcheck(OPS.attention_backward.default,
                          (*plain[:3], *result, torch.randn_like(result[0]), *plain[3:-1], True))


@pytest.mark.parametrize("bias", [True, False])
def test_opcheck_linear(bias):
    torch.library.opcheck(OPS.linear.default, (leaf(2, 3, 4), leaf(5, 4), leaf(5) if bias else None))
    torch.library.opcheck(OPS.linear_backward.default, (torch.randn(2, 3, 4), torch.randn(5, 4), torch.randn(2, 3, 5)))


def gradcheck(function, inputs) -> None:
    """In float32: steps of 1/64, so that what they leave of the second derivative and the rounding of
    the result are both some 1e-4. What is computed twice must be the same to the bit."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is not float64
        assert torch.autograd.gradcheck(function, inputs, eps=2**-6, atol=2e-3, rtol=2e-3, nondet_tol=0.0)


@pytest.mark.parametrize("name", ATTENTION)
def test_gradcheck_attention(name):
    torch.manual_seed(22)
    keep, bias, *rest = ATTENTION[name]()
    inputs = tuple((x.detach() / 2).requires_grad_() for x in qkv(size=4, value_size=2))

    def function(q, k, v, *bias):
        output, _, _, weights = OPS.attention(q, k, v, keep, list(bias), *rest)
        return (output, weights) if rest[-1] else output

    gradcheck(function, (*inputs, *bias))


def test_gradcheck_layer():
    torch.manual_seed(23)
    layer = headwise.torch.MultiheadAttention(4, 2, add_bias_kv=True, batch_first=True)
    names = [name for name, _ in layer.named_parameters()]

    def function(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters, strict=True)), (x, x, x))

    gradcheck(function, (leaf(1, 3, 4), *layer.parameters()))


@pytest.mark.parametrize("learned", [True, False])
def test_gradient_through_the_weights_alone(learned):
    torch.manual_seed(26)
    q, k, v = qkv()
    bias = torch.randn(1, 4, 3, 6, requires_grad=learned)
    weights = OPS.attention(q, k, v, [KEEP], [bias], None, 0.0, False, None, None, 0, 1)[3]
    leaves = [q, k, bias] if learned else [q, k]
    exact = [leaf.detach().double().requires_grad_() for leaf in leaves]
    exact_bias = exact[2] if learned else bias.double()
    keys = exact[1].repeat_interleave(2, dim=2)
    scores = torch.einsum("bthd,bshd->bhts", exact[0], keys) * 8**-0.5 + exact_bias
    expected = scores.masked_fill(~KEEP, -torch.inf).softmax(-1)
    assert_close(weights, expected)
    cotangent = torch.randn_like(weights)
    found = torch.autograd.grad(weights, leaves, cotangent)
    for a, b in zip(found, torch.autograd.grad(expected, exact, cotangent.double()), strict=True):
        assert_close(a, b)


def test_linear_of_a_frozen_weight_has_the_same_gradient():
    x, weight, bias, cotangent = leaf(7, 12), torch.randn(9, 12), torch.randn(9), torch.randn(7, 9)
    frozen = torch.autograd.grad(OPS.linear(x, weight, bias), x, cotangent)[0]
    trained = torch.autograd.grad(OPS.linear(x, weight.requires_grad_(), bias), [x, weight], cotangent)
    assert same_bits(frozen, trained[0])
    assert_close(trained[0], cotangent.double() @ weight.double())
    assert_close(trained[1], cotangent.double().T @ x.double())


def test_second_derivatives_are_refused():
    x, linear = leaf(1, 2, 3, 4), headwise.torch.Linear(4, 2)
    for output in (scaled_dot_product_attention(x, x, x), linear(x)):
        gradient = torch.autograd.grad(output.square().sum(), x, create_graph=True)[0]
        with pytest.raises(NotImplementedError, match=r"headwise\.torch has no second derivatives"):
            gradient.sum().backward()


def test_derivatives_by_torch_func_are_refused():
    x, linear = torch.randn(1, 2, 3, 4), headwise.torch.Linear(4, 2).eval().requires_grad_(False)
    for function in (lambda x: scaled_dot_product_attention(x, x, x).sum(), lambda x: linear(x).sum()):
        for transformed in (torch.func.grad(function), torch.vmap(torch.func.grad(function)),
                            torch.func.grad(lambda x, f=function: torch.vmap(f)(x).sum())):
            with pytest.raises(NotImplementedError, match=r"headwise\.torch has no derivatives by torch\.func"):
                transformed(x)


@pytest.fixture(scope="module")
def layer():
    torch.manual_seed(24)
    return headwise.torch.MultiheadAttention(16, 4, add_zero_attn=True, batch_first=True)


MASK = torch.tensor([[False, False, False, True, True], [False] * 5])


def train_step(call, layer):
    torch.manual_seed(1)
    x = torch.randn(2, 5, 16, requires_grad=True)
    output, weights = call(x, x, x, key_padding_mask=MASK)
    return output, weights, *torch.autograd.grad(output.square().sum() + weights.square().sum(),
                                                 [x, *layer.parameters()])


def test_compiled_layer_has_the_same_bits(layer):
    compiled = torch.compile(layer, fullgraph=True)
    for a, b in zip(train_step(compiled, layer), train_step(layer, layer), strict=True):
        assert same_bits(a, b)
    with torch.no_grad():
        x = torch.randn(2, 5, 16)
        assert same_bits(compiled(x, x, x, need_weights=False)[0], layer(x, x, x, need_weights=False)[0])


def test_compiled_function_with_dynamic_shapes():
    @torch.compile(fullgraph=True, dynamic=True)
    def function(q, k, mask):
        return scaled_dot_product_attention(q, k, k, mask, enable_gqa=True) * 2

    for queries, keys in ((3, 4), (5, 7), (1, 9)):
        q, k = torch.randn(2, 4, queries, 8), torch.randn(2, 2, keys, 8)
        mask = torch.randn(queries, keys)
        assert same_bits(function(q, k, mask), scaled_dot_product_attention(q, k, k, mask, enable_gqa=True) * 2)


def test_compiled_dropout_runs():
    layer = headwise.torch.MultiheadAttention(8, 2, dropout=0.5)
    x = torch.randn(6, 1, 8)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.manual_seed(3)
    expected = layer(x, x, x)[0]
    torch.manual_seed(3)
    assert same_bits(compiled(x, x, x)[0], expected)


@pytest.mark.parametrize("strict", [True, False])
def test_exported_layer_has_the_same_bits(layer, strict):
    layer.eval()
    x = torch.randn(2, 5, 16)
    batch, length = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("length", min=2, max=99)
    shapes = {name: {0: batch, 1: length} for name in ("query", "key", "value")}
    program = torch.export.export(layer, (x, x, x), dynamic_shapes=shapes, strict=strict)
    other = torch.randn(3, 8, 16)
    for a, b in zip(program.module()(other, other, other), layer(other, other, other), strict=True):
        assert same_bits(a, b)
    names = {str(node.target) for node in program.graph.nodes}
    assert {"headwise.linear.default", "headwise.attention.default"} <= names
    layer.train()


def test_vmap():
    torch.manual_seed(25)
    q, k = torch.randn(5, 2, 3, 4, 8), torch.randn(5, 2, 3, 6, 8)
    masks = torch.rand(5, 4, 6) < 0.8
    function = torch.vmap(lambda q, k, mask: scaled_dot_product_attention(q, k, k, mask))
    expected = torch.stack([scaled_dot_product_attention(q[i], k[i], k[i], masks[i]) for i in range(5)])
    assert same_bits(function(q, k, masks), expected)
    layer = headwise.torch.Linear(8, 3)
    mapped = torch.vmap(layer, in_dims=1)(q)
    assert same_bits(mapped, layer(q.transpose(0, 1)))


def test_traced_and_meta():
    layer = headwise.torch.MultiheadAttention(8, 2).eval()
    x = torch.randn(3, 2, 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = torch.jit.trace(layer, (x, x, x))
    assert same_bits(traced(x, x, x)[0], layer(x, x, x)[0])
    meta = headwise.torch.MultiheadAttention(8, 2, device="meta")
    output, weights = meta(*[x.to("meta")] * 3)
    assert (output.shape, weights.shape) == ((3, 2, 8), (2, 3, 3))


META = torch.device("meta")


def elsewhere() -> dict:
    """Calls with numbers and without them at once."""
    x, q, mask = torch.randn(3, 2, 8), torch.randn(1, 2, 3, 4), torch.zeros(3, 3)
    layer, linear = headwise.torch.MultiheadAttention(8, 2), headwise.torch.Linear(8, 2)
    empty_layer, empty_linear = (copy.deepcopy(module).to(META) for module in (layer, linear))
    heads, no_heads = torch.randn(2, 3, 2, 8), torch.empty(2, 3, 2, 8, device=META)
    return {
        "key": lambda: scaled_dot_product_attention(q, q.to(META), q.to(META)),
        "mask": lambda: scaled_dot_product_attention(q, q, q, mask.to(META)),
        "only_mask": lambda: scaled_dot_product_attention(*[q.to(META)] * 3, mask),
        "layer_moved": lambda: empty_layer(x, x, x),
        "layer_moved_alone": lambda: empty_layer(x, x, x, need_weights=False),
        "layer_input": lambda: layer(*[x.to(META)] * 3),
        "layer_key": lambda: layer(x, x.to(META), x.to(META)),
        "layer_mask": lambda: layer(x, x, x, attn_mask=mask.to(META)),
        "layer_padding": lambda: layer(x, x, x, key_padding_mask=torch.zeros(2, 3, dtype=torch.bool, device=META)),
        "linear_moved": lambda: empty_linear(x),
        "linear_input": lambda: linear(x.to(META)),
        "linear_operator": lambda: OPS.linear(x, empty_linear.weight, None),
        "linear_backward": lambda: OPS.linear_backward(x, linear.weight, torch.empty(3, 2, 2, device=META)),
        "attention": lambda: OPS.attention(heads, no_heads, heads, *ATTENTION["plain"]()),
        "attention_mask": lambda: OPS.attention(heads, heads, heads, [KEEP[..., :3].to(META)],
                                                *ATTENTION["plain"]()[1:]),
    }


@pytest.mark.parametrize("name", elsewhere())
def test_numbers_from_nowhere_are_refused(name):
    """torch refuses these or reads what is not there."""
    with torch.no_grad(), pytest.raises(RuntimeError, match="expected the same device as before, (cpu|meta)"):
        elsewhere()[name]()


def test_a_moved_layer_forgets_its_weights():
    layer, x = headwise.torch.MultiheadAttention(8, 2).eval(), torch.randn(3, 2, 8)
    with torch.no_grad():
        layer(x, x, x)
        layer.to(META)
        with pytest.raises(RuntimeError, match="in_proj_weight: expected the same device"):
            layer(x, x, x, need_weights=False)
