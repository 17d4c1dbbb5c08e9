"""One sequence through one layer, in four frameworks, alone, in a batch and padded: how many different results?

    python examples/python/same_bits.py

Every entry is a checksum of the bits of the same 5 × 512 output numbers. Where the frameworks' own change depends on sizes and machine.
"""

import os
import zlib

os.environ["KERAS_BACKEND"] = "torch"  # whose threads can be counted and set

import flax.linen
import jax.numpy as jnp
import keras
import numpy as np
import torch

import headwise as hw
import headwise.jax.linen
import headwise.keras
import headwise.torch

LENGTH, PADDED, FEATURES, HEADS, KEY_DIM = 5, 33, 512, 8, 64
config = hw.AttentionConfig(num_heads=HEADS, key_dim=KEY_DIM, query_features=FEATURES)
weights = hw.AttentionWeights.glorot(config, seed=7)
NAMES = ("query", "key", "value", "attention_output")


def run_numpy():
    layer = hw.MultiHeadAttention(config, weights)
    return lambda x, lengths: layer.forward(x, mask=hw.valid_lengths(lengths)).output


def run_plain_numpy():
    """The formula, as one would write it down."""
    def run(x, lengths):
        q, k, v = ((x @ weights[f"{name}/kernel"]).reshape(*x.shape[:2], HEADS, KEY_DIM).swapaxes(1, 2) for name in NAMES[:3])
        scores = np.where(keep(x, lengths)[:, None, None], q @ k.swapaxes(2, 3) * np.float32(KEY_DIM**-0.5), -np.inf)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        heads = exponentials / exponentials.sum(-1, keepdims=True) @ v
        return heads.swapaxes(1, 2).reshape(x.shape) @ weights["attention_output/kernel"]
    return run


def run_torch(swap):
    layer = swap(torch.nn.MultiheadAttention(FEATURES, HEADS, batch_first=True).eval())
    kernels = [torch.from_numpy(weights[f"{name}/kernel"].T.copy()) for name in NAMES]
    layer.load_state_dict({"in_proj_weight": torch.cat(kernels[:3]), "in_proj_bias": torch.zeros(3 * FEATURES),
                           "out_proj.weight": kernels[3], "out_proj.bias": torch.zeros(FEATURES)})

    @torch.no_grad()
    def run(x, lengths):
        t = torch.from_numpy(x)
        return layer(t, t, t, key_padding_mask=torch.from_numpy(~keep(x, lengths)), need_weights=False)[0].numpy()
    return run


def run_flax(module):
    shapes = [(FEATURES, HEADS, KEY_DIM)] * 3 + [(HEADS, KEY_DIM, FEATURES)]
    parameters = {name: {"kernel": weights[f"{ours}/kernel"].reshape(shape)}
                  for name, ours, shape in zip(("query", "key", "value", "out"), NAMES, shapes, strict=True)}
    layer = module(HEADS, use_bias=False)
    return lambda x, lengths: np.asarray(
        layer.apply({"params": parameters}, jnp.asarray(x), mask=jnp.asarray(keep(x, lengths)[:, None, None])))


def run_keras(layer_class):
    layer = layer_class(HEADS, KEY_DIM, use_bias=False)
    layer.build((None, None, FEATURES), (None, None, FEATURES))
    layer.set_weights([weights[f"{name}/kernel"].reshape(weight.shape)
                       for name, weight in zip(NAMES, layer.weights, strict=True)])
    return lambda x, lengths: keras.ops.convert_to_numpy(layer(x, x, attention_mask=keep(x, lengths)[:, None]))


def keep(x, lengths):
    return np.arange(x.shape[1]) < np.asarray(lengths)[:, None]


def set_threads(count):
    hw.set_default_context(hw.Context(threads=count))
    torch.set_num_threads(count)
    headwise.jax.set_threads(count)


x = np.random.default_rng(1).standard_normal((8, PADDED, FEATURES), np.float32)
CALLS = {"alone": (x[:1, :LENGTH], [LENGTH]), "batch of 8": (x[:, :LENGTH], [LENGTH] * 8),
         "alone, padded": (x[:1], [LENGTH]), "8, padded": (x, [LENGTH, 33, 1, 7, 33, 12, 25, 30])}
PAIRS = {"numpy": (run_numpy(), run_plain_numpy()),
         "torch": (run_torch(headwise.torch.swap), run_torch(lambda layer: layer)),
         "JAX (Flax)": (run_flax(headwise.jax.linen.MultiHeadDotProductAttention),
                        run_flax(flax.linen.MultiHeadDotProductAttention)),
         "Keras": (run_keras(headwise.keras.MultiHeadAttention), run_keras(keras.layers.MultiHeadAttention))}

FIXED = {"numpy", "JAX (Flax)"}  # their own number of threads cannot be changed once they run

for which, title in enumerate(("headwise in", "the framework's own")):
    print(f"{title:19} threads", *(f"{call:>13}" for call in CALLS))
    checksums = []
    for name, pair in PAIRS.items():
        for threads in ("–",) if which == 1 and name in FIXED else (1, 2):
            if threads != "–":
                set_threads(threads)
            row = [zlib.crc32(np.ascontiguousarray(pair[which](*call)[0, :LENGTH])) for call in CALLS.values()]
            checksums += row
            print(f"  {name:17} {threads:>7}", *(f"     {checksum:08x}" for checksum in row))
    print(f"  {len(checksums)} calls, different results: {len(set(checksums))}\n")
