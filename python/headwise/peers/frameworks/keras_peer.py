"""Keras on its three backends, compiled as each of them does: keras.ops.dot_product_attention and Keras's layers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np

from headwise.peers.frameworks.jax_peer import sequence_first
from headwise.peers.peer import Peer, Way
from headwise.peers.rows import WEIGHTS, Arrays, Row, dense_mask


class KerasPeer(Peer):
    """What the backends share: functions of tensors, which each of them compiles in its own way."""

    backend: str
    weights_are_arguments = False  # of what is compiled, also where nothing is trained

    def __init__(self, threads: int) -> None:
        os.environ["KERAS_BACKEND"] = self.backend
        import keras

        self._keras = keras

    def calls(self, function: Callable, training: bool) -> Iterator[tuple[str, Callable]]:
        """Ways to compile a function of tensors. Each returns (output,); if training, it takes
        (gradient, *inputs) and returns (output, *gradients)."""
        raise NotImplementedError

    def ways(self, row: Row, arrays: Arrays) -> Iterator[Way]:
        tensor = self._keras.ops.convert_to_tensor
        if row.is_layer:
            function, given, names = self._layer(row, arrays)
        else:
            names = ("query", "key", "value")
            given = [tensor(sequence_first(arrays[n])) for n in names]
            function = self._attention(row, arrays)
        if row.training:
            gradient = arrays["output_gradient"]
            given = [tensor(gradient if row.is_layer else sequence_first(gradient)), *given]
        returned = ("output", *names) if row.training else ("output",)
        for name, call in self.calls(function, row.training):
            yield Way(name, lambda call=call: call(*given), lambda results: self._outputs(row, results, returned))

    def _attention(self, row: Row, arrays: Arrays) -> Callable:
        ops = self._keras.ops
        options: dict = {"is_causal": True} if row.causal else {}
        mask = dense_mask(row)
        if row.bias:
            options["bias"] = ops.convert_to_tensor(arrays["bias"][None])
        elif mask is not None and not row.causal:
            options["mask"] = ops.convert_to_tensor(np.broadcast_to(mask, (row.batch, 1, row.queries, row.keys)))
        return lambda q, k, v: ops.dot_product_attention(q, k, v, **options)

    def _layer(self, row: Row, arrays: Arrays):
        layers, tensor = self._keras.layers, self._keras.ops.convert_to_tensor
        if row.is_grouped:
            layer = layers.GroupQueryAttention(row.size, row.heads, row.kv_heads)
        else:
            layer = layers.MultiHeadAttention(row.heads, row.size)
        x = arrays["input"]
        layer.build(x.shape, x.shape)
        values = [arrays[n].reshape(v.shape) for n, v in zip(WEIGHTS, layer.trainable_variables, strict=True)]
        options: dict = {"use_causal_mask": True} if row.causal else {}
        if row.lengths:
            mask = np.broadcast_to(dense_mask(row)[:, 0], (row.batch, row.queries, row.keys))
            options["attention_mask"] = tensor(np.ascontiguousarray(mask))
        if not row.training and not self.weights_are_arguments:
            layer.set_weights(values)
            return (lambda x: layer(x, x, **options)), [tensor(x)], ("input",)

        def function(x, *weights):
            return layer.stateless_call(weights, [], x, x, **options)[0]

        return function, [tensor(array) for array in (x, *values)], ("input", *WEIGHTS)

    def _outputs(self, row: Row, results, names: tuple[str, ...]) -> Arrays:
        arrays = {n: self._keras.ops.convert_to_numpy(r) for n, r in zip(names, results, strict=True)}
        if not row.is_layer:
            return {n: array.swapaxes(1, 2) for n, array in arrays.items()}
        return {n: array.reshape(_flat_shape(row, n, array)) for n, array in arrays.items()}


def _in_tuple(function: Callable) -> Callable:
    return lambda *inputs: (function(*inputs),)


def _flat_shape(row: Row, name: str, array: np.ndarray) -> tuple[int, ...]:
    """Kernels without an axis for heads."""
    if name == "attention_output/kernel":
        return (-1, row.features)
    if name.endswith("/kernel"):
        return (row.features, -1)
    return (-1,) if name.endswith("/bias") else array.shape


class KerasTensorFlow(KerasPeer):
    name = "Keras on TensorFlow"
    packages = ("keras", "tensorflow-cpu")
    settings = "`tf.function`, with and without XLA (`jit_compile`); threads set in `tf.config.threading`"
    backend = "tensorflow"

    def __init__(self, threads: int) -> None:
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        self._tf = tf
        super().__init__(threads)

    def calls(self, function: Callable, training: bool) -> Iterator[tuple[str, Callable]]:
        whole = self._with_gradients(function) if training else _in_tuple(function)
        yield "tf.function", self._tf.function(whole)
        yield "tf.function, jit_compile", self._tf.function(whole, jit_compile=True)

    def _with_gradients(self, function: Callable) -> Callable:
        def both(gradient, *inputs):
            with self._tf.GradientTape() as tape:
                tape.watch(inputs)
                output = function(*inputs)
            return output, *tape.gradient(output, inputs, output_gradients=gradient)

        return both


class KerasJax(KerasPeer):
    name = "Keras on JAX"
    packages = ("keras", "jax", "jaxlib")
    settings = "`jax.jit`"
    backend = "jax"
    weights_are_arguments = True  # jit takes the state of others for constants

    def calls(self, function: Callable, training: bool) -> Iterator[tuple[str, Callable]]:
        import jax

        def both(gradient, *inputs):
            output, pull = jax.vjp(function, *inputs)
            return output, *pull(gradient)

        call = jax.jit(both if training else _in_tuple(function))
        yield "jax.jit", lambda *inputs: jax.block_until_ready(call(*inputs))


class KerasTorch(KerasPeer):
    name = "Keras on PyTorch"
    packages = ("keras", "torch")
    settings = "eager, and `torch.compile`"
    backend = "torch"

    def __init__(self, threads: int) -> None:
        import torch

        torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        self._torch = torch
        super().__init__(threads)

    def calls(self, function: Callable, training: bool) -> Iterator[tuple[str, Callable]]:
        self._torch.compiler.reset()
        make = self._with_gradients if training else self._without
        yield "eager", make(function)
        yield "torch.compile", make(self._torch.compile(function, dynamic=False))

    def _without(self, function: Callable) -> Callable:
        def forward(*inputs):
            with self._torch.inference_mode():
                return (function(*inputs),)

        return forward

    def _with_gradients(self, function: Callable) -> Callable:
        def both(gradient, *inputs):
            watched = [x.detach().requires_grad_() for x in inputs]
            output = function(*watched)
            return output, *self._torch.autograd.grad(output, watched, gradient)

        return both
