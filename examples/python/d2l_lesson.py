"""The multi-head attention lesson of Dive into Deep Learning, in numpy: 100 hidden units, 5 heads, valid lengths.

    python examples/python/d2l_lesson.py
"""

import numpy as np

import headwise as hw

num_hiddens, num_heads = 100, 5
batch_size, num_queries, num_kvpairs = 2, 4, 6
valid_lens = [3, 2]  # of the 6 keys, the first sequence has 3 real ones, the second 2

config = hw.presets.d2l(num_hiddens, num_heads)
layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=7))
print(f"{num_heads} heads of {config.key_dim} share {num_hiddens} hidden units: one product of (100, 100) projects for all")

rng = np.random.default_rng(1)
X = rng.standard_normal((batch_size, num_queries, num_hiddens), np.float32)
Y = rng.standard_normal((batch_size, num_kvpairs, num_hiddens), np.float32)
result = layer.forward(X, Y, Y, mask=hw.valid_lengths(valid_lens), weights=hw.all_weights())
print("output ", result.output.shape)
print("weights", result.weights.shape, "(sequence, head, query, key)")

np.set_printoptions(precision=3, suppress=True)
for sequence, length in enumerate(valid_lens):
    weights = result.weights[sequence]
    print(f"\nsequence {sequence}, valid length {length}; head 0, a row for each query:")
    print(weights[0])
    print("  rows sum to 1:", np.allclose(weights.sum(-1), 1), " exactly 0 beyond the length:",
          not weights[..., length:].any())

# In the lesson, masked scores are -1e6: exp() makes them 0, but 0 · NaN would still be NaN. Here masked keys are never read.
Y[0, 3:] = Y[1, 2:] = np.nan
again = layer.forward(X, Y, Y, mask=hw.valid_lengths(valid_lens))
print("\nNaN in all masked keys and values changes a bit of the output:", again.output.tobytes() != result.output.tobytes())
