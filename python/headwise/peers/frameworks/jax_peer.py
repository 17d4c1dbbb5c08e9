"""JAX and Flax, compiled: jax.nn.dot_product_attention, a layer by hand, flax.nnx.MultiHeadAttention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from headwise.peers.peer import Peer, Way
from headwise.peers.rows import WEIGHTS, Arrays, Row, dense_mask


def sequence_first(array: np.ndarray) -> np.ndarray:
    """(B,H,T,d) ↔ (B,T,H,d)"""
    return np.ascontiguousarray(array.swapaxes(1, 2))


class JaxPeer(Peer):
    name = "JAX/Flax"
    packages = ("jax", "jaxlib", "flax")
    settings = ("`jax.jit` of `jax.nn.dot_product_attention` with its own flags for causal, lengths and windows (and a "
                "dense mask), on (B,T,H,d), and of two products and a softmax on (B,H,T,d); layers by hand "
                "with `@`, and `flax.nnx.MultiHeadAttention`; XLA's threads follow the CPUs of the process")

    def __init__(self, threads: int) -> None:
        import jax

        self._jax = jax

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        make = self._layer_way if row.is_layer else self._attention_way
        for name, attend in self._attentions(row, arrays):
            yield make(row, arrays, name, attend)
        if not row.is_layer:
            yield self._products_way(row, arrays)
        if row.is_layer and not row.training and not row.is_grouped:
            yield self._flax_way(row, arrays)

    def _attentions(self, row: Row, arrays: Arrays) -> Iterator[tuple[str, Callable]]:
        attention = self._jax.nn.dot_product_attention
        if row.causal:
            yield "is_causal", lambda q, k, v: attention(q, k, v, is_causal=True)
        elif row.window:
            yield "local_window_size", lambda q, k, v: attention(q, k, v, local_window_size=(row.window - 1, 0))
        elif row.lengths:
            lengths = np.array(row.lengths, np.int32)
            yield "key_value_seq_lengths", lambda q, k, v: attention(q, k, v, key_value_seq_lengths=lengths)
        elif row.bias:
            bias = self._jax.device_put(arrays["bias"][None])
            yield "bias", lambda q, k, v: attention(q, k, v, bias=bias)
        elif not row.keep:
            yield "dot_product_attention", attention
        mask = dense_mask(row)
        if mask is not None:
            constant = self._jax.device_put(mask)
            yield "mask", lambda q, k, v: attention(q, k, v, mask=constant)

    def _way(self, name: str, function: Callable, given: list, names: tuple[str, ...], shape: Callable) -> Way:
        """names: of what the function returns; shape: how Headwise would store it."""
        compiled = self._jax.jit(function)
        ready = self._jax.block_until_ready

        def outputs(results) -> Arrays:
            return {n: shape(n, np.asarray(r)) for n, r in zip(names, results, strict=True)}

        return Way(f"jit, {name}", lambda: ready(compiled(*given)), outputs)

    def _with_gradients(self, function: Callable) -> Callable:
        def both(gradient, *inputs):
            output, pull = self._jax.vjp(function, *inputs)
            return output, *pull(gradient)

        return both

    def _attention_way(self, row: Row, arrays: Arrays, name: str, attend: Callable) -> Way:
        names = ("query", "key", "value")
        given = {n: self._jax.device_put(sequence_first(array)) for n, array in arrays.items() if n != "bias"}
        return self._differentiable_way(row, name, attend, given, names, lambda _, array: array.swapaxes(1, 2))

    def _products_way(self, row: Row, arrays: Arrays) -> Way:
        """Two products and a softmax on (B,H,T,d): rows of a head lie together."""
        jax, jnp = self._jax, self._jax.numpy
        groups = (row.batch, row.kv_heads, row.heads // row.kv_heads, row.queries, row.size)
        bias = jax.device_put(arrays["bias"].reshape(1, *groups[1:3], row.queries, row.keys)) if row.bias else 0.0
        mask = dense_mask(row)
        attended = None if mask is None else jax.device_put(mask[:, :, None])

        def attend(q, k, v):
            scaled = q.reshape(groups) * row.size**-0.5
            scores = jnp.einsum("bhgtd,bhsd->bhgts", scaled, k) + bias
            weights = jax.nn.softmax(scores, where=attended)
            return jnp.einsum("bhgts,bhsd->bhgtd", weights, v).reshape(q.shape)

        given = {n: jax.device_put(array) for n, array in arrays.items() if n != "bias"}
        names = ("query", "key", "value")
        return self._differentiable_way(row, "products and softmax", attend, given, names, lambda _, array: array)

    def _differentiable_way(self, row: Row, name: str, function: Callable, given: dict, names: tuple[str, ...],
                            shape: Callable) -> Way:
        inputs = [given[n] for n in names]
        if not row.training:
            return self._way(name, lambda *x: (function(*x),), inputs, ("output",), shape)
        return self._way(name, self._with_gradients(function), [given["output_gradient"], *inputs],
                         ("output", *names), shape)

    def _layer_way(self, row: Row, arrays: Arrays, name: str, attend: Callable) -> Way:
        names = ("input", *WEIGHTS)
        given = {n: self._jax.device_put(array) for n, array in arrays.items()}

        def project(x, kernel, bias):
            return (x @ kernel + bias).reshape(row.batch, row.queries, -1, row.size)

        def layer(x, q_kernel, q_bias, k_kernel, k_bias, v_kernel, v_bias, o_kernel, o_bias):
            heads = attend(project(x, q_kernel, q_bias), project(x, k_kernel, k_bias), project(x, v_kernel, v_bias))
            return heads.reshape(row.batch, row.queries, -1) @ o_kernel + o_bias

        return self._differentiable_way(row, f"products, {name}", layer, given, names, lambda _, array: array)

    def _flax_way(self, row: Row, arrays: Arrays) -> Way:
        from flax import nnx

        layer = nnx.MultiHeadAttention(row.heads, row.features, decode=False, rngs=nnx.Rngs(0))
        for part, linear in (("query", layer.query), ("key", layer.key), ("value", layer.value),
                             ("attention_output", layer.out)):
            linear.kernel.set_value(arrays[f"{part}/kernel"].reshape(linear.kernel.shape))
            linear.bias.set_value(arrays[f"{part}/bias"].reshape(linear.bias.shape))
        graph, state = nnx.split(layer)
        mask = dense_mask(row)

        def call(state, x):
            return (nnx.merge(graph, state)(x, mask=mask),)

        given = [state, self._jax.device_put(arrays["input"])]
        return self._way("flax.nnx.MultiHeadAttention", call, given, ("output",), lambda _, array: array)
