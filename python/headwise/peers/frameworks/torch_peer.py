"""PyTorch: its fused operator scaled_dot_product_attention (SDPA) and nn.MultiheadAttention, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headwise.peers.peer import Peer, Way
from headwise.peers.rows import WEIGHTS, Arrays, Row, dense_mask


def as_numpy(tensor):
    return tensor.detach().numpy()


class TorchPeer(Peer):
    name = "PyTorch"
    packages = ("torch",)
    settings = ("SDPA with the fitting flag or a mask (bool or float), flex attention for causal, window and lengths, "
                "one query also by two products; `nn.MultiheadAttention(need_weights=False)` and a layer by hand with "
                "one product for Q, K and V; each eager in `inference_mode` and by `torch.compile`, layers with frozen "
                "weights, with and without `max_autotune`")

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self._torch = torch
        self._sdpa = torch.nn.functional.scaled_dot_product_attention

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        self._torch.compiler.reset()
        tensors = {name: self._torch.from_numpy(array) for name, array in arrays.items()}
        functions = self._layers(row, tensors) if row.is_layer else self._attentions(row, tensors)
        make = self._training_way if row.training else self._forward_way
        for name, function, wanted in functions:
            yield make(row, tensors, name, function, wanted)

    # ---- functions: (name, function of the inputs, "eager", "compiled" or "tuned") ----

    def _attentions(self, row: Row, tensors: dict) -> Iterator[tuple[str, Callable, str]]:
        for name, attend in self._sdpa_kinds(row, tensors):
            yield name, attend, "eager"
            yield f"{name}, compiled", attend, "compiled"
        if (row.causal or row.window or row.lengths) and not row.training:
            yield "flex_attention, compiled", self._flex(row), "compiled"

    def _layers(self, row: Row, tensors: dict) -> Iterator[tuple[str, Callable, str]]:
        for name, attend in self._sdpa_kinds(row, tensors):
            layer = self._layer_by_hand(row, attend)
            yield f"linear + {name}", layer, "eager"
            yield f"linear + {name}, compiled", layer, "compiled"
            if not row.training:
                yield f"linear + {name}, compiled, max_autotune", layer, "tuned"
        if not row.is_grouped and not row.training:
            yield "nn.MultiheadAttention", self._module(row, tensors), "eager"

    def _sdpa_kinds(self, row: Row, tensors: dict) -> Iterator[tuple[str, Callable]]:
        sdpa, grouped = self._sdpa, row.is_grouped
        mask = dense_mask(row)
        if row.bias:
            bias = tensors["bias"][None]
            yield "SDPA, float mask", lambda q, k, v: sdpa(q, k, v, attn_mask=bias)
        elif row.causal:
            yield "SDPA, is_causal", lambda q, k, v: sdpa(q, k, v, is_causal=True, enable_gqa=grouped)
        elif mask is None:
            yield "SDPA", lambda q, k, v: sdpa(q, k, v, enable_gqa=grouped)
        else:
            booleans = self._torch.from_numpy(mask)
            floats = self._torch.where(booleans, 0.0, float("-inf"))
            yield "SDPA, bool mask", lambda q, k, v: sdpa(q, k, v, attn_mask=booleans)
            yield "SDPA, float mask", lambda q, k, v: sdpa(q, k, v, attn_mask=floats)
        if row.queries == 1 and not row.is_layer:
            groups = (row.batch, row.kv_heads, -1, row.size)  # heads of a group as queries of one head
            yield "SDPA, groups as queries", lambda q, k, v: sdpa(q.view(groups), k, v).view(q.shape)
            yield "products and softmax", lambda q, k, v: self._products(q.view(groups), k, v).view(q.shape)

    @staticmethod
    def _products(q, k, v):
        return ((q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)).softmax(-1) @ v

    def _flex(self, row: Row) -> Callable:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        if row.lengths:
            lengths = self._torch.tensor(row.lengths)
            batch, attends = row.batch, lambda b, h, i, j: j < lengths[b]
        else:
            batch, window = None, row.window or row.keys
            attends = lambda b, h, i, j: (j <= i) & (i - j < window)  # noqa: E731
        blocks = create_block_mask(attends, batch, None, row.queries, row.keys, device="cpu")
        return lambda q, k, v: flex_attention(q, k, v, block_mask=blocks, enable_gqa=row.is_grouped)

    def _layer_by_hand(self, row: Row, attend: Callable) -> Callable:
        linear = self._torch.nn.functional.linear
        sizes = [row.heads * row.size, row.kv_heads * row.size, row.kv_heads * row.size]

        def layer(x, in_kernel, in_bias, out_kernel, out_bias):
            parts = linear(x, in_kernel, in_bias).split(sizes, dim=-1)
            q, k, v = (part.unflatten(-1, (-1, row.size)).transpose(1, 2) for part in parts)
            return linear(attend(q, k, v).transpose(1, 2).flatten(2), out_kernel, out_bias)

        return layer

    def _module(self, row: Row, tensors: dict) -> Callable:
        torch = self._torch
        module = torch.nn.MultiheadAttention(row.features, row.heads, batch_first=True).eval()
        with torch.no_grad():
            in_kernel, in_bias, out_kernel, out_bias = self._parameters(tensors)
            module.in_proj_weight.copy_(in_kernel)
            module.in_proj_bias.copy_(in_bias)
            module.out_proj.weight.copy_(out_kernel)
            module.out_proj.bias.copy_(out_bias)
        options: dict = {"need_weights": False}
        if row.lengths:
            options["key_padding_mask"] = ~torch.from_numpy(dense_mask(row))[:, 0, 0]
        if row.causal:
            options |= {"attn_mask": ~torch.from_numpy(dense_mask(row))[0, 0], "is_causal": True}
        return lambda x, *_: module(x, x, x, **options)[0]

    # ---- ways ----

    def _parameters(self, tensors: dict) -> list:
        """One kernel for Q, K and V, (out, in) as torch stores them."""
        torch = self._torch
        parts = ("query", "key", "value")
        return [torch.cat([tensors[f"{part}/kernel"] for part in parts], 1).t().contiguous(),
                torch.cat([tensors[f"{part}/bias"] for part in parts]),
                tensors["attention_output/kernel"].t().contiguous(), tensors["attention_output/bias"]]

    def _inputs(self, row: Row, tensors: dict) -> list:
        if row.is_layer:
            return [tensors["input"], *self._parameters(tensors)]
        return [tensors["query"], tensors["key"], tensors["value"]]

    def _forward_way(self, row: Row, tensors: dict, name: str, function: Callable, wanted: str) -> Way:
        torch = self._torch
        given = self._inputs(row, tensors)
        data = given[:1] if row.is_layer else given
        if wanted == "eager":
            data = given
        elif row.is_layer:
            options = {"freezing": True, "max_autotune": wanted == "tuned"}
            function = torch.compile(_Frozen(torch, function, given[1:]), dynamic=False, options=options)
        else:
            function = torch.compile(function, dynamic=False)

        def run():
            with torch.inference_mode():
                return function(*data)

        return Way(name, run, lambda output: {"output": as_numpy(output)})

    def _training_way(self, row: Row, tensors: dict, name: str, function: Callable, wanted: str) -> Way:
        given = [tensor.clone().requires_grad_() for tensor in self._inputs(row, tensors)]
        gradient = tensors["output_gradient"]
        if wanted == "compiled":
            function = self._torch.compile(function, dynamic=False)

        def run():
            output = function(*given)
            return output, self._torch.autograd.grad(output, given, gradient)

        def outputs(results) -> Arrays:
            output, gradients = results[0], [as_numpy(g) for g in results[1]]
            names = ("query", "key", "value")
            if not row.is_layer:
                return {"output": as_numpy(output), **dict(zip(names, gradients, strict=True))}
            return {"output": as_numpy(output), "input": gradients[0], **self._split(row, gradients[1:])}

        return Way(name, run, outputs)

    @staticmethod
    def _split(row: Row, gradients: list) -> Arrays:
        """Gradients of torch's parameters as those of Headwise's."""
        in_kernel, in_bias, out_kernel, out_bias = gradients
        ends = [row.heads * row.size, (row.heads + row.kv_heads) * row.size]
        parts: list = []
        for start, end in zip([0, *ends], [*ends, None], strict=True):
            parts += [in_kernel[start:end].T, in_bias[start:end]]
        return dict(zip(WEIGHTS, [*parts, out_kernel.T, out_bias], strict=True))


def _Frozen(torch, function: Callable, parameters: list):
    """A module whose parameters are constants to the compiler, which packs them once."""

    class Frozen(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = torch.nn.ParameterList(torch.nn.Parameter(p, requires_grad=False) for p in parameters)

        def forward(self, x):
            return function(x, *self.weights)

    return Frozen().eval()
