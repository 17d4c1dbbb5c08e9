"""The ONNX operator Attention, by onnx's reference evaluator. Forward only: it has no gradient.

ONNX Runtime runs the same models; the two must agree before a case is stored."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from golden_file import GoldenFile, Numbers

BATCH, HEADS, QUERIES, KEYS, SIZE = 2, 4, 3, 5, 6
AFTER_SOFTMAX = 3  # qk_matmul_output_mode: the attention weights

_INPUTS = ("Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen")
_OUTPUTS = ("Y", "present_key", "present_value", "qk_matmul_output")


def _model(opset, inputs, attributes):
    names = list(_INPUTS[:6] if opset == 23 else _INPUTS)
    names = [name if name in inputs else "" for name in names]
    while not names[-1]:
        names.pop()
    outputs = [name if "past_key" in inputs or not name.startswith("present") else ""
               for name in _OUTPUTS]
    node = helper.make_node("Attention", names, outputs,
                            qk_matmul_output_mode=AFTER_SOFTMAX, **attributes)
    typed = [helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(inputs[name].dtype), inputs[name].shape)
        for name in names if name]
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * len(inputs["Q"].shape)
                                           if name == "Y" else [None] * 4)
             for name in outputs if name]
    graph = helper.make_graph([node], "attention", typed, given)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def _run(opset, inputs, attributes):
    """Output by name."""
    model = _model(opset, inputs, attributes)
    onnx.checker.check_model(model)
    evaluator = ReferenceEvaluator(model)
    return dict(zip(evaluator.output_names, evaluator.run(None, inputs)))


def _runtime_output(opset, inputs, attributes):
    model = _model(opset, inputs, attributes).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(["Y"], inputs)[0]


def _inputs(numbers, queries=QUERIES, keys=KEYS, key_heads=HEADS, value_size=SIZE):
    return {"Q": numbers.normal(BATCH, HEADS, queries, SIZE),
            "K": numbers.normal(BATCH, key_heads, keys, SIZE),
            "V": numbers.normal(BATCH, key_heads, keys, value_size)}


def _case(golden, name, extra=None, opset=23, flat_heads=False, sizes=None, runtime=True,
          **attributes):
    numbers = Numbers("onnx " + name)
    inputs = _inputs(numbers, **(sizes or {}))
    if flat_heads:
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": inputs["K"].shape[1]}
        inputs = {tensor: np.ascontiguousarray(array.transpose(0, 2, 1, 3)).reshape(
            BATCH, array.shape[2], -1) for tensor, array in inputs.items()}
    inputs |= extra(numbers) if extra else {}
    outputs = _run(opset, inputs, attributes)
    if runtime:
        np.testing.assert_allclose(_runtime_output(opset, inputs, attributes), outputs["Y"],
                                   rtol=2e-5, atol=2e-5, err_msg=name)
    tensors = {**inputs, "output": outputs["Y"], "attention": outputs["qk_matmul_output"]}
    if "past_key" in inputs:  # what is attended is the past and the new keys, one after the other
        attributes["past_length"] = inputs["past_key"].shape[2]
        tensors |= {"K": outputs["present_key"], "V": outputs["present_value"]}
        del tensors["past_key"], tensors["past_value"]
    golden.add(name, {"opset": opset, **attributes}, tensors)


def _leak(golden, name):
    numbers = Numbers("onnx " + name)
    inputs = _inputs(numbers)
    inputs["attn_mask"] = np.ones((BATCH, 1, QUERIES, KEYS), dtype=bool)
    inputs["attn_mask"][1, :, :, 2] = False
    clean = _run(23, inputs, {})["Y"]
    inputs["V"][1, :, 2] = np.nan
    golden.add(name, {"opset": 23, "differs": "leak"},
               {**inputs, "output": _run(23, inputs, {})["Y"], "clean_output": clean})


def _keep(*shape):
    return lambda numbers: {"attn_mask": numbers.keep_mask(*shape)}


def _added(*shape):
    return lambda numbers: {"attn_mask": numbers.normal(*shape)}


def _past(numbers):
    return {"past_key": numbers.normal(BATCH, HEADS, 4, SIZE),
            "past_value": numbers.normal(BATCH, HEADS, 4, SIZE)}


def _empty_row(numbers):
    mask = numbers.keep_mask(QUERIES, KEYS)
    mask[1] = False
    return {"attn_mask": mask}


def _lengths(_):
    return {"nonpad_kv_seqlen": np.array([3, 5], dtype=np.int64)}


def make():
    golden = GoldenFile()
    _case(golden, "plain")
    _case(golden, "flat_heads", flat_heads=True)
    _case(golden, "flat_grouped_heads", flat_heads=True, sizes={"key_heads": 2})
    _case(golden, "grouped_heads", sizes={"key_heads": 2})
    _case(golden, "value_size", sizes={"value_size": 3})
    _case(golden, "scale", scale=0.3)
    _case(golden, "causal", sizes={"keys": QUERIES}, is_causal=1)
    _case(golden, "causal_more_keys", is_causal=1)
    _case(golden, "causal_past", _past, sizes={"keys": QUERIES}, is_causal=1)
    _case(golden, "bool_mask", _keep(QUERIES, KEYS))
    _case(golden, "bool_mask_rank_3", _keep(HEADS, QUERIES, KEYS))
    _case(golden, "bool_mask_all_axes", _keep(BATCH, HEADS, QUERIES, KEYS))
    _case(golden, "float_mask", _added(QUERIES, KEYS))
    _case(golden, "float_mask_rank_3", _added(HEADS, QUERIES, KEYS))
    _case(golden, "float_mask_per_batch", _added(BATCH, 1, QUERIES, KEYS))
    _case(golden, "softcap", softcap=0.8)
    _case(golden, "softcap_masked", _added(BATCH, HEADS, QUERIES, KEYS), softcap=0.8, is_causal=1)
    _case(golden, "key_lengths", _lengths, opset=24)
    _case(golden, "key_lengths_causal", _lengths, opset=24, is_causal=1)
    _case(golden, "empty_row", _empty_row)
    _leak(golden, "nan_in_masked_value")
    return golden
