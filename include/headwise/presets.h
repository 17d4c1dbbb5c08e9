// The conventions of other libraries, one call each: configurations, and weights from their names
// and layouts. The maps hold what the framework itself stores, under its own names.
#pragma once

#include <cstdint>
#include <optional>

#include "headwise/config.h"
#include "headwise/tensor.h"
#include "headwise/weights.h"

namespace headwise::presets {

// torch.nn.MultiheadAttention(embed_dim, num_heads, …)
struct Torch {
  std::int64_t embed_dim = 0;
  std::int64_t num_heads = 0;
  float dropout = 0.0F;
  bool bias = true;
  bool add_bias_kv = false;
  bool add_zero_attn = false;
  std::optional<std::int64_t> kdim = {};  // embed_dim
  std::optional<std::int64_t> vdim = {};  // embed_dim
};
AttentionConfig torch(const Torch& options);
// in_proj_weight (3E,E) or q_proj_weight, k_proj_weight, v_proj_weight; in_proj_bias;
// out_proj.weight, out_proj.bias; bias_k, bias_v.
AttentionWeights torch_weights(const AttentionConfig& config, const TensorMap& tensors);

// keras.layers.MultiHeadAttention(num_heads, key_dim, …), built on inputs of these features; with
// num_key_value_heads, keras.layers.GroupQueryAttention.
struct Keras {
  std::int64_t num_heads = 0;
  std::int64_t key_dim = 0;
  std::optional<std::int64_t> value_dim = {};  // key_dim
  float dropout = 0.0F;
  bool use_bias = true;
  std::optional<std::int64_t> output_shape = {};  // query_features; of several axes: their product
  bool use_gate = false;
  std::optional<std::int64_t> num_key_value_heads = {};  // num_heads
  std::int64_t query_features = 0;
  std::optional<std::int64_t> value_features = {};  // query_features
  std::optional<std::int64_t> key_features = {};    // value_features, as Keras's key is its value
};
AttentionConfig keras(const Keras& options);
// query/kernel (Dq,H,dk), query/bias (H,dk), key/…, value/…, gate/…,
// attention_output/kernel (H,dv,Do), attention_output/bias (Do).
AttentionWeights keras_weights(const AttentionConfig& config, const TensorMap& tensors);

// flax.linen and flax.nnx MultiHeadAttention: query/kernel (D,H,dk), …, out/kernel (H,dk,Do),
// out/bias; with normalised queries and keys also query_ln/scale and key_ln/scale (dk).
AttentionWeights flax_weights(const AttentionConfig& config, const TensorMap& tensors);

// Dive into Deep Learning: MultiHeadAttention(num_hiddens, num_heads, dropout, bias=False)
struct D2l {
  std::int64_t num_hiddens = 0;
  std::int64_t num_heads = 0;
  float dropout = 0.0F;
  bool bias = false;
};
AttentionConfig d2l(const D2l& options);
// W_q.weight (out,in) … W_o.weight, W_q.bias … (its PyTorch side).
AttentionWeights d2l_weights(const AttentionConfig& config, const TensorMap& tensors);

// Attention Is All You Need, 3.2.2: d_k = d_v = d_model / h, no biases.
AttentionConfig paper(std::int64_t d_model = 512, std::int64_t heads = 8);

}  // namespace headwise::presets
