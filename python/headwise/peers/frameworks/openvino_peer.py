"""OpenVINO: a compiled model around its operator ScaledDotProductAttention, in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from headwise.peers.peer import Peer, Unable, Way
from headwise.peers.rows import Arrays, Row, dense_mask


class OpenVinoPeer(Peer):
    name = "OpenVINO"
    packages = ("openvino",)
    settings = ("compiled for latency with one stream, `INFERENCE_PRECISION_HINT` f32, `INFERENCE_NUM_THREADS`; "
                "weights and masks as constants; grouped heads by broadcasting and, for one query, as queries of one "
                "head, also as two products and a softmax; inputs and outputs set once")

    def __init__(self, threads: int) -> None:
        import openvino
        from openvino import opset13

        self._ov, self._ops = openvino, opset13
        self._core = openvino.Core()
        self._config = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": "1",
                        "PERFORMANCE_HINT": "LATENCY"}

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        if row.training:
            raise Unable("does not train")
        build = self._layer if row.is_layer else self._attention
        for name, attend in self._attentions(row, arrays):
            yield self._way(row, name, *build(row, arrays, attend))

    def _attentions(self, row: Row, arrays: Arrays) -> Iterator[tuple[str, Callable]]:
        """Functions of nodes (B,H,T,d)."""
        ops = self._ops
        mask = dense_mask(row)
        if row.bias:
            constant = ops.constant(arrays["bias"][None])
            yield "SDPA, mask of floats", self._broadcasting(row, lambda q, k, v: self._sdpa(q, k, v, constant))
        elif mask is None or row.causal:
            yield "SDPA", self._broadcasting(row, self._sdpa_causal if row.causal else self._sdpa)
        else:
            shape = (mask.shape[0], 1, row.queries, row.keys)
            for kind, array in (("bools", mask), ("floats", np.where(mask, 0.0, -np.inf).astype(np.float32))):
                constant = ops.constant(np.ascontiguousarray(np.broadcast_to(array, shape)))
                yield f"SDPA, mask of {kind}", lambda q, k, v, constant=constant: self._sdpa(q, k, v, constant)
        if row.queries == 1:
            yield "SDPA, groups as queries", lambda *x: self._as_queries(row, self._sdpa, *x)
            yield "products and softmax", lambda *x: self._as_queries(row, self._products, *x)

    def _sdpa(self, *inputs):
        return self._ops.scaled_dot_product_attention(*inputs)

    def _sdpa_causal(self, *inputs):
        return self._ops.scaled_dot_product_attention(*inputs, causal=True)

    def _products(self, q, k, v):
        ops = self._ops
        scale = ops.constant(np.float32(q.get_output_shape(0)[-1] ** -0.5))
        scores = ops.matmul(ops.multiply(q, scale), k, False, True)
        return ops.matmul(ops.softmax(scores, 3), v, False, False)

    def _broadcasting(self, row: Row, attend: Callable) -> Callable:
        """K and V for every head of a group."""
        if not row.is_grouped:
            return attend
        ops, groups = self._ops, row.heads // row.kv_heads

        def repeated(x):
            wide = ops.broadcast(ops.unsqueeze(x, ops.constant(2)),
                                 ops.constant([row.batch, row.kv_heads, groups, row.keys, row.size]))
            return ops.reshape(wide, ops.constant([row.batch, row.heads, row.keys, row.size]), False)

        return lambda q, k, v: attend(q, repeated(k), repeated(v))

    def _as_queries(self, row: Row, attend: Callable, q, k, v):
        """All heads of a group as queries of one head."""
        ops = self._ops
        folded = ops.reshape(q, ops.constant([row.batch, row.kv_heads, -1, row.size]), False)
        return ops.reshape(attend(folded, k, v), ops.constant([row.batch, row.heads, 1, row.size]), False)

    def _attention(self, row: Row, arrays: Arrays, attend: Callable):
        names = ("query", "key", "value")
        parameters = [self._ops.parameter(arrays[n].shape, np.float32, name=n) for n in names]
        return attend(*parameters), parameters, [arrays[n] for n in names]

    def _layer(self, row: Row, arrays: Arrays, attend: Callable):
        ops = self._ops
        x = ops.parameter(arrays["input"].shape, np.float32, name="input")

        def linear(node, part: str):
            product = ops.matmul(node, ops.constant(arrays[f"{part}/kernel"]), False, False)
            return ops.add(product, ops.constant(arrays[f"{part}/bias"]))

        def heads(part: str):
            split = ops.reshape(linear(x, part), ops.constant([row.batch, row.queries, -1, row.size]), False)
            return ops.transpose(split, ops.constant([0, 2, 1, 3]))

        attended = ops.transpose(attend(heads("query"), heads("key"), heads("value")), ops.constant([0, 2, 1, 3]))
        joined = ops.reshape(attended, ops.constant([row.batch, row.queries, -1]), False)
        return linear(joined, "attention_output"), [x], [arrays["input"]]

    def _way(self, row: Row, name: str, node, parameters: list, given: list[np.ndarray]) -> Way:
        model = self._ov.Model([node], parameters, "row")
        request = self._core.compile_model(model, "CPU", self._config).create_infer_request()
        inputs = [np.ascontiguousarray(array) for array in given]
        for i, array in enumerate(inputs):
            request.set_input_tensor(i, self._ov.Tensor(array, shared_memory=True))
        shape = (row.batch, row.queries, row.features) if row.is_layer else given[0].shape
        output = np.empty(shape, np.float32)
        request.set_output_tensor(self._ov.Tensor(output, shared_memory=True))

        def run():
            request.start_async()
            request.wait()
            return output, inputs  # which the request looks at and does not keep

        return Way(name, run, lambda results: {"output": results[0]})
