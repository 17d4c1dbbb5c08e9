"""What the tests of headwise.keras share: gradients on any backend, and pairs of layers with the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headwise.keras
import keras
import numpy as np

BACKEND = keras.backend.backend()
MHA, GQA = "MultiHeadAttention", "GroupQueryAttention"


def numpy_of(x: Any) -> np.ndarray:
    return keras.ops.convert_to_numpy(x)


def pair(kind: str, settings: dict[str, Any], inputs: dict[str, np.ndarray]) -> tuple[Any, Any]:
    """Keras's layer and Headwise's, with the same random weights."""
    theirs, ours = (getattr(module, kind)(**settings) for module in (keras.layers, headwise.keras))
    shapes = {f"{name}_shape": x.shape for name, x in inputs.items() if name in ("query", "value", "key")}
    for layer in (theirs, ours):
        layer.build(**shapes)
    weights = random_weights(theirs)
    theirs.set_weights(weights)
    ours.set_weights(weights)
    return theirs, ours


def random_weights(layer: Any, seed: int = 5) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [0.3 * generator.standard_normal(w.shape).astype("float32") for w in layer.get_weights()]


def differentiate(
    layer: Any, inputs: dict[str, np.ndarray], options: dict[str, Any], loss: Callable[[Any], Any]
) -> list[np.ndarray]:
    """Of loss(the layer's results), by the inputs and by the trainable weights."""
    return results_and_gradients(layer, inputs, options, loss)[1]


def results_and_gradients(
    layer: Any, inputs: dict[str, np.ndarray], options: dict[str, Any], loss: Callable[[Any], Any]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The layer's results as well; on JAX compiled, elsewhere eager."""
    tensors = {name: keras.ops.convert_to_tensor(x) for name, x in inputs.items()}
    results, gradients = _DIFFERENTIATE[BACKEND](layer, tensors, options, loss)
    results = results if isinstance(results, (tuple, list)) else [results]
    return [numpy_of(y) for y in results], [numpy_of(g) for g in gradients]


def _by_tensorflow(layer: Any, tensors: dict[str, Any], options: dict[str, Any], loss: Callable) -> tuple[Any, Any]:
    import tensorflow as tf

    with tf.GradientTape() as tape:
        tape.watch(list(tensors.values()))
        results = layer(**tensors, **options)
        value = loss(results)
    weights = [w.value for w in layer.trainable_variables]
    return results, tape.gradient(value, [*tensors.values(), *weights])


def _by_torch(layer: Any, tensors: dict[str, Any], options: dict[str, Any], loss: Callable) -> tuple[Any, Any]:
    import torch

    leaves = {name: x.detach().clone().requires_grad_() for name, x in tensors.items()}
    results = layer(**leaves, **options)
    wanted = [*leaves.values(), *(w.value for w in layer.trainable_variables)]
    return results, torch.autograd.grad(loss(results), wanted)


def _by_jax(layer: Any, tensors: dict[str, Any], options: dict[str, Any], loss: Callable) -> tuple[Any, Any]:
    import jax

    state = [w.value for w in layer.non_trainable_variables]

    def function(tensors: dict[str, Any], weights: list[Any]) -> tuple[Any, Any]:
        results = layer.stateless_call(weights, state, **tensors, **options)[0]
        return loss(results), results

    differentiated = jax.jit(jax.grad(function, (0, 1), has_aux=True))
    (of_tensors, of_weights), results = differentiated(tensors, [w.value for w in layer.trainable_variables])
    return results, [*(of_tensors[name] for name in tensors), *of_weights]


_DIFFERENTIATE = {"tensorflow": _by_tensorflow, "torch": _by_torch, "jax": _by_jax}
