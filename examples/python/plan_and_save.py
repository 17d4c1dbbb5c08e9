"""What three numbers cost, and a layer that travels between libraries.

    python examples/python/plan_and_save.py
"""

import numpy as np

import headwise as hw

print("8 heads of 64, of 32 values, and 16 heads of 32, on 32 sequences of 128 tokens:")
for num_heads, key_dim, value_dim in [(8, 64, 64), (8, 64, 32), (16, 32, 32)]:
    config = hw.AttentionConfig(num_heads=num_heads, key_dim=key_dim, value_dim=value_dim, query_features=512)
    cost = hw.layer_cost(config, hw.LayerCall(queries=128, batch=32))
    print(f"  {num_heads:2} × {key_dim} → {value_dim}: {cost.weights.total:,} parameters, {cost.flops / 1e9:.2f} GFLOP, "
          f"{cost.memory.cache_per_token} bytes of cache for a token")

print()
print(hw.plan(config, queries=128, batch=32, threads=1))

# The same function as torch.nn.MultiheadAttention and keras.layers.MultiHeadAttention store it.
layer = hw.MultiHeadAttention(config, hw.AttentionWeights.glorot(config, seed=7))
hw.save_layers("torch.safetensors", {"encoder": layer}, hw.WeightLayout.Torch)
hw.save_layers("model.weights.h5", {"encoder": layer}, hw.WeightLayout.Keras)
x = np.random.default_rng(1).standard_normal((2, 5, 512), np.float32)
outputs = [one.forward(x).output.tobytes()
           for one in (layer, hw.load_layer("torch.safetensors"), hw.load_layer("model.weights.h5"))]
print("\nread back from both files, the same bits:", len(set(outputs)) == 1)
