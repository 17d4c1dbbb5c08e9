// Configurations and weights under the names and layouts of other libraries.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::same_bits;

std::uint64_t next_seed() {
  static std::uint64_t seed = 0;
  return ++seed;
}

Tensor numbers(const Shape& shape) { return Tensor::normal(shape, next_seed()); }

Tensor transposed(const Tensor& matrix) { return Tensor::copy_of(matrix.view().permuted({1, 0})); }

Tensor rows(const Tensor& tensor, std::int64_t begin, std::int64_t end) {
  return Tensor::copy_of(tensor.view().sliced(0, begin, end));
}

// ---- PyTorch -----------------------------------------------------------------------------------

TEST(TorchPreset, Configuration) {
  const AttentionConfig c = presets::torch({.embed_dim = 12, .num_heads = 3, .dropout = 0.25F});
  EXPECT_EQ(c.num_heads, 3);
  EXPECT_EQ(c.kv_heads(), 3);
  EXPECT_EQ(c.key_dim, 4);
  EXPECT_EQ(c.value_size(), 4);
  EXPECT_EQ(c.query_features, 12);
  EXPECT_EQ(c.key_inputs(), 12);
  EXPECT_EQ(c.value_inputs(), 12);
  EXPECT_EQ(c.outputs(), 12);
  EXPECT_TRUE(c.use_bias);
  EXPECT_TRUE(c.has_output_bias());
  EXPECT_EQ(c.dropout, 0.25F);
  EXPECT_EQ(c.extra_keys(), 0);
}

TEST(TorchPreset, FeaturesOfKeysAndValues) {
  const AttentionConfig c =
      presets::torch({.embed_dim = 12, .num_heads = 3, .bias = false, .kdim = 7});
  EXPECT_EQ(c.key_inputs(), 7);
  EXPECT_EQ(c.value_inputs(), 12) << "vdim is embed_dim's size, not kdim's";
  EXPECT_FALSE(c.use_bias);
  EXPECT_FALSE(c.has_output_bias());
  const AttentionConfig values = presets::torch({.embed_dim = 12, .num_heads = 3, .vdim = 5});
  EXPECT_EQ(values.key_inputs(), 12);
  EXPECT_EQ(values.value_inputs(), 5);
}

TEST(TorchPreset, PackedProjection) {
  const AttentionConfig c = presets::torch({.embed_dim = 12, .num_heads = 3});
  const Tensor in = numbers({36, 12});
  const Tensor in_bias = numbers({36});
  const Tensor out = numbers({12, 12});
  const Tensor out_bias = numbers({12});
  const AttentionWeights w = presets::torch_weights(c, {{"in_proj_weight", in},
                                                        {"in_proj_bias", in_bias},
                                                        {"out_proj.weight", out},
                                                        {"out_proj.bias", out_bias}});
  EXPECT_TRUE(same_bits(w.query_kernel, transposed(rows(in, 0, 12))));
  EXPECT_TRUE(same_bits(w.key_kernel, transposed(rows(in, 12, 24))));
  EXPECT_TRUE(same_bits(w.value_kernel, transposed(rows(in, 24, 36))));
  EXPECT_TRUE(same_bits(w.query_bias, rows(in_bias, 0, 12)));
  EXPECT_TRUE(same_bits(w.key_bias, rows(in_bias, 12, 24)));
  EXPECT_TRUE(same_bits(w.value_bias, rows(in_bias, 24, 36)));
  EXPECT_TRUE(same_bits(w.output_kernel, transposed(out)));
  EXPECT_TRUE(same_bits(w.output_bias, out_bias));
  EXPECT_NO_THROW(validate(c, w));
}

TEST(TorchPreset, SeparateProjectionsAndExtraKeys) {
  const AttentionConfig c = presets::torch({.embed_dim = 12,
                                            .num_heads = 3,
                                            .add_bias_kv = true,
                                            .add_zero_attn = true,
                                            .kdim = 7,
                                            .vdim = 5});
  EXPECT_EQ(c.extra_keys(), 2);
  const Tensor q = numbers({12, 12});
  const Tensor k = numbers({12, 7});
  const Tensor v = numbers({12, 5});
  const Tensor bias_k = numbers({1, 1, 12});
  const Tensor bias_v = numbers({1, 1, 12});
  const AttentionWeights w = presets::torch_weights(c, {{"q_proj_weight", q},
                                                        {"k_proj_weight", k},
                                                        {"v_proj_weight", v},
                                                        {"in_proj_bias", numbers({36})},
                                                        {"out_proj.weight", numbers({12, 12})},
                                                        {"out_proj.bias", numbers({12})},
                                                        {"bias_k", bias_k},
                                                        {"bias_v", bias_v}});
  EXPECT_TRUE(same_bits(w.query_kernel, transposed(q)));
  EXPECT_TRUE(same_bits(w.key_kernel, transposed(k)));
  EXPECT_TRUE(same_bits(w.value_kernel, transposed(v)));
  EXPECT_TRUE(same_bits(w.extra_key, bias_k.reshaped({12})));
  EXPECT_TRUE(same_bits(w.extra_value, bias_v.reshaped({12})));
  EXPECT_NO_THROW(validate(c, w));
}

TEST(TorchPreset, PackedAndSeparateAtOnce) {
  const AttentionConfig c = presets::torch({.embed_dim = 12, .num_heads = 3, .bias = false});
  const auto read = [&] {
    presets::torch_weights(c, {{"in_proj_weight", numbers({36, 12})},
                               {"q_proj_weight", numbers({12, 12})},
                               {"out_proj.weight", numbers({12, 12})}});
  };
  EXPECT_TRUE(refuses(read, "presets::torch_weights", "q_proj_weight"));
}

// What a library does not have cannot be in its files, whatever else is.
TEST(Presets, OptionsThatALibraryLacks) {
  AttentionConfig gate = presets::torch({.embed_dim = 12, .num_heads = 3, .bias = false});
  gate.use_gate = true;
  const TensorMap torch = {{"in_proj_weight", numbers({36, 12})},
                           {"out_proj.weight", numbers({12, 12})}};
  EXPECT_TRUE(refuses([&] { presets::torch_weights(gate, torch); }, "presets::torch_weights",
                      "config", "gate/kernel"));
  const AttentionConfig norm{.num_heads = 3,
                             .key_dim = 4,
                             .query_features = 12,
                             .use_bias = false,
                             .qk_norm = QkNorm::RmsNorm};
  const TensorMap keras = {{"query/kernel", numbers({12, 3, 4})},
                           {"key/kernel", numbers({12, 3, 4})},
                           {"value/kernel", numbers({12, 3, 4})},
                           {"attention_output/kernel", numbers({3, 4, 12})}};
  EXPECT_TRUE(refuses([&] { presets::keras_weights(norm, keras); }, "presets::keras_weights",
                      "config", "query_norm/scale"));
}

// Packed widths add up; sizes that fit one by one need not fit together.
TEST(TorchPreset, PackedWidthsThatOverflow) {
  const AttentionConfig c{
      .num_heads = std::int64_t{1} << 62, .key_dim = 1, .query_features = 1, .use_bias = false};
  EXPECT_THROW(presets::torch_weights(c, {{"in_proj_weight", numbers({3, 1})}}), ArgumentError);
}

// ---- Keras and Flax ----------------------------------------------------------------------------

TensorMap by_heads(const AttentionConfig& c, const std::string& output) {
  const std::int64_t h = c.num_heads, kv = c.kv_heads(), dk = c.key_dim, dv = c.value_size();
  TensorMap map{{"query/kernel", numbers({c.query_features, h, dk})},
                {"key/kernel", numbers({c.key_inputs(), kv, dk})},
                {"value/kernel", numbers({c.value_inputs(), kv, dv})},
                {output + "/kernel", numbers({h, dv, c.outputs()})}};
  if (c.use_bias) {
    map["query/bias"] = numbers({h, dk});
    map["key/bias"] = numbers({kv, dk});
    map["value/bias"] = numbers({kv, dv});
    map[output + "/bias"] = numbers({c.outputs()});
  }
  return map;
}

void expect_by_heads(const AttentionConfig& c, const TensorMap& map, const AttentionWeights& w,
                     const std::string& output) {
  const auto flat = [&](const std::string& name, const Tensor& tensor) {
    return same_bits(map.at(name).reshaped(tensor.shape()), tensor) << name;
  };
  EXPECT_TRUE(flat("query/kernel", w.query_kernel));
  EXPECT_TRUE(flat("key/kernel", w.key_kernel));
  EXPECT_TRUE(flat("value/kernel", w.value_kernel));
  EXPECT_TRUE(flat(output + "/kernel", w.output_kernel));
  if (c.use_bias) {
    EXPECT_TRUE(flat("query/bias", w.query_bias));
    EXPECT_TRUE(flat("key/bias", w.key_bias));
    EXPECT_TRUE(flat("value/bias", w.value_bias));
    EXPECT_TRUE(flat(output + "/bias", w.output_bias));
  }
  EXPECT_NO_THROW(validate(c, w));
}

TEST(KerasPreset, Configuration) {
  const AttentionConfig config = presets::keras({.num_heads = 8,
                                                 .key_dim = 64,
                                                 .value_dim = 32,
                                                 .output_shape = 20,
                                                 .num_key_value_heads = 2,
                                                 .query_features = 512,
                                                 .value_features = 48});
  EXPECT_EQ(config.kv_heads(), 2);
  EXPECT_EQ(config.value_size(), 32);
  EXPECT_EQ(config.value_inputs(), 48);
  EXPECT_EQ(config.key_inputs(), 48);  // Keras's key is its value unless given
  EXPECT_EQ(config.outputs(), 20);
  EXPECT_EQ(describe(presets::keras({.num_heads = 8, .key_dim = 64, .query_features = 512})).total,
            1'050'624);
}

TEST(KerasPreset, Weights) {
  const AttentionConfig c{.num_heads = 3,
                          .key_dim = 4,
                          .value_dim = 2,
                          .query_features = 12,
                          .key_features = 9,
                          .output_features = 7};
  const TensorMap map = by_heads(c, "attention_output");
  expect_by_heads(c, map, presets::keras_weights(c, map), "attention_output");
}

TEST(KerasPreset, GroupedHeadsGateAndNoBias) {
  const AttentionConfig c{.num_heads = 6,
                          .num_kv_heads = 2,
                          .key_dim = 4,
                          .query_features = 12,
                          .use_bias = false,
                          .use_gate = true};
  TensorMap map = by_heads(c, "attention_output");
  map["gate/kernel"] = numbers({12, 6, 4});
  const AttentionWeights w = presets::keras_weights(c, map);
  expect_by_heads(c, map, w, "attention_output");
  EXPECT_TRUE(same_bits(w.gate_kernel, map.at("gate/kernel").reshaped({12, 24})));
}

TEST(FlaxPreset, Weights) {
  const AttentionConfig c{
      .num_heads = 3, .key_dim = 4, .query_features = 12, .qk_norm = QkNorm::LayerNorm};
  TensorMap map = by_heads(c, "out");
  map["query_ln/scale"] = numbers({4});
  map["key_ln/scale"] = numbers({4});
  const AttentionWeights w = presets::flax_weights(c, map);
  expect_by_heads(c, map, w, "out");
  EXPECT_TRUE(same_bits(w.query_norm, map.at("query_ln/scale")));
  EXPECT_TRUE(same_bits(w.key_norm, map.at("key_ln/scale")));
}

// ---- d2l and the paper -------------------------------------------------------------------------

TEST(D2lPreset, Configuration) {
  const AttentionConfig c = presets::d2l({.num_hiddens = 100, .num_heads = 5, .dropout = 0.5F});
  EXPECT_EQ(c.num_heads, 5);
  EXPECT_EQ(c.key_dim, 20);
  EXPECT_EQ(c.value_size(), 20);
  EXPECT_EQ(c.query_features, 100);
  EXPECT_EQ(c.outputs(), 100);
  EXPECT_EQ(c.dropout, 0.5F);
  EXPECT_FALSE(c.use_bias);
  EXPECT_FALSE(c.has_output_bias());
  EXPECT_TRUE(presets::d2l({.num_hiddens = 100, .num_heads = 5, .bias = true}).use_bias);
}

TEST(D2lPreset, Weights) {
  const AttentionConfig c = presets::d2l({.num_hiddens = 6, .num_heads = 2, .bias = true});
  TensorMap map;
  for (const char* name : {"W_q", "W_k", "W_v", "W_o"}) {
    map[std::string(name) + ".weight"] = numbers({6, 6});
    map[std::string(name) + ".bias"] = numbers({6});
  }
  const AttentionWeights w = presets::d2l_weights(c, map);
  EXPECT_TRUE(same_bits(w.query_kernel, transposed(map.at("W_q.weight"))));
  EXPECT_TRUE(same_bits(w.key_kernel, transposed(map.at("W_k.weight"))));
  EXPECT_TRUE(same_bits(w.value_kernel, transposed(map.at("W_v.weight"))));
  EXPECT_TRUE(same_bits(w.output_kernel, transposed(map.at("W_o.weight"))));
  EXPECT_TRUE(same_bits(w.query_bias, map.at("W_q.bias")));
  EXPECT_TRUE(same_bits(w.output_bias, map.at("W_o.bias")));
}

// The check of the book's chapter: shapes, and nothing beyond the valid lengths.
TEST(D2lPreset, TheBooksExample) {
  const AttentionConfig c = presets::d2l({.num_hiddens = 100, .num_heads = 5, .dropout = 0.5F});
  const MultiHeadAttention layer(c, AttentionWeights::glorot(c, 1));
  const Tensor queries = Tensor::full({2, 4, 100}, 1.0F);
  const Tensor keys = Tensor::full({2, 6, 100}, 1.0F);
  const AttentionResult r = layer.forward(
      {.query = queries, .key = keys}, {.mask = valid_lengths({3, 2}), .weights = all_weights()});
  EXPECT_EQ(r.output.shape(), Shape({2, 4, 100}));
  ASSERT_EQ(r.weights.shape(), Shape({2, 5, 4, 6}));
  for (std::int64_t b = 0; b < 2; ++b) {
    const std::int64_t length = b == 0 ? 3 : 2;
    for (std::int64_t h = 0; h < 5; ++h) {
      for (std::int64_t t = 0; t < 4; ++t) {
        for (std::int64_t s = 0; s < 6; ++s) {
          const float expected = s < length ? 1.0F / static_cast<float>(length) : 0.0F;
          EXPECT_NEAR(r.weights.view()(b, h, t, s), expected, s < length ? 1e-6F : 0.0F);
        }
      }
    }
  }
}

TEST(PaperPreset, Configuration) {
  const AttentionConfig c = presets::paper();
  EXPECT_EQ(c.num_heads, 8);
  EXPECT_EQ(c.key_dim, 64);
  EXPECT_EQ(c.query_features, 512);
  EXPECT_FALSE(c.use_bias);
  EXPECT_EQ(describe(c).total, 4 * 512 * 512);
  EXPECT_EQ(presets::paper(1024, 16).key_dim, 64) << "the big model";
}

}  // namespace
}  // namespace headwise
