"""ONNX Runtime: its fused contrib operators and ONNX's own Attention."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from headwise.peers.frameworks.jax_peer import sequence_first
from headwise.peers.peer import Peer, Unable, Way
from headwise.peers.rows import Arrays, Row, dense_mask

CONTRIB = "com.microsoft"


class Graph:
    """A model under construction: constants, nodes, inputs with the numbers they will be bound to."""

    def __init__(self) -> None:
        self.nodes: list = []
        self.constants: list = []
        self.inputs: dict[str, np.ndarray] = {}

    def input(self, name: str, array: np.ndarray) -> str:
        self.inputs[name] = np.ascontiguousarray(array)
        return name

    def constant(self, array: np.ndarray) -> str:
        from onnx import numpy_helper

        name = f"constant_{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, operator: str, inputs: list[str], outputs: int = 1, domain: str = "", **attributes) -> list[str]:
        from onnx import helper

        names = [f"value_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(operator, inputs, names, domain=domain, **attributes))
        return names

    def linear(self, x: str, kernel: np.ndarray, bias: np.ndarray) -> str:
        product = self.node("MatMul", [x, self.constant(kernel)])[0]
        return self.node("Add", [product, self.constant(bias)])[0]

    def model(self, outputs: list[str]) -> bytes:
        from onnx import TensorProto, helper

        kinds = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
        given = [helper.make_tensor_value_info(name, kinds[array.dtype], array.shape)
                 for name, array in self.inputs.items()]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "row", given, made, initializer=self.constants)
        opsets = [helper.make_opsetid("", 23), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=11).SerializeToString()


class OnnxRuntimePeer(Peer):
    name = "ONNX Runtime"
    packages = ("onnxruntime", "onnx")
    settings = ("contrib operators `MultiHeadAttention`, `GroupQueryAttention` (its cache bound in place) and, for "
                "layers, `Attention`, beside ONNX's own `Attention`; weights as constants, all graph optimisations, "
                "inputs and outputs bound once, `intra_op_num_threads` set, threads spin while it runs")

    def __init__(self, threads: int) -> None:
        import onnxruntime

        self._runtime = onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self._options = options

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        if row.training:
            raise Unable("does not train")
        builders = self._layers(row, arrays) if row.is_layer else self._attentions(row, arrays)
        for name, build in builders:
            yield self._way(row, name, build)

    # ---- core attention, from (B,T,H·d) ----

    def _operators(self, row: Row, arrays: Arrays) -> Iterator[tuple[str, Callable]]:
        """Functions (graph, q, k, v) → heads, each of them (B,T,H·d)."""
        if not row.is_grouped and not row.keep and not row.window:
            yield "MultiHeadAttention", lambda g, *x: self._multi_head(g, row, arrays, *x)
        if row.causal or row.window:
            yield "GroupQueryAttention", lambda g, *x: self._grouped(g, row, *x)
        yield "Attention of ONNX", lambda g, *x: self._standard(g, row, arrays, *x)

    @staticmethod
    def _multi_head(graph: Graph, row: Row, arrays: Arrays, q: str, k: str, v: str) -> str:
        lengths = graph.constant(np.array(row.lengths, np.int32)) if row.lengths else ""
        bias = graph.constant(arrays["bias"][None]) if row.bias else ""
        return graph.node("MultiHeadAttention", [q, k, v, "", lengths, bias], domain=CONTRIB, num_heads=row.heads,
                          unidirectional=int(row.causal))[0]

    @staticmethod
    def _grouped(graph: Graph, row: Row, q: str, k: str, v: str) -> str:
        lengths = graph.constant(np.full(row.batch, row.keys - 1, np.int32))
        total = graph.constant(np.array(row.keys, np.int32))
        return graph.node("GroupQueryAttention", [q, k, v, "", "", lengths, total], 3, CONTRIB, num_heads=row.heads,
                          kv_num_heads=row.kv_heads, local_window_size=row.window or -1)[0]

    @staticmethod
    def _standard(graph: Graph, row: Row, arrays: Arrays, q: str, k: str, v: str) -> str:
        inputs = [q, k, v]
        mask = dense_mask(row)
        if row.bias:
            inputs.append(graph.constant(arrays["bias"][None]))
        elif mask is not None and not row.causal:
            # Not broadcast along T by every version.
            shape = (mask.shape[0], 1, row.queries, row.keys)
            inputs.append(graph.constant(np.broadcast_to(mask, shape)))
        return graph.node("Attention", inputs, q_num_heads=row.heads, kv_num_heads=row.kv_heads,
                          is_causal=int(row.causal))[0]

    def _attentions(self, row: Row, arrays: Arrays) -> Iterator[tuple[str, Callable]]:
        def whole(operator: Callable) -> Callable:
            def build(graph: Graph) -> list[str]:
                names = [graph.input(n, _joined(arrays[n])) for n in ("query", "key", "value")]
                return [operator(graph, *names)]

            return build

        for name, operator in self._operators(row, arrays):
            yield name, whole(operator)
        if row.queries == 1:
            yield "GroupQueryAttention, cache in place", lambda graph: self._decode(graph, row, arrays)

    @staticmethod
    def _decode(graph: Graph, row: Row, arrays: Arrays) -> list[str]:
        """The last key and value are new, the others lie in the cache; the new ones are written into it."""
        names = [graph.input("query", _joined(arrays["query"]))]
        names += [graph.input(f"{n}_new", _joined(arrays[n][:, :, -1:])) for n in ("key", "value")]
        names += [graph.input(f"{n}_cache", arrays[n].copy()) for n in ("key", "value")]
        names += [graph.constant(np.full(row.batch, row.keys - 1, np.int32)),
                  graph.constant(np.array(row.keys, np.int32))]
        return graph.node("GroupQueryAttention", names, 3, CONTRIB, num_heads=row.heads, kv_num_heads=row.kv_heads)

    # ---- layers ----

    def _layers(self, row: Row, arrays: Arrays) -> Iterator[tuple[str, Callable]]:
        parts = ("query", "key", "value")

        def whole(operator: Callable) -> Callable:
            def build(graph: Graph) -> list[str]:
                x = graph.input("input", arrays["input"])
                projected = [graph.linear(x, arrays[f"{n}/kernel"], arrays[f"{n}/bias"]) for n in parts]
                return [self._output_projection(graph, arrays, operator(graph, *projected))]

            return build

        for name, operator in self._operators(row, arrays):
            yield f"MatMul + {name}", whole(operator)
        if row.is_grouped:
            return

        def fused(graph: Graph) -> list[str]:
            kernel = np.concatenate([arrays[f"{n}/kernel"] for n in parts], axis=1)
            bias = np.concatenate([arrays[f"{n}/bias"] for n in parts])
            lengths = graph.constant(np.array(row.lengths, np.int32)) if row.lengths else ""
            inputs = [graph.input("input", arrays["input"]), graph.constant(kernel), graph.constant(bias), lengths]
            heads = graph.node("Attention", inputs, domain=CONTRIB, num_heads=row.heads,
                               unidirectional=int(row.causal))[0]
            return [self._output_projection(graph, arrays, heads)]

        yield "Attention with projections", fused

    @staticmethod
    def _output_projection(graph: Graph, arrays: Arrays, heads: str) -> str:
        return graph.linear(heads, arrays["attention_output/kernel"], arrays["attention_output/bias"])

    # ---- running ----

    def _way(self, row: Row, name: str, build: Callable) -> Way:
        graph = Graph()
        names = build(graph)
        session = self._runtime.InferenceSession(graph.model(names), self._options,
                                                 providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        values = {n: self._runtime.OrtValue.ortvalue_from_numpy(array) for n, array in graph.inputs.items()}
        for input_name, value in values.items():
            binding.bind_ortvalue_input(input_name, value)
        shape = (row.batch, row.queries, row.features or row.heads * row.size)
        output = self._runtime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32)
        bound = [output, *(values[f"{n}_cache"] for n in ("key", "value") if f"{n}_cache" in values)]
        for output_name, value in zip(names, bound, strict=True):
            binding.bind_ortvalue_output(output_name, value)

        def run():
            session.run_with_iobinding(binding)
            return output, values  # which the binding looks at and does not keep

        def outputs(results) -> Arrays:
            result = results[0].numpy()
            if row.is_layer:
                return {"output": result}
            return {"output": result.reshape(row.batch, row.queries, row.heads, row.size).swapaxes(1, 2)}

        return Way(name, run, outputs)


def _joined(heads: np.ndarray) -> np.ndarray:
    """(B,H,T,d) → (B,T,H·d)"""
    batch, _, length, _ = heads.shape
    return sequence_first(heads).reshape(batch, length, -1)
