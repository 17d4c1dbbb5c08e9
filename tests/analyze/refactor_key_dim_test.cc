// Smaller heads: the same function where that can be, the promised error where it cannot.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "analyze/spectra_support.h"
#include "headwise/spectra.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise::test_support {
namespace {

Tensor run(const LayerParts& layer, std::uint64_t seed) {
  const AttentionConfig& config = layer.config;
  const Tensor query = Tensor::normal({2, 5, config.query_features}, seed + 1);
  const Tensor key = Tensor::normal({2, 6, config.key_inputs()}, seed + 2);
  const Tensor value = Tensor::normal({2, 6, config.value_inputs()}, seed + 3);
  return MultiHeadAttention(config, layer.weights)
      .forward({.query = query, .key = key, .value = value})
      .output;
}

// [W_q; b_q] of a head: what an input with a 1 at its end meets.
Matrix query_rows(const LayerParts& layer, std::int64_t head) {
  Matrix rows = matrix_of(head_views(layer.config, layer.weights, head).query_kernel);
  if (!layer.config.use_bias) return rows;
  const std::int64_t dk = layer.config.key_dim;
  const ConstView bias = layer.weights.query_bias.view().sliced(0, head * dk, (head + 1) * dk);
  rows.push_back(matrix_of(bias.broadcast(0, 1))[0]);
  return rows;
}
Matrix key_rows(const LayerParts& layer, std::int64_t head) {
  return matrix_of(head_views(layer.config, layer.weights, head).key_kernel);
}
Matrix meeting(const LayerParts& layer, std::int64_t head) {
  return times_transposed(query_rows(layer, head), key_rows(layer, head));
}

double difference(const Matrix& a, const Matrix& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::size_t j = 0; j < a[i].size(); ++j) sum += std::pow(a[i][j] - b[i][j], 2.0);
  }
  return std::sqrt(sum);
}

// ---- the same function -------------------------------------------------------------------------

struct SameCase {
  std::string name;
  AttentionConfig config;
};

class SameFunction : public ::testing::TestWithParam<SameCase> {};

TEST_P(SameFunction, WithTheOldKeyDim) {
  const LayerParts layer = random_layer(GetParam().config);
  const RefactoredLayer refactored = refactor_key_dim(layer, layer.config.key_dim);
  EXPECT_FALSE(same_bits(refactored.layer.weights.query_kernel, layer.weights.query_kernel))
      << "the factors are others";
  EXPECT_TRUE(close_to(run(refactored.layer, 7), run(layer, 7), 2e-6));
  for (const double error : refactored.errors) EXPECT_EQ(error, 0.0);
}

constexpr AttentionConfig kPlain = {.num_heads = 4, .key_dim = 5, .query_features = 12};
AttentionConfig with(AttentionConfig config, const std::function<void(AttentionConfig&)>& change) {
  change(config);
  return config;
}
INSTANTIATE_TEST_SUITE_P(
    Layers, SameFunction,
    ::testing::Values(SameCase{"Plain", kPlain},
                      SameCase{"NoBias", with(kPlain, [](auto& c) { c.use_bias = false; })},
                      SameCase{"Grouped", with(kPlain, [](auto& c) { c.num_kv_heads = 2; })},
                      SameCase{"OneKeyHead", with(kPlain, [](auto& c) { c.num_kv_heads = 1; })},
                      SameCase{"OwnScale", with(kPlain, [](auto& c) { c.scale = 0.7F; })},
                      SameCase{"SoftcapSeesTheKeyBias",
                               with(kPlain, [](auto& c) { c.softcap = 1.5F; })},
                      SameCase{"SoftcapNoBias", with(kPlain,
                                                     [](auto& c) {
                                                       c.softcap = 1.5F;
                                                       c.use_bias = false;
                                                     })},
                      SameCase{"ExtraKey", with(kPlain, [](auto& c) { c.add_bias_kv = true; })},
                      SameCase{"ExtraKeyNoBias", with(kPlain,
                                                      [](auto& c) {
                                                        c.add_bias_kv = true;
                                                        c.use_bias = false;
                                                      })},
                      SameCase{"ZeroKey", with(kPlain, [](auto& c) { c.add_zero_attn = true; })},
                      SameCase{"GroupedExtraKeys", with(kPlain,
                                                        [](auto& c) {
                                                          c.num_kv_heads = 2;
                                                          c.add_bias_kv = true;
                                                          c.add_zero_attn = true;
                                                        })},
                      SameCase{"Gate", with(kPlain, [](auto& c) { c.use_gate = true; })},
                      SameCase{"OtherSizes", with(kPlain,
                                                  [](auto& c) {
                                                    c.value_dim = 3;
                                                    c.key_features = 9;
                                                    c.value_features = 7;
                                                    c.output_features = 8;
                                                  })},
                      SameCase{"FewFeatures", with(kPlain, [](auto& c) { c.query_features = 3; })}),
    [](const auto& param_info) { return param_info.param.name; });

// Heads of rank 2 need 2 numbers each.
TEST(RefactorKeyDim, TheRankIsEnough) {
  AttentionConfig config = kPlain;
  config.use_bias = false;
  LayerParts layer = random_layer(config);
  for (std::int64_t h = 0; h < 4; ++h) {
    const Tensor low = linear(Tensor::normal({12, 2}, 20), Tensor::normal({2, 5}, 30));
    for (std::int64_t i = 0; i < 12; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        layer.weights.key_kernel.view()(i, h * 5 + j) = 0.3F * low.view()(i, j);
      }
    }
  }
  const RefactoredLayer refactored = refactor_key_dim(layer, 2);
  EXPECT_EQ(refactored.layer.weights.query_kernel.shape(), Shape({12, 8}));
  for (const double error : refactored.errors) EXPECT_LT(error, 1e-7);
  EXPECT_TRUE(close_to(run(refactored.layer, 3), run(layer, 3), 2e-6));
  EXPECT_GT(refactor_key_dim(layer, 1).errors[0], 0.1);
}

// More numbers than there are singular values: the rest is zeros.
TEST(RefactorKeyDim, FewFeaturesLeaveZeros) {
  AttentionConfig config = kPlain;
  config.query_features = 2;
  config.use_bias = false;
  const LayerParts layer = random_layer(config);
  const LayerParts smaller = refactor_key_dim(layer, 4).layer;
  EXPECT_TRUE(close_to(run(smaller, 3), run(layer, 3), 2e-6));
  const auto key = smaller.weights.key_kernel.view();
  for (std::int64_t i = 0; i < 2; ++i) {
    for (const std::int64_t j : {2, 3}) EXPECT_EQ(key(i, j), 0.0F);
  }
}

TEST(RefactorKeyDim, WhatHungOnKeyDimIsSaid) {
  const LayerParts layer = random_layer(kPlain);
  const LayerParts smaller = refactor_key_dim(layer, 3).layer;
  EXPECT_EQ(smaller.config.key_dim, 3);
  EXPECT_EQ(smaller.config.value_size(), 5);
  ASSERT_TRUE(smaller.config.scale);
  EXPECT_EQ(*smaller.config.scale, layer.config.score_scale());
  EXPECT_NO_THROW(validate(smaller.config, smaller.weights));
  for (const float x : smaller.weights.key_bias.values()) EXPECT_EQ(x, 0.0F);
  EXPECT_TRUE(same_bits(smaller.weights.value_kernel, layer.weights.value_kernel));
  EXPECT_TRUE(same_bits(smaller.weights.value_bias, layer.weights.value_bias));
  EXPECT_TRUE(same_bits(smaller.weights.output_kernel, layer.weights.output_kernel));
  EXPECT_TRUE(same_bits(smaller.weights.output_bias, layer.weights.output_bias));
}

// ---- the error ---------------------------------------------------------------------------------

// numpy.linalg.svd of the 6×4 product of [W_q; b_q] and W_kᵀ.
TEST(RefactorKeyDim, ErrorsAsNumpyHasThem) {
  const AttentionConfig config{
      .num_heads = 1, .key_dim = 3, .query_features = 5, .key_features = 4};
  LayerParts layer = random_layer(config);
  layer.weights.query_kernel =
      Tensor::from({5, 3}, {2, -1, 0, 1, 3, 1, 0, 1, -2, 4, 0, 1, -1, 2, 2});
  layer.weights.query_bias = Tensor::from({3}, {1, -2, 1});
  layer.weights.key_kernel = Tensor::from({4, 3}, {1, 0, 2, -3, 1, 0, 2, 2, -1, 0, 1, 5});
  EXPECT_NEAR(refactor_key_dim(layer, 1).errors[0], 0.6727516497150764, 1e-14);
  EXPECT_NEAR(refactor_key_dim(layer, 2).errors[0], 0.3325935674036534, 1e-14);
  EXPECT_EQ(refactor_key_dim(layer, 3).errors[0], 0.0);
}

// The error is what comes out, and with a key head for each query head nothing can be better.
RC_GTEST_PROP(RefactorKeyDimProperty, TheErrorIsExactAndTheLeast, (std::uint64_t seed)) {
  Dice dice(seed);
  const AttentionConfig config = any_config(dice);
  const LayerParts layer = random_layer(config, seed);
  const std::int64_t key_dim = dice.between(1, config.key_dim);
  const RefactoredLayer refactored = refactor_key_dim(layer, key_dim);
  RC_ASSERT(static_cast<std::int64_t>(refactored.errors.size()) == config.num_heads);
  const std::int64_t group = config.num_heads / config.kv_heads();
  for (std::int64_t first = 0; first < config.num_heads; first += group) {
    Matrix stacked;  // of all heads that share the key head
    double squares = 0.0;
    for (std::int64_t h = first; h < first + group; ++h) {
      const Matrix old = meeting(layer, h);
      const double promised = refactored.errors[static_cast<std::size_t>(h)];
      const double seen = difference(meeting(refactored.layer, h), old) / norm(old);
      RC_ASSERT(std::abs(seen - promised) <= 1e-6);
      squares += std::pow(promised * norm(old), 2.0);
      stacked.insert(stacked.end(), old.begin(), old.end());
    }
    const std::vector<double> values = singular_values_of(stacked);
    double left_out = 0.0;
    for (std::size_t i = static_cast<std::size_t>(key_dim); i < values.size(); ++i) {
      left_out += values[i] * values[i];
    }
    RC_ASSERT(std::abs(std::sqrt(squares) - std::sqrt(left_out)) <= 1e-12 * norm(stacked));
  }
}

// ---- refusals ----------------------------------------------------------------------------------

TEST(RefactorKeyDim, RefusesWhatCannotBe) {
  const LayerParts layer = random_layer(kPlain);
  for (const std::int64_t key_dim : {-1, 0, 6}) {
    EXPECT_TRUE(
        refuses([&] { refactor_key_dim(layer, key_dim); }, "refactor_key_dim", "key_dim", "1 … 5"));
  }
  AttentionConfig normed = kPlain;
  normed.qk_norm = QkNorm::LayerNorm;
  EXPECT_TRUE(refuses([&] { refactor_key_dim(random_layer(normed), 3); }, "refactor_key_dim",
                      "layer", "qk_norm"));
  LayerParts bad = layer;
  bad.weights.query_kernel.values()[7] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refuses([&] { refactor_key_dim(bad, 3); }, "refactor_key_dim", "layer", "finite"));
}

}  // namespace
}  // namespace headwise::test_support
