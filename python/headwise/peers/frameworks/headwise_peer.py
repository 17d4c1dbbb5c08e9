"""Headwise through its Python package: numpy arrays in, `out=` numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import headwise as hw
from headwise.peers.peer import Peer, Way
from headwise.peers.rows import WEIGHTS, Arrays, Row, dense_keep


def mask_of(row: Row) -> hw.Mask | None:
    if row.keep:
        return hw.keep(dense_keep(row.queries, row.keys))
    if row.lengths:
        return hw.valid_lengths(list(row.lengths))
    if row.window:
        return hw.window(row.window - 1, 0)
    return hw.causal() if row.causal else None


def config_of(row: Row) -> hw.AttentionConfig:
    return hw.AttentionConfig(num_heads=row.heads, num_kv_heads=row.kv_heads, key_dim=row.size,
                              query_features=row.features)


class HeadwisePeer(Peer):
    name = "Headwise"
    packages = ("headwise",)
    settings = ("`headwise.attention` on (B,H,T,d), `headwise.MultiHeadAttention` with its kernels packed once; "
                "for training every step makes the layer, which packs its kernels, and adds up the three gradients "
                "of its input")

    def __init__(self, threads: int) -> None:
        self._context = hw.Context(threads)

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        if row.is_layer:
            yield self._layer_training(row, arrays) if row.training else self._layer(row, arrays)
        else:
            yield self._attention(row, arrays)

    def _attention(self, row: Row, arrays: Arrays) -> Way:
        q, k, v = arrays["query"], arrays["key"], arrays["value"]
        out = np.empty_like(q)
        options = {"mask": mask_of(row), "layout": hw.Layout.HeadsFirst, "context": self._context}
        if row.bias:
            options["bias"] = hw.Bias(arrays["bias"], hw.Axes.HeadQueryKey)
        if not row.training:
            return Way("attention", lambda: hw.attention(q, k, v, out=out, **options), lambda r: {"output": r.output})
        gradient = arrays["output_gradient"]

        def run():
            r = hw.attention(q, k, v, out=out, **options)
            return r, hw.attention_backward(q, k, v, r, gradient, **options)

        def outputs(results) -> Arrays:
            r, g = results
            return {"output": r.output, "query": g.query, "key": g.key, "value": g.value}

        return Way("attention, attention_backward", run, outputs)

    def _layer(self, row: Row, arrays: Arrays) -> Way:
        layer = hw.MultiHeadAttention(config_of(row), {name: arrays[name] for name in WEIGHTS})
        x, mask, context = arrays["input"], mask_of(row), self._context
        out = np.empty_like(x)
        return Way("MultiHeadAttention", lambda: layer.forward(x, mask=mask, out=out, context=context),
                   lambda r: {"output": r.output})

    def _layer_training(self, row: Row, arrays: Arrays) -> Way:
        config = config_of(row)
        weights = {name: arrays[name] for name in WEIGHTS}
        x, gradient, mask, context = arrays["input"], arrays["output_gradient"], mask_of(row), self._context
        out = np.empty_like(x)

        def run():
            layer = hw.MultiHeadAttention(config, weights)
            r = layer.forward(x, mask=mask, training=True, save_for_backward=True, out=out, context=context)
            g = layer.backward(x, None, None, r, gradient, mask=mask, training=True, context=context)
            of_input = g.query  # and of key and value, which are the same array
            of_input += g.key
            of_input += g.value
            return r, of_input, g.weights

        def outputs(results) -> Arrays:
            r, of_input, of_weights = results
            return {"output": r.output, "input": of_input, **{name: of_weights[name] for name in WEIGHTS}}

        return Way("MultiHeadAttention made anew, forward, backward", run, outputs)
