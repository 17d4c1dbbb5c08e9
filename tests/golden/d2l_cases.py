"""Dive into Deep Learning's multi-head attention, from its definition: projections without bias,
heads as contiguous chunks moved into the batch axis, scores beyond a length replaced by −1e6."""

import numpy as np
import torch

from golden_file import GoldenFile, Numbers, prefixed
from torch_cases import arrays, gradients, randomised


class D2lAttention(torch.nn.Module):
    def __init__(self, num_hiddens, num_heads, bias):
        super().__init__()
        self.num_heads = num_heads
        for name in ("W_q", "W_k", "W_v", "W_o"):
            setattr(self, name, torch.nn.Linear(num_hiddens, num_hiddens, bias=bias))

    def _heads_to_batch(self, x):
        batch, length, hiddens = x.shape
        x = x.reshape(batch, length, self.num_heads, hiddens // self.num_heads)
        return x.transpose(1, 2).reshape(batch * self.num_heads, length, -1)

    def forward(self, query, key, value, valid_lens=None):
        batch, queries, hiddens = query.shape
        q, k, v = (self._heads_to_batch(project(x)) for project, x in
                   ((self.W_q, query), (self.W_k, key), (self.W_v, value)))
        scores = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        if valid_lens is not None:
            lengths = valid_lens.repeat_interleave(self.num_heads, dim=0)
            if lengths.dim() == 1:
                lengths = lengths[:, None].expand(-1, queries)
            beyond = torch.arange(key.shape[1]) >= lengths[:, :, None]
            scores = scores.masked_fill(beyond, -1e6)
        attention = scores.softmax(-1)
        heads = (attention @ v).reshape(batch, self.num_heads, queries, -1)
        output = self.W_o(heads.transpose(1, 2).reshape(batch, queries, hiddens))
        return output, attention.reshape(batch, self.num_heads, queries, -1)


def _setup(name, num_hiddens, num_heads, bias, queries, keys):
    numbers = Numbers("d2l " + name)
    # Sums over more features, smaller weights: scores stay of size 1.
    module = randomised(D2lAttention(num_hiddens, num_heads, bias), numbers)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 2 / num_hiddens**0.5
    inputs = {tensor: numbers.normal(2, length, num_hiddens)
              for tensor, length in (("query", queries), ("key", keys), ("value", keys))}
    options = {"num_hiddens": num_hiddens, "num_heads": num_heads, "bias": bias}
    return numbers, module, inputs, options


def _case(golden, name, valid_lens, num_hiddens=20, num_heads=5, bias=False, queries=4, keys=6):
    numbers, module, inputs, options = _setup(name, num_hiddens, num_heads, bias, queries, keys)
    leaves = {tensor: torch.from_numpy(array).requires_grad_() for tensor, array in inputs.items()}
    parameters = prefixed("weight/", dict(module.named_parameters()))
    lengths = None if valid_lens is None else torch.tensor(valid_lens)
    output, attention = module(**leaves, valid_lens=lengths)
    cotangent = torch.from_numpy(numbers.normal(*output.shape))
    tensors = {**leaves, **parameters, "output": output, "attention": attention,
               "cotangent": cotangent,
               **prefixed("gradient/", gradients(output, cotangent, {**leaves, **parameters}))}
    if lengths is not None:
        tensors["valid_lens"] = lengths
    golden.add(name, options, arrays(tensors))


def _forward_case(golden, name, valid_lens, differs):
    _, module, inputs, options = _setup(name, 20, 5, True, 4, 6)
    lengths = torch.tensor(valid_lens)
    if differs == "leak":
        inputs["value"][1, 5] = np.nan
    with torch.no_grad():
        run = lambda value: module(torch.from_numpy(inputs["query"]),
                                   torch.from_numpy(inputs["key"]), torch.from_numpy(value),
                                   lengths)[0].numpy()
        tensors = {**inputs, "valid_lens": lengths.numpy(), "output": run(inputs["value"]),
                   **arrays(prefixed("weight/", dict(module.named_parameters())))}
        if differs == "leak":
            tensors["clean_output"] = run(np.nan_to_num(inputs["value"]))
        else:
            tensors["differing_rows"] = np.broadcast_to(lengths.numpy()[:, None] == 0, (2, 4))
    golden.add(name, {**options, "differs": differs}, tensors)


def make():
    golden = GoldenFile()
    _case(golden, "book", [3, 2], num_hiddens=100)
    _case(golden, "no_lengths", None)
    _case(golden, "lengths", [6, 1])
    _case(golden, "length_per_query", [[1, 2, 3, 4], [6, 5, 1, 3]])
    _case(golden, "with_bias", [4, 5], bias=True)
    _forward_case(golden, "length_zero", [0, 4], "mean_of_value")
    _forward_case(golden, "nan_in_masked_value", [6, 4], "leak")
    return golden
