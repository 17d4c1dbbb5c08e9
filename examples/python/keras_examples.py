"""The examples in the documentation of keras.layers.MultiHeadAttention, one to one, with ours beside Keras's.

    KERAS_BACKEND=jax python examples/python/keras_examples.py      # or torch, or tensorflow
"""

import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np

import headwise.keras

CLASSES = {"keras": keras.layers.MultiHeadAttention, "headwise": headwise.keras.MultiHeadAttention}


def compare(title: str, shapes: list[tuple[int, ...]], **options) -> headwise.keras.MultiHeadAttention:
    """Both classes on symbols, as the documentation does it, then both on the same numbers and weights.

    The shape of scores is that of numbers: for symbols Keras writes the query's length twice, whatever the source's is.
    """
    print(title)
    layers = {name: make(**options) for name, make in CLASSES.items()}
    symbols = {name: layer(*(keras.Input(shape[1:]) for shape in shapes)) for name, layer in layers.items()}
    layers["headwise"].set_weights(layers["keras"].get_weights())
    arrays = [np.random.default_rng(seed).standard_normal(shape, np.float32) for seed, shape in enumerate(shapes)]
    results = {}
    for name, layer in layers.items():
        results[name] = [keras.ops.convert_to_numpy(one) for one in layer(*arrays, return_attention_scores=True)]
        output, scores = results[name]
        print(f"  {name:8}  symbol {symbols[name].shape}, output {output.shape}, scores {scores.shape}")
    differences = [abs(a - b).max() for a, b in zip(*results.values(), strict=True)]
    print("  largest difference: output {:.1e}, scores {:.1e}".format(*differences))
    return layers["headwise"]


compare("1D cross-attention: 8 targets look at 4 sources", [(2, 8, 16), (2, 4, 16)], num_heads=2, key_dim=2)
compare("2D self-attention over axes 2 and 3: the 5 along axis 1 do not see each other",
        [(2, 5, 3, 4, 16), (2, 5, 3, 4, 16)], num_heads=2, key_dim=2, attention_axes=(2, 3))
compare("value_dim ≠ key_dim, and an output of another size", [(2, 8, 16), (2, 4, 16)],
        num_heads=2, key_dim=4, value_dim=8, output_shape=10)
layer = compare("8 heads of 64 on a batch of (32, 128, 512)", [(32, 128, 512)] * 2, num_heads=8, key_dim=64)
for weight in layer.weights:
    print(f"  {weight.path.split('/', 1)[1]:24} {weight.shape}")
print(f"  {layer.count_params():,} parameters")
