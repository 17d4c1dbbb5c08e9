// Configurations, the table of weights they have, initialisers, and views of one head.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::all_equal;
using test_support::same_bits;

TEST(Config, Defaults) {
  const AttentionConfig c{.num_heads = 8, .key_dim = 64, .query_features = 512};
  EXPECT_EQ(c.kv_heads(), 8);
  EXPECT_EQ(c.value_size(), 64);
  EXPECT_EQ(c.key_inputs(), 512);
  EXPECT_EQ(c.value_inputs(), 512);
  EXPECT_EQ(c.outputs(), 512);
  EXPECT_TRUE(c.has_output_bias());
  EXPECT_FLOAT_EQ(c.score_scale(), 0.125F);
  EXPECT_EQ(c.extra_keys(), 0);
}

TEST(Config, ChoicesOfTheirOwn) {
  const AttentionConfig c{.num_heads = 8,
                          .num_kv_heads = 2,
                          .key_dim = 64,
                          .value_dim = 32,
                          .query_features = 512,
                          .key_features = 100,
                          .output_features = 7,
                          .use_bias = false,
                          .use_output_bias = true,
                          .scale = 2.0F,
                          .add_bias_kv = true,
                          .add_zero_attn = true};
  EXPECT_EQ(c.kv_heads(), 2);
  EXPECT_EQ(c.value_size(), 32);
  EXPECT_EQ(c.value_inputs(), 100) << "as the keys'";
  EXPECT_EQ(c.outputs(), 7);
  EXPECT_TRUE(c.has_output_bias());
  EXPECT_EQ(c.score_scale(), 2.0F);
  EXPECT_EQ(c.extra_keys(), 2);
}

// ---- The table ---------------------------------------------------------------------------------

struct ExpectedRow {
  std::string name;
  Shape shape, flat;
};

void expect_table(const AttentionConfig& config, const std::vector<ExpectedRow>& rows,
                  std::int64_t total) {
  const WeightTable table = describe(config);
  ASSERT_EQ(table.rows.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(table.rows[i].name, rows[i].name);
    EXPECT_EQ(table.rows[i].shape, rows[i].shape) << rows[i].name;
    EXPECT_EQ(table.rows[i].flat_shape, rows[i].flat) << rows[i].name;
    EXPECT_EQ(table.rows[i].count, rows[i].shape.element_count()) << rows[i].name;
  }
  EXPECT_EQ(table.total, total);
}

TEST(WeightTable, EightHeadsOfSixtyFour) {
  expect_table({.num_heads = 8, .key_dim = 64, .query_features = 512},
               {{"query/kernel", {512, 8, 64}, {512, 512}},
                {"query/bias", {8, 64}, {512}},
                {"key/kernel", {512, 8, 64}, {512, 512}},
                {"key/bias", {8, 64}, {512}},
                {"value/kernel", {512, 8, 64}, {512, 512}},
                {"value/bias", {8, 64}, {512}},
                {"attention_output/kernel", {8, 64, 512}, {512, 512}},
                {"attention_output/bias", {512}, {512}}},
               1'050'624);
}

TEST(WeightTable, FourHeadsOfOneHundredTwentyEight) {
  const WeightTable table = describe({.num_heads = 4, .key_dim = 128, .query_features = 512});
  EXPECT_EQ(table.total, 1'050'624);
  EXPECT_EQ(table.rows.at(0).shape, Shape({512, 4, 128}));
  EXPECT_EQ(table.rows.at(6).shape, Shape({4, 128, 512}));
}

TEST(WeightTable, ValuesOfThirtyTwo) {
  expect_table({.num_heads = 8, .key_dim = 64, .value_dim = 32, .query_features = 512},
               {{"query/kernel", {512, 8, 64}, {512, 512}},
                {"query/bias", {8, 64}, {512}},
                {"key/kernel", {512, 8, 64}, {512, 512}},
                {"key/bias", {8, 64}, {512}},
                {"value/kernel", {512, 8, 32}, {512, 256}},
                {"value/bias", {8, 32}, {256}},
                {"attention_output/kernel", {8, 32, 512}, {256, 512}},
                {"attention_output/bias", {512}, {512}}},
               788'224);
}

TEST(WeightTable, WithoutBiases) {
  const WeightTable table =
      describe({.num_heads = 8, .key_dim = 64, .query_features = 512, .use_bias = false});
  EXPECT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.total, 4 * 512 * 512);
}

TEST(WeightTable, Text) {
  const std::string text =
      describe({.num_heads = 8, .key_dim = 64, .value_dim = 32, .query_features = 512}).to_string();
  for (const char* piece : {"query/kernel", "(512, 8, 64)", "(512, 8, 32)", "(8, 32, 512)"}) {
    EXPECT_NE(text.find(piece), std::string::npos) << piece << " in\n" << text;
  }
  const bool total =
      text.find("788224") != std::string::npos || text.find("788,224") != std::string::npos;
  EXPECT_TRUE(total) << text;
}

TEST(WeightTable, AgreesWithTheWeightsThemselves) {
  const AttentionConfig config{.num_heads = 6,
                               .num_kv_heads = 3,
                               .key_dim = 5,
                               .value_dim = 4,
                               .query_features = 11,
                               .key_features = 12,
                               .value_features = 13,
                               .output_features = 14,
                               .use_gate = true,
                               .qk_norm = QkNorm::RmsNorm,
                               .add_bias_kv = true};
  const AttentionWeights weights = AttentionWeights::glorot(config, 1);
  const WeightTable table = describe(config);
  std::size_t row = 0;
  std::int64_t total = 0;
  for (const WeightField& field : weight_fields()) {
    ASSERT_TRUE(field.present(config)) << field.name;
    const Tensor& tensor = weights.*field.tensor;
    EXPECT_EQ(tensor.shape(), field.flat_shape(config)) << field.name;
    EXPECT_EQ(field.head_shape(config).element_count(), tensor.size()) << field.name;
    EXPECT_EQ(table.rows.at(row++).name, field.name);
    total += tensor.size();
  }
  EXPECT_EQ(table.rows.size(), 14U);
  EXPECT_EQ(table.total, total);
  EXPECT_EQ(weights.gate_kernel.shape(), Shape({11, 24}));
  EXPECT_EQ(weights.key_kernel.shape(), Shape({12, 15}));
  EXPECT_EQ(weights.value_kernel.shape(), Shape({13, 12}));
  EXPECT_EQ(weights.output_kernel.shape(), Shape({24, 14}));
  EXPECT_EQ(weights.query_norm.shape(), Shape({5}));
  EXPECT_EQ(weights.extra_key.shape(), Shape({15}));
  EXPECT_EQ(weights.extra_value.shape(), Shape({12}));
  EXPECT_NO_THROW(validate(config, weights));
}

// ---- Initialisers ------------------------------------------------------------------------------

double variance(const Tensor& x) {
  double sum = 0.0;
  for (const float v : x.values()) sum += static_cast<double>(v) * static_cast<double>(v);
  return sum / static_cast<double>(x.size());
}

class Initialisers : public ::testing::Test {
 protected:
  // Fan-in and fan-out differ for every kernel.
  AttentionConfig config_{.num_heads = 8,
                          .key_dim = 64,
                          .value_dim = 32,
                          .query_features = 512,
                          .output_features = 700,
                          .qk_norm = QkNorm::RmsNorm};
};

TEST_F(Initialisers, GlorotUniform) {
  const AttentionWeights w = AttentionWeights::glorot(config_, 1);
  for (const Tensor* kernel : {&w.query_kernel, &w.value_kernel, &w.output_kernel}) {
    const double bound =
        std::sqrt(6.0 / static_cast<double>(kernel->extent(0) + kernel->extent(1)));
    float largest = 0.0F;
    for (const float v : kernel->values()) largest = std::max(largest, std::abs(v));
    EXPECT_LE(largest, bound * 1.000001);
    EXPECT_GT(largest, bound * 0.999);
    EXPECT_NEAR(variance(*kernel) / (bound * bound / 3.0), 1.0, 0.02);
  }
}

TEST_F(Initialisers, NormalVariances) {
  const AttentionWeights glorot =
      AttentionWeights::initialise(config_, Initializer::GlorotNormal, 1);
  const AttentionWeights lecun = AttentionWeights::initialise(config_, Initializer::LecunNormal, 1);
  EXPECT_NEAR(variance(glorot.value_kernel) / (2.0 / (512.0 + 256.0)), 1.0, 0.02);
  EXPECT_NEAR(variance(glorot.output_kernel) / (2.0 / (256.0 + 700.0)), 1.0, 0.02);
  EXPECT_NEAR(variance(lecun.value_kernel) / (1.0 / 512.0), 1.0, 0.02);
  EXPECT_NEAR(variance(lecun.output_kernel) / (1.0 / 256.0), 1.0, 0.02);
}

TEST_F(Initialisers, BiasesZeroNormScalesOne) {
  const AttentionWeights w = AttentionWeights::glorot(config_, 1);
  EXPECT_TRUE(all_equal(w.query_bias, 0.0F));
  EXPECT_TRUE(all_equal(w.output_bias, 0.0F));
  EXPECT_TRUE(all_equal(w.query_norm, 1.0F));
  EXPECT_TRUE(all_equal(w.key_norm, 1.0F));
  EXPECT_TRUE(all_equal(AttentionWeights::zeros(config_).query_kernel, 0.0F));
}

TEST_F(Initialisers, SeedsAndKernelsDiffer) {
  const AttentionWeights a = AttentionWeights::glorot(config_, 1);
  EXPECT_TRUE(same_bits(a, AttentionWeights::glorot(config_, 1)));
  EXPECT_FALSE(same_bits(a.query_kernel, AttentionWeights::glorot(config_, 2).query_kernel));
  EXPECT_FALSE(same_bits(a.query_kernel, a.key_kernel)) << "or all scores would be symmetric";
}

// ---- One head ----------------------------------------------------------------------------------

TEST(HeadViews, AreViewsNotCopies) {
  const AttentionConfig config{.num_heads = 6,
                               .num_kv_heads = 3,
                               .key_dim = 5,
                               .value_dim = 4,
                               .query_features = 11,
                               .output_features = 14};
  const AttentionWeights w = AttentionWeights::glorot(config, 1);
  for (std::int64_t head = 0; head < 6; ++head) {
    const HeadViews views = head_views(config, w, head);
    EXPECT_EQ(views.query_kernel.shape(), Shape({11, 5}));
    EXPECT_EQ(views.key_kernel.shape(), Shape({11, 5}));
    EXPECT_EQ(views.value_kernel.shape(), Shape({11, 4}));
    EXPECT_EQ(views.output_kernel.shape(), Shape({4, 14}));
    const std::int64_t group = head / 2;  // two query heads share a key/value head
    EXPECT_EQ(&views.query_kernel(3, 2), &w.query_kernel.view()(3, head * 5 + 2));
    EXPECT_EQ(&views.key_kernel(3, 2), &w.key_kernel.view()(3, group * 5 + 2));
    EXPECT_EQ(&views.value_kernel(3, 2), &w.value_kernel.view()(3, group * 4 + 2));
    EXPECT_EQ(&views.output_kernel(3, 2), &w.output_kernel.view()(head * 4 + 3, 2));
  }
}

}  // namespace
}  // namespace headwise
