"""headwise.torch.scaled_dot_product_attention against torch's own."""

from __future__ import annotations

import headwise.torch
import numpy
import pytest
import torch
from headwise.torch import scaled_dot_product_attention
from torch_cases import assert_close, double, same_bits

T, S, D, DV = 5, 7, 6, 3

# query, key and value without their last two axes; attn_mask's shape.
SHAPES = {
    "two_axes": ((), (), (T, S)),
    "batch": ((3,), (3,), (3, T, S)),
    "heads": ((2, 4), (2, 4), (2, 4, T, S)),
    "mask_of_heads": ((2, 4), (2, 4), (4, 1, S)),
    "mask_of_batch": ((2, 4), (2, 4), (2, 1, T, S)),
    "mask_of_rows": ((2, 4), (2, 4), (T, 1)),
    "mask_of_keys": ((2, 4), (2, 4), (1, S)),
    "five_axes": ((3, 2, 4), (3, 2, 4), (2, 1, T, S)),
    "five_axes_mask": ((3, 2, 4), (3, 2, 4), (3, 1, 4, T, S)),
    "grouped": ((2, 4), (2, 2), (2, 4, T, S)),
    "grouped_five": ((3, 2, 4), (3, 2, 1), (T, S)),
}
MASKS = ("none", "bool", "float", "causal")


def arguments(name: str, mask: str):
    of_query, of_key, of_mask = SHAPES[name]
    shapes = ((*of_query, T, D), (*of_key, S, D), (*of_key, S, DV))
    tensors = [torch.randn(shape, requires_grad=True) for shape in shapes]
    options = {"is_causal": mask == "causal"}
    if name.startswith("grouped"):
        options["enable_gqa"] = True
    if mask == "bool":
        options["attn_mask"] = torch.rand(of_mask) < 0.7
        options["attn_mask"][..., 0] = True
    elif mask == "float":
        options["attn_mask"] = torch.randn(of_mask, requires_grad=True)
    return tensors, options


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("name", SHAPES)
def test_parity(name, mask):
    torch.manual_seed(11)
    for scale in (None, 0.3):
        tensors, options = arguments(name, mask)
        options["scale"] = scale
        leaves = [*tensors, *(m for m in [options.get("attn_mask")] if m is not None and m.requires_grad)]
        exact_tensors = [*map(double, tensors)]
        exact_options = {k: double(v) for k, v in options.items()}
        exact_leaves = [*exact_tensors, *([exact_options["attn_mask"]] if mask == "float" else [])]
        ours = scaled_dot_product_attention(*tensors, **options)
        exact = torch.nn.functional.scaled_dot_product_attention(*exact_tensors, **exact_options)
        assert_close(ours, exact)
        cotangent = torch.randn_like(ours)
        found = torch.autograd.grad(ours, leaves, cotangent)
        for a, b in zip(found, torch.autograd.grad(exact, exact_leaves, cotangent.double()), strict=True):
            assert_close(a, b)
        with torch.no_grad():
            assert same_bits(scaled_dot_product_attention(*tensors, **options), ours)


def test_broadcast_of_batch_and_heads():
    torch.manual_seed(12)
    q, k, v = torch.randn(1, 4, T, D), torch.randn(3, 1, S, D), torch.randn(3, 4, S, DV)
    exact = torch.nn.functional.scaled_dot_product_attention(q.double(), k.double(), v.double())
    assert_close(scaled_dot_product_attention(q, k, v), exact)


@pytest.mark.parametrize("heads", [(6, 3, 2), (6, 1, 3), (6, 6, 2), (4, 2, 1)])
def test_groups_of_keys_and_of_values(heads):
    torch.manual_seed(15)
    tensors = [torch.randn(2, h, n, d, requires_grad=True)
               for h, n, d in zip(heads, (T, S, S), (D, D, DV), strict=True)]
    exact_tensors = [*map(double, tensors)]
    ours = scaled_dot_product_attention(*tensors, enable_gqa=True)
    exact = torch.nn.functional.scaled_dot_product_attention(*exact_tensors, enable_gqa=True)
    assert_close(ours, exact)
    found, wanted = (torch.autograd.grad(y.square().sum(), leaves)
                     for y, leaves in ((ours, tensors), (exact, exact_tensors)))
    for a, b in zip(found, wanted, strict=True):
        assert_close(a, b)
    with torch.no_grad():
        assert same_bits(scaled_dot_product_attention(*tensors, enable_gqa=True), ours)


def test_a_mask_and_is_causal_both_hold():
    """torch joins them or refuses, depending on the kernel it picks; here it joins."""
    torch.manual_seed(13)
    x, mask = torch.randn(1, 2, 5, 4), torch.randn(5, 5)
    joined = scaled_dot_product_attention(x, x, x, mask, is_causal=True)
    explicit = mask.masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), -torch.inf)
    assert same_bits(joined, scaled_dot_product_attention(x, x, x, explicit))
    assert_close(joined, torch.nn.functional.scaled_dot_product_attention(x, x, x, mask, is_causal=True))


def test_empty_row_is_zero_and_nan_does_not_leak():
    q, k, v = (torch.randn(1, 2, 3, 4) for _ in range(3))
    k[..., 1:, :], v[..., 1:, :] = torch.nan, torch.nan
    keep = torch.tensor([[True, False, False]] * 2 + [[False] * 3])
    for mask in (keep, torch.zeros(3, 3).masked_fill(~keep, -torch.inf)):
        q.requires_grad_()
        output = scaled_dot_product_attention(q, k, v, mask)
        assert torch.isfinite(output).all()
        assert not output[..., 2, :].any()
        assert_close(output[..., :2, :], v[..., :1, :].expand(-1, -1, 2, -1))
        assert torch.isfinite(torch.autograd.grad(output.sum(), q)[0]).all()


def test_dropout_follows_torchs_seed():
    x = torch.randn(2, 3, 8, 4, requires_grad=True)

    def run(seed, p=0.4):
        torch.manual_seed(seed)
        output = scaled_dot_product_attention(x, x, x, dropout_p=p)
        return output, torch.autograd.grad(output.square().sum(), x)[0]

    a, b, c = run(1), run(1), run(2)
    assert same_bits(a[0], b[0]) and same_bits(a[1], b[1])
    assert not same_bits(a[0], c[0])
    state = torch.get_rng_state()
    scaled_dot_product_attention(x, x, x)  # nothing is drawn without dropout
    assert torch.equal(state, torch.get_rng_state())


def test_dropout_has_its_gradient():
    """What is dropped does not depend on the numbers: with it fixed the output is linear in value."""
    q, k, v, c = (torch.randn(1, 2, 6, 4) for _ in range(4))
    v.requires_grad_()
    torch.manual_seed(3)
    output = scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    gradient = torch.autograd.grad(output, v, c)[0]
    assert abs(((output.double() * c).sum() - (gradient.double() * v).sum()).item()) < 1e-5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_numbers_are_computed_in_float32_and_rounded_once(dtype):
    x = torch.randn(2, 3, 8, 4).to(dtype)
    y = scaled_dot_product_attention(x, x, x, torch.randn(8, 8).to(dtype))
    assert y.dtype == dtype
    torch.manual_seed(0)
    mask = torch.randn(8, 8).to(dtype)
    wide = scaled_dot_product_attention(x.float(), x.float(), x.float(), mask.float())
    assert torch.equal(scaled_dot_product_attention(x, x, x, mask), wide.to(dtype))


def test_autocast_computes_in_float32():
    x = torch.randn(2, 3, 8, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        narrow = x.bfloat16()
        y = scaled_dot_product_attention(narrow, x, x)
        assert y.dtype == torch.float32
    assert same_bits(y, scaled_dot_product_attention(narrow.float(), x, x))


X = torch.ones(2, 3, 5, 4)
MISTAKES = {
    "dtype": ((X.double(),) * 3, {}, r"query: expected float32 .*, got torch.float64"),
    "dtypes": ((X, X.half(), X), {}, r"key: expected the same dtype .* torch.float32, got torch.float16"),
    "integers": ((X.int(),) * 3, {}, r"query: expected float32"),
    "features": ((X, X[..., :3], X), {}, r"key: expected a last axis of 4, .* got shape \(2, 3, 5, 3\)"),
    "positions": ((X, X, X[:, :, :3]), {}, r"value: expected 5 positions"),
    "batch": ((X, X[:1].expand(3, -1, -1, -1), X), {}, r"key, value: expected batch axes"),
    "heads": ((X, X[:, :2], X[:, :2]), {}, r"key, value: expected batch axes"),
    "groups": ((X, X[:, :2], X[:, :2]), {"enable_gqa": True}, r"heads that divide query's 3, got 2 and 2"),
    "groups_of_values": ((X, X, X[:, :2]), {"enable_gqa": True}, r"heads that divide query's 3, got 3 and 2"),
    "no_heads": ((X, X[:, :0], X[:, :0]), {"enable_gqa": True}, r"heads that divide query's 3, got 0 and 0"),
    "one_axis": ((X[0, 0, 0],) * 3, {}, r"query: expected axes"),
    "mask_shape": ((X, X, X), {"attn_mask": torch.ones(4, 5)}, r"attn_mask: .* broadcasts to \(2, 3, 5, 5\)"),
    "mask_rank": ((X, X, X), {"attn_mask": torch.ones(1, 2, 3, 5, 5)}, r"attn_mask: expected a shape"),
    "mask_dtype": ((X, X, X), {"attn_mask": torch.ones(5, 5).int()}, r"attn_mask: expected bool or float32"),
    "mask_double": ((X, X, X), {"attn_mask": torch.ones(5, 5).double()}, r"attn_mask: expected bool or float32"),
    "dropout": ((X, X, X), {"dropout_p": 1.5}, r"dropout_p: expected a number in \[0, 1\), got 1.5"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    tensors, options, message = MISTAKES[name]
    with pytest.raises(RuntimeError, match=message):
        scaled_dot_product_attention(*tensors, **options)
    # torch computes in float64 and integers, and reads values beyond their end that are too short or not there.
    if name not in ("dtype", "integers", "positions", "no_heads"):
        with pytest.raises(RuntimeError):  # the same kind as torch's own
            torch.nn.functional.scaled_dot_product_attention(*tensors, **options)


KINDS = {
    "numpy": ((X.numpy(), X, X), {}, TypeError, r"query: expected a torch.Tensor, got ndarray"),
    "none": ((X, None, X), {}, TypeError, r"key: expected a torch.Tensor, got NoneType"),
    "list": ((X, X, X), {"attn_mask": [[0]]}, TypeError, r"attn_mask: expected a torch.Tensor, got list"),
    "dropout_of_text": ((X, X, X), {"dropout_p": "a"}, TypeError, r"dropout_p: expected a number, got str"),
    "scale_of_text": ((X, X, X), {"scale": "a"}, TypeError, r"scale: expected a number, got str"),
    "learned_scale": ((X, X, X), {"scale": torch.ones((), requires_grad=True)}, TypeError,
                      r"scale: expected a number, got Tensor"),
    # These torch computes.
    "scale": ((X, X, X), {"scale": float("nan")}, RuntimeError, r"scale: expected a finite number, got nan"),
    "all_dropped": ((X, X, X), {"dropout_p": 1.0}, RuntimeError, r"dropout_p: expected a number in \[0, 1\)"),
}


@pytest.mark.parametrize("name", KINDS)
def test_mistakes_have_torchs_kind(name):
    tensors, options, kind, message = KINDS[name]
    with pytest.raises(kind, match=r"^\[scaled_dot_product_attention\] " + message):
        scaled_dot_product_attention(*tensors, **options)
    if kind is TypeError:
        with pytest.raises(kind):
            torch.nn.functional.scaled_dot_product_attention(*tensors, **options)


def test_numbers_of_numpy_and_torch():
    expected = scaled_dot_product_attention(X, X, X, scale=0.5)
    for scale in (numpy.float32(0.5), numpy.float64(0.5), torch.tensor(0.5)):
        assert same_bits(scaled_dot_product_attention(X, X, X, dropout_p=scale * 0, scale=scale), expected)


def test_lazily_negated_views():
    z = torch.randn(1, 2, 5, 4, dtype=torch.complex64)
    x, mask = z.conj().imag, torch.randn(5, 5, dtype=torch.complex64).conj().imag
    assert x.is_neg() and mask.is_neg()
    expected = scaled_dot_product_attention(*[x.resolve_neg()] * 3, mask.resolve_neg())
    assert same_bits(scaled_dot_product_attention(x, x, x, mask), expected)
    layer, linear = (module(4, 2).eval() for module in (headwise.torch.MultiheadAttention, headwise.torch.Linear))
    y = x[0]
    with torch.no_grad():
        for options in ({"need_weights": False}, {"attn_mask": mask[:2, :2]}):
            assert same_bits(layer(y, y, y, **options)[0], layer(*[y.resolve_neg()] * 3, **options)[0])
        assert same_bits(linear(y), linear(y.resolve_neg()))
        linear.weight = torch.nn.Parameter(x[0, 0, :2], requires_grad=False)
        assert_close(linear(y), torch.nn.functional.linear(y.double(), linear.weight.double(), linear.bias.double()))


def test_nothing_to_attend():
    q, nothing = torch.randn(2, 3, 4, 5), torch.empty(2, 3, 0, 5)
    assert torch.equal(scaled_dot_product_attention(q, nothing, nothing), torch.zeros_like(q))
    empty = torch.empty(0, 3, 4, 5)
    assert scaled_dot_product_attention(empty, empty, empty).shape == empty.shape


def test_no_forward_mode():
    x = torch.randn(1, 2, 3, 4)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="forward-mode"):
        dual = torch.autograd.forward_ad.make_dual(x, x)
        scaled_dot_product_attention(dual, x, x)


def test_the_module_exports_what_it_says():
    assert all(getattr(headwise.torch, name).__doc__ for name in headwise.torch.__all__)


def test_many_gradients_at_once_are_refused():
    x = torch.randn(1, 2, 3, 4)

    def itself(x: torch.Tensor) -> torch.Tensor:
        return scaled_dot_product_attention(x, x, x)

    with pytest.raises(RuntimeError, match="Batching rule not implemented for headwise::attention_backward"):
        torch.autograd.functional.jacobian(itself, x, vectorize=True)
    assert torch.autograd.functional.jacobian(itself, x).shape == (*x.shape, *x.shape)
