"""keras.layers.MultiHeadAttention and GroupQueryAttention, on the backend KERAS_BACKEND names.

Run as a program, once per backend: keras_cases.py <file to write>. Keras has two ways through a
layer: a fused one, and one that returns the weights ("scores"). Both are run and must agree; a
case stores the fused one's output unless its path is "scores".
"""

import logging
import sys

import keras
import numpy as np

from golden_file import GoldenFile, Numbers, prefixed

BACKEND = keras.config.backend()
BATCH, QUERIES, KEYS, FEATURES = 2, 3, 5, 6


class Runner:
    """A built layer with seeded weights, as output and gradients of numpy arrays."""

    def __init__(self, kind, arguments, inputs, numbers):
        self.layer = getattr(keras.layers, kind)(**arguments)
        self.layer.build(inputs["query"].shape, inputs["value"].shape, inputs["key"].shape)
        self.variables = {variable.path.split("/", 1)[1]: variable
                          for variable in self.layer.trainable_variables}
        for name in sorted(self.variables):
            variable = self.variables[name]
            variable.assign(numbers.normal(*variable.shape, deviation=0.5))

    def weights(self):
        return {name: keras.ops.convert_to_numpy(variable.value)
                for name, variable in self.variables.items()}

    def call(self, inputs, masks, call, scores, function=None):
        """(output, weights or None) of backend tensors."""
        masks = {name: keras.ops.convert_to_tensor(mask) for name, mask in masks.items()}
        if "query_mask" in masks:  # the layer reads the one that the tensor carries
            keras.src.backend.set_keras_mask(inputs["query"], masks.pop("query_mask"))
        result = (function or self.layer)(
            inputs["query"], inputs["value"], key=inputs["key"], **masks, **call,
            return_attention_scores=scores)
        return result if scores else (result, None)

    def forward(self, inputs, masks, call, scores):
        tensors = {name: keras.ops.convert_to_tensor(array) for name, array in inputs.items()}
        run = lambda leaves: self.call(leaves, masks, call, scores)
        if BACKEND == "jax":  # one by one, JAX compiles every operation of every shape
            import jax

            run = jax.jit(run)
        result = run(tensors)
        return [None if x is None else np.array(keras.ops.convert_to_numpy(x)) for x in result]

    def gradients(self, inputs, masks, call, scores, cotangent):
        found = _GRADIENTS[BACKEND](self, inputs, masks, call, scores, cotangent)
        names = [*inputs, *prefixed("weight/", self.variables)]
        return {name: np.array(keras.ops.convert_to_numpy(x)) for name, x in zip(names, found)}


def _tensorflow_gradients(runner, inputs, masks, call, scores, cotangent):
    import tensorflow as tf

    leaves = {name: tf.constant(array) for name, array in inputs.items()}
    variables = [variable.value for variable in runner.variables.values()]
    with tf.GradientTape() as tape:
        tape.watch(leaves)
        output, _ = runner.call(leaves, masks, call, scores)
        loss = tf.reduce_sum(output * cotangent)
    return tape.gradient(loss, [*leaves.values(), *variables])


def _torch_gradients(runner, inputs, masks, call, scores, cotangent):
    import torch

    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in inputs.items()}
    variables = [variable.value for variable in runner.variables.values()]
    output, _ = runner.call(leaves, masks, call, scores)
    loss = (output * torch.from_numpy(cotangent)).sum()
    return torch.autograd.grad(loss, [*leaves.values(), *variables])


def _jax_gradients(runner, inputs, masks, call, scores, cotangent):
    import jax

    layer = runner.layer

    def loss(leaves, variables):
        function = lambda *arguments, **more: layer.stateless_call(
            variables, layer.non_trainable_variables, *arguments, **more)[0]
        output, _ = runner.call(leaves, masks, call, scores, function)
        return (output * cotangent).sum()

    variables = [variable.value for variable in layer.trainable_variables]
    leaves, weights = jax.jit(jax.grad(loss, argnums=(0, 1)))(
        {name: jax.numpy.asarray(array) for name, array in inputs.items()}, variables)
    return [*(leaves[name] for name in inputs), *weights]


_GRADIENTS = {"tensorflow": _tensorflow_gradients, "torch": _torch_gradients,
              "jax": _jax_gradients}


def _case(golden, name, arguments, masks=None, call=None, sizes=(), path="fused",
          kind="MultiHeadAttention"):
    """`sizes` are queries, keys, features of query, of key, of value."""
    numbers = Numbers("keras " + name)  # the same numbers on every backend
    queries, keys, *features = sizes or (QUERIES, KEYS, FEATURES, FEATURES, FEATURES)
    inputs = {tensor: numbers.normal(BATCH, length, size) for tensor, length, size in
              zip(("query", "key", "value"), (queries, keys, keys), features)}
    runner = Runner(kind, arguments, inputs, numbers)
    masks, call = masks(numbers) if masks else {}, call or {}
    options = {"layer": kind, "backend": BACKEND, "path": path, **arguments, **call}

    output, attention = runner.forward(inputs, masks, call, True)
    if path == "fused":
        try:
            fused, _ = runner.forward(inputs, masks, call, False)
            np.testing.assert_allclose(fused, output, rtol=2e-5, atol=2e-5, err_msg=name)
            output = fused
        except (ValueError, TypeError) as error:
            path = "scores"
            options |= {"path": path, "fused_path_raises": type(error).__name__}
    cotangent = numbers.normal(*output.shape)
    found = runner.gradients(inputs, masks, call, path == "scores", cotangent)
    golden.add(f"{BACKEND}_{name}", options,
               {**inputs, **masks, **prefixed("weight/", runner.weights()), "output": output,
                "attention": attention, "cotangent": cotangent, **prefixed("gradient/", found)})


def _differences(golden):
    """The fused path where a row has nothing to attend, and where a hidden value is NaN."""
    arguments = {"num_heads": 2, "key_dim": 3}
    options = {"layer": "MultiHeadAttention", "backend": BACKEND, "path": "fused", **arguments}
    for name, differs in (("empty_row", "mean_of_value"), ("nan_in_masked_value", "leak")):
        numbers = Numbers("keras " + name)
        inputs = {tensor: numbers.normal(BATCH, length, FEATURES) for tensor, length in
                  (("query", QUERIES), ("key", KEYS), ("value", KEYS))}
        runner = Runner("MultiHeadAttention", arguments, inputs, numbers)
        mask = np.ones((BATCH, QUERIES, KEYS), dtype=bool)
        extra = {}
        if differs == "leak":
            mask[1, :, 2] = False
            extra["clean_output"], _ = runner.forward(inputs, {"attention_mask": mask}, {}, False)
            inputs["value"][1, 2] = np.nan
        else:
            mask[1, 2] = False
            extra["differing_rows"] = ~mask.any(-1)
        output, _ = runner.forward(inputs, {"attention_mask": mask}, {}, False)
        golden.add(f"{BACKEND}_{name}", {**options, "differs": differs},
                   {**inputs, **prefixed("weight/", runner.weights()), "attention_mask": mask,
                    "output": output, **extra})


def _mask(*shape):
    return lambda numbers: {"attention_mask": numbers.keep_mask(*shape)}


def _empty_row(numbers):
    mask = numbers.keep_mask(BATCH, QUERIES, KEYS)
    mask[1, 2] = False
    return {"attention_mask": mask}


def _padding(_):
    return {"value_mask": np.array([[1, 1, 1, 1, 0], [1, 1, 0, 0, 0]], dtype=bool),
            "key_mask": np.array([[1, 1, 1, 0, 1], [1, 1, 1, 1, 1]], dtype=bool)}


def _query_padding(numbers):
    return {"query_mask": np.array([[1, 1, 0], [1, 0, 0]], dtype=bool), **_padding(numbers)}


def _mask_and_padding(numbers):
    mask = numbers.keep_mask(BATCH, KEYS, KEYS)
    mask[:, :, 0] = True  # which neither padding nor causality hides
    return {"attention_mask": mask, **_padding(numbers)}


def _plain_cases(golden):
    heads = {"num_heads": 2, "key_dim": 3}
    case = lambda *rest, **more: _case(golden, *rest, **more)
    case("plain", heads)
    case("value_dim", {**heads, "value_dim": 5})
    case("features", heads, sizes=(QUERIES, KEYS, 6, 5, 7))
    case("output_shape", {**heads, "output_shape": 4})
    case("no_bias", {**heads, "use_bias": False})
    case("gate", {**heads, "use_gate": True})
    case("gate_no_bias", {**heads, "use_gate": True, "use_bias": False, "value_dim": 2})


def _masked_cases(golden):
    heads, square = {"num_heads": 2, "key_dim": 3}, (KEYS, KEYS, 6, 6, 6)
    causal = {"use_causal_mask": True}
    case = lambda *rest, **more: _case(golden, *rest, **more)
    case("mask", heads, _mask(BATCH, QUERIES, KEYS))
    case("mask_per_head", heads, _mask(BATCH, 2, QUERIES, KEYS))
    case("padding", heads, _padding)
    case("query_padding", heads, _query_padding, path="scores")
    case("empty_row_with_scores", heads, _empty_row, path="scores")
    case("causal", heads, call=causal, sizes=square)
    case("causal_more_keys", heads, call=causal)
    case("causal_fewer_keys", heads, call=causal, sizes=(5, 3, 6, 6, 6))
    case("window", {**heads, "sliding_window": 2}, sizes=square)
    case("window_causal", {**heads, "sliding_window": 3}, call=causal, sizes=square)
    case("all_together", {**heads, "value_dim": 4, "output_shape": 5, "use_gate": True},
         _mask_and_padding, call=causal, sizes=(KEYS, KEYS, 6, 7, 8))


def _grouped_cases(golden):
    heads = {"head_dim": 3, "num_query_heads": 4, "num_key_value_heads": 2}
    square = (KEYS, KEYS, 6, 6, 6)
    case = lambda *rest, **more: _case(golden, *rest, **more, kind="GroupQueryAttention")
    case("grouped", heads)
    case("grouped_one_key_head", {**heads, "num_key_value_heads": 1, "use_bias": False})
    case("grouped_mask", heads, _mask(BATCH, QUERIES, KEYS))
    case("grouped_gate", {**heads, "use_gate": True})
    case("grouped_all_together", {**heads, "use_gate": True}, _mask_and_padding,
         call={"use_causal_mask": True}, sizes=square)


def make():
    golden = GoldenFile()
    _plain_cases(golden)
    _masked_cases(golden)
    _grouped_cases(golden)
    _differences(golden)
    return golden


if __name__ == "__main__":
    logging.disable(logging.ERROR)  # Keras logs what it then raises
    make().save(sys.argv[1])
