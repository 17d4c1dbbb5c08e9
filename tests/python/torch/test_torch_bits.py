"""The same call has the same bits: beside other rows, padded, on any number of threads, in numpy."""

from __future__ import annotations

import concurrent.futures
import multiprocessing

import headwise
import headwise.torch
import pytest
import torch
from headwise.torch import scaled_dot_product_attention
from torch_cases import same_bits


@pytest.fixture
def layer():
    torch.manual_seed(7)
    layer = headwise.torch.MultiheadAttention(96, 6, batch_first=True).eval()
    torch.nn.init.normal_(layer.in_proj_bias)
    return layer


@pytest.fixture(params=[1, 2])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def numpy_layer(layer):
    config = headwise.presets.torch(layer.embed_dim, layer.num_heads)
    tensors = {name: tensor.numpy() for name, tensor in layer.state_dict().items()}
    return headwise.MultiHeadAttention(config, headwise.presets.torch_weights(config, tensors))


def modes(layer):
    """Without autograd, and with it."""
    with torch.no_grad():
        yield layer
    yield layer


def test_layer(layer, threads):
    x = torch.randn(8, 37, 96)
    lengths = [37, 1, 5, 16, 17, 30, 36, 33]
    padding = torch.arange(37) >= torch.tensor(lengths)[:, None]
    as_float = torch.zeros(8, 37).masked_fill(padding, -torch.inf)
    whole = numpy_layer(layer).forward(x.numpy(), context=headwise.Context(1),
                                       mask=headwise.valid_lengths(lengths), weights=headwise.averaged_weights())
    for ours in modes(layer):
        for mask in (padding, as_float):
            output, weights = ours(x, x, x, key_padding_mask=mask)
            assert same_bits(output, torch.from_numpy(whole.output))
            assert same_bits(weights, torch.from_numpy(whole.weights))
        for i, n in enumerate(lengths):
            one = x[i : i + 1, :n]
            assert same_bits(ours(one, one, one)[0][0], output[i, :n])
            assert same_bits(ours(one[0], one[0], one[0], need_weights=False)[0], output[i, :n])


def test_sequence_first_and_strides(layer):
    x = torch.randn(4, 9, 96)
    expected = layer(x, x, x)[0]
    strided = torch.randn(9, 96, 8)[:, :, ::2].permute(2, 0, 1)
    strided.copy_(x)
    assert not strided.is_contiguous()
    layer.batch_first = False
    for ours in modes(layer):
        y = x.transpose(0, 1)
        assert same_bits(ours(y, y, y)[0].transpose(0, 1), expected)
    layer.batch_first = True
    for ours in modes(layer):
        assert same_bits(ours(strided, strided, strided)[0], expected)


def test_gradients_of_rows_do_not_depend_on_the_batch(layer, threads):
    x = torch.randn(8, 20, 96)
    padding = torch.arange(20) >= torch.tensor([20, 3, 9, 20, 1, 12, 19, 20])[:, None]

    def gradient(x, mask):
        x = x.clone().requires_grad_()
        layer(x, x, x, key_padding_mask=mask)[0].square()[~mask].sum().backward()
        return x.grad

    whole = gradient(x, padding)
    for i in range(8):
        n = int((~padding[i]).sum())
        assert same_bits(gradient(x[i : i + 1, :n], padding[i : i + 1, :n])[0], whole[i, :n])


def test_function(threads):
    q, k, v = torch.randn(8, 4, 21, 16), torch.randn(8, 2, 33, 16), torch.randn(8, 2, 33, 24)
    expected = headwise.attention(q.numpy(), k.numpy(), v.numpy(), layout=headwise.Layout.HeadsFirst,
                                  context=headwise.Context(1)).output
    for requires_grad in (False, True):
        q.requires_grad_(requires_grad)
        output = scaled_dot_product_attention(q, k, v, enable_gqa=True)
        assert same_bits(output, torch.from_numpy(expected))
        padded = [torch.nn.functional.pad(x, (0, 0, 0, 5), value=torch.nan) for x in (k, v)]
        mask = torch.arange(38) < 33
        assert same_bits(scaled_dot_product_attention(q, *padded, mask[None], enable_gqa=True), output)
        assert same_bits(scaled_dot_product_attention(q[3], k[3], v[3], enable_gqa=True), output[3])
        assert same_bits(scaled_dot_product_attention(q[:, :, 5:6], k, v, enable_gqa=True), output[:, :, 5:6])


def test_linear(threads):
    torch.manual_seed(8)
    linear = headwise.torch.Linear(48, 40)
    x = torch.randn(50, 48)
    expected = headwise.linear(x.numpy(), linear.weight.detach().numpy().T, linear.bias.detach().numpy())
    for ours in (*modes(linear), *modes(linear.eval())):
        assert same_bits(ours(x), torch.from_numpy(expected))
        assert same_bits(ours(x[7]), torch.from_numpy(expected[7]))


def test_torch_itself_differs(report):
    """Why all this: rows of torch's own layer change with the batch and with padding, on most CPUs."""
    torch.manual_seed(9)
    layer = torch.nn.MultiheadAttention(512, 8, batch_first=True).eval()

    def rows_change(length: int) -> bool:
        x = torch.randn(8, length, 512)
        padded, padding = torch.nn.functional.pad(x, (0, 0, 0, 3)), torch.arange(length + 3) >= length
        with torch.no_grad():
            together = layer(x, x, x, need_weights=False)[0]
            alone = torch.cat([layer(one, one, one, need_weights=False)[0] for one in x.split(1)])
            beside = layer(padded, padded, padded, padding.expand(8, -1), need_weights=False)[0]
        return not (torch.equal(together, alone) and torch.equal(together, beside[:, :length]))

    changes = [length for length in (1, 2, 5, 33) if rows_change(length)]
    report(f"bits of torch's own layer change with batch or padding at lengths {changes} of 1, 2, 5, 33")
    headwise.torch.swap(layer)
    assert not any(map(rows_change, (1, 2, 5, 33)))


def _in_child(layer, x, queue):
    with torch.no_grad():
        queue.put(layer(x, x, x)[0].numpy())


def test_thread_pool_and_fork(layer):
    x = torch.randn(4, 9, 96)
    with torch.no_grad():
        expected = layer(x, x, x)[0]

    def run(_):
        with torch.no_grad():
            direct = layer(x, x, x)[0]
        return direct, layer(x, x, x)[0]  # grad mode is a thread's own, too

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for direct, recorded in pool.map(run, range(24)):
            assert same_bits(direct, expected) and same_bits(recorded, expected)
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(layer, x, queue))
    child.start()
    assert same_bits(torch.from_numpy(queue.get()), expected)
    child.join()
    assert child.exitcode == 0
