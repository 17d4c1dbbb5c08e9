// Layers beside each other, scales folded into queries.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <string>

#include "headwise/error.h"
#include "headwise/spectra.h"
#include "stored.h"
#include "support/expect_bits.h"

namespace headwise::test_layouts {
namespace {

LayerParts random_layer(const AttentionConfig& config, std::uint64_t seed) {
  LayerParts layer{config, AttentionWeights::glorot(config, seed)};
  for (const WeightField& field : weight_fields()) {  // biases too
    Tensor& tensor = layer.weights.*field.tensor;
    if (tensor.rank() == 1 && tensor.size() > 0) {
      tensor = Tensor::normal(tensor.shape(), ++seed);
    }
  }
  return layer;
}

struct Inputs {
  explicit Inputs(const AttentionConfig& config)
      : query(Tensor::normal({2, 5, config.query_features}, 1)),
        key(Tensor::normal({2, 7, config.key_inputs()}, 2)),
        value(Tensor::normal({2, 7, config.value_inputs()}, 3)) {}
  [[nodiscard]] AttentionInputs views() const { return {query, key, value}; }
  Tensor query, key, value;
};

LayerDifference difference(const LayerParts& a, const LayerParts& b) {
  const Inputs inputs(a.config);
  return compare_layers(a, inputs.views(), b, inputs.views());
}

TEST(CompareLayers, TheSameLayer) {
  const LayerParts layer =
      random_layer({.num_heads = 4, .num_kv_heads = 2, .key_dim = 3, .query_features = 8}, 1);
  const LayerDifference same = difference(layer, layer);
  EXPECT_TRUE(same.same_bits);
  EXPECT_EQ(same.output_error, 0.0);
  EXPECT_EQ(same.weight_changes, std::vector<double>(4, 0.0));
  EXPECT_EQ(same.score_errors, std::vector<double>(4, 0.0));
}

TEST(CompareLayers, OneHeadThatDiffers) {
  const LayerParts layer = random_layer({.num_heads = 3, .key_dim = 4, .query_features = 8}, 1);
  LayerParts other = layer;
  for (std::int64_t i = 0; i < 8; ++i) {
    for (std::int64_t d = 4; d < 8; ++d) other.weights.query_kernel.view()(i, d) *= 2.0F;
  }
  for (std::int64_t d = 4; d < 8; ++d) other.weights.query_bias.view()(d) *= 2.0F;
  const LayerDifference result = difference(layer, other);
  EXPECT_FALSE(result.same_bits);
  EXPECT_GT(result.output_error, 1e-3);
  EXPECT_NEAR(result.score_errors.at(1), 1.0, 1e-6) << "twice the scores are off by the scores";
  EXPECT_EQ(result.score_errors.at(0), 0.0);
  EXPECT_GT(result.weight_changes.at(1), 1e-3);
  EXPECT_EQ(result.weight_changes.at(0), 0.0);
  EXPECT_EQ(result.weight_changes.at(2), 0.0);
}

// A bias of the keys adds one number to all scores of a query, and softmax takes it off again.
TEST(CompareLayers, WhatSoftmaxDoesNotSeeIsNoError) {
  const LayerParts layer = random_layer({.num_heads = 2, .key_dim = 4, .query_features = 8}, 1);
  LayerParts other = layer;
  for (float& x : other.weights.key_bias.values()) x += 1.0F;
  for (const double error : difference(layer, other).score_errors) EXPECT_LT(error, 1e-5);
}

TEST(CompareLayers, OtherShapes) {
  const LayerParts layer = random_layer({.num_heads = 2, .key_dim = 4, .query_features = 8}, 1);
  const LayerParts wider =
      random_layer({.num_heads = 2, .key_dim = 4, .query_features = 8, .output_features = 9}, 1);
  EXPECT_THROW(difference(layer, wider), ArgumentError);
  const LayerParts heads = random_layer({.num_heads = 4, .key_dim = 2, .query_features = 8}, 1);
  EXPECT_TRUE(difference(layer, heads).weight_changes.empty());
  EXPECT_TRUE(difference(layer, heads).score_errors.empty());
  const Tensor flat({5, 8});
  EXPECT_THROW(compare_layers(layer, {.query = flat}, layer, {.query = flat}), ArgumentError);
}

// The factor is rounded once into every weight: an error of 2⁻²⁴ each, summed over a few dozen terms.
RC_GTEST_PROP(DefaultScale, ComputesTheSame, (std::uint64_t seed)) {
  AttentionConfig config = random_config(seed);
  config.scale = 0.01F + 0.1F * static_cast<float>(seed % 17);
  const LayerParts layer = random_layer(config, seed);
  const LayerParts plain = with_default_scale(layer);
  RC_ASSERT(!plain.config.scale.has_value());
  RC_ASSERT(difference(layer, plain).output_error < 1e-5);
}

TEST(DefaultScale, PowersOfTwoKeepTheBits) {
  const LayerParts layer =
      random_layer({.num_heads = 2, .key_dim = 4, .query_features = 8, .scale = 0.125F}, 1);
  EXPECT_TRUE(difference(layer, with_default_scale(layer)).same_bits);
}

TEST(DefaultScale, ALayerWithoutOneIsLeftAlone) {
  const LayerParts layer = random_layer({.num_heads = 2, .key_dim = 3, .query_features = 8}, 1);
  EXPECT_TRUE(test_support::same_bits(layer.weights, with_default_scale(layer).weights));
}

}  // namespace
}  // namespace headwise::test_layouts
