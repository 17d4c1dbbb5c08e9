// The exact transforms of a layer: what goes in differently comes out the same.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::close_to;

// Random in every tensor, biases too: zeros would hide a forgotten term.
LayerParts random_layer(const AttentionConfig& config) {
  LayerParts parts{config, AttentionWeights::glorot(config, 5)};
  std::uint64_t seed = 50;
  for (const WeightField& field : weight_fields()) {
    Tensor& tensor = parts.weights.*field.tensor;
    if (field.present(config) && tensor.rank() == 1)
      tensor = Tensor::normal(tensor.shape(), ++seed);
  }
  return parts;
}

// ---- fold --------------------------------------------------------------------------------------

struct FoldCase {
  std::string name;
  Projection projection;
  bool shift = false;
  bool gate = false;
  bool bias = true;
};

class Fold : public ::testing::TestWithParam<FoldCase> {};

TEST_P(Fold, GivesTheSameOutput) {
  const FoldCase& c = GetParam();
  const AttentionConfig config{.num_heads = 4,
                               .num_kv_heads = 2,
                               .key_dim = 3,
                               .value_dim = 5,
                               .query_features = 6,
                               .key_features = 7,
                               .value_features = 8,
                               .output_features = 9,
                               .use_bias = c.bias,
                               .use_output_bias = true,
                               .use_gate = c.gate};
  const LayerParts old = random_layer(config);
  const std::int64_t old_features = c.projection == Projection::Query ? 6
                                    : c.projection == Projection::Key ? 7
                                                                      : 8;
  const Tensor map = Tensor::normal({11, old_features}, 1, 0.3F);
  const Tensor shift = Tensor::normal({old_features}, 2);
  const ConstView shift_view = c.shift ? shift.view() : ConstView();
  const LayerParts folded = fold(old, c.projection, map, shift_view);

  Tensor query = Tensor::normal({2, 4, 6}, 3);
  Tensor key = Tensor::normal({2, 5, 7}, 4);
  Tensor value = Tensor::normal({2, 5, 8}, 5);
  const std::int64_t length = c.projection == Projection::Query ? 4 : 5;
  const Tensor raw = Tensor::normal({2, length, 11}, 6);
  const Tensor mapped = linear(raw, map, shift_view);
  const auto output = [&](const LayerParts& parts, const Tensor& replaced) {
    AttentionInputs inputs{query, key, value};
    if (c.projection == Projection::Query) inputs.query = replaced;
    if (c.projection == Projection::Key) inputs.key = replaced;
    if (c.projection == Projection::Value) inputs.value = replaced;
    return MultiHeadAttention(parts.config, parts.weights).forward(inputs).output;
  };
  EXPECT_TRUE(close_to(output(folded, raw), output(old, mapped), 1e-5));
  EXPECT_EQ(folded.config.outputs(), 9) << "defaults that hung on the old sizes are pinned";
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Fold,
    ::testing::Values(FoldCase{"Query", Projection::Query}, FoldCase{"Key", Projection::Key},
                      FoldCase{"Value", Projection::Value},
                      FoldCase{"QueryShift", Projection::Query, true},
                      FoldCase{"KeyShift", Projection::Key, true},
                      FoldCase{"ValueShift", Projection::Value, true},
                      FoldCase{"QueryGate", Projection::Query, false, true},
                      FoldCase{"QueryShiftGate", Projection::Query, true, true},
                      FoldCase{"ValueShiftGate", Projection::Value, true, true},
                      FoldCase{"KeyNoBias", Projection::Key, false, false, false},
                      FoldCase{"QueryGateNoBias", Projection::Query, false, true, false}),
    [](const auto& param_info) { return param_info.param.name; });

// The sizes of the other inputs and of the output must not move with the one that is folded.
TEST(FoldDefaults, OtherFeaturesStayWhatTheyWere) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 3, .query_features = 6};
  const LayerParts folded = fold(random_layer(config), Projection::Query, Tensor({10, 6}));
  EXPECT_EQ(folded.config.query_features, 10);
  EXPECT_EQ(folded.config.key_inputs(), 6);
  EXPECT_EQ(folded.config.value_inputs(), 6);
  EXPECT_EQ(folded.config.outputs(), 6);
  const LayerParts keys = fold(random_layer(config), Projection::Key, Tensor({10, 6}));
  EXPECT_EQ(keys.config.query_features, 6);
  EXPECT_EQ(keys.config.key_inputs(), 10);
  EXPECT_EQ(keys.config.value_inputs(), 6);
}

// ---- merged_scores -----------------------------------------------------------------------------

TEST(MergedScores, WhyTheTwoMatricesStayApart) {
  const AttentionConfig config{.num_heads = 8, .key_dim = 64, .query_features = 512};
  const LayerParts layer{config, AttentionWeights::glorot(config, 7)};
  const HeadViews head = head_views(config, layer.weights, 3);
  EXPECT_EQ(head.query_kernel.size() + head.key_kernel.size(), 65'536);
  const MergedScores merged = merged_scores(layer, 3);
  EXPECT_EQ(merged.matrix.shape(), Shape({512, 512}));
  EXPECT_EQ(merged.matrix.size(), 262'144);
  EXPECT_EQ(merged.rank, 64) << "random factors have full rank";

  // Same scores: (x·W_q)·(y·W_k)ᵀ and x·M·yᵀ.
  const Tensor x = Tensor::normal({5, 512}, 1);
  const Tensor y = Tensor::normal({6, 512}, 2);
  const Tensor q = linear(x, Tensor::copy_of(head.query_kernel));
  const Tensor k = linear(y, Tensor::copy_of(head.key_kernel));
  const Tensor factored = linear(q, k.view().permuted({1, 0}));
  const Tensor whole = linear(linear(x, merged.matrix), y.view().permuted({1, 0}));
  EXPECT_TRUE(close_to(factored, whole, 1e-3));
}

TEST(MergedScores, HeadsOfAGroupShareTheirKey) {
  const AttentionConfig config{
      .num_heads = 4, .num_kv_heads = 2, .key_dim = 3, .query_features = 6, .key_features = 5};
  const LayerParts layer = random_layer(config);
  for (std::int64_t h = 0; h < 4; ++h) {
    const MergedScores merged = merged_scores(layer, h);
    ASSERT_EQ(merged.matrix.shape(), Shape({6, 5}));
    EXPECT_EQ(merged.rank, 3);
    for (std::int64_t i = 0; i < 6; ++i) {
      for (std::int64_t j = 0; j < 5; ++j) {
        double sum = 0.0;
        for (std::int64_t c = 0; c < 3; ++c) {
          sum += static_cast<double>(layer.weights.query_kernel.view()(i, h * 3 + c)) *
                 static_cast<double>(layer.weights.key_kernel.view()(j, h / 2 * 3 + c));
        }
        EXPECT_NEAR(merged.matrix.view()(i, j), sum, 1e-6);
      }
    }
  }
}

// A head whose W_q has only `rank` independent columns.
TEST(MergedScores, RankOfLowRankFactors) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 8, .query_features = 20};
  for (std::int64_t rank = 0; rank <= 8; ++rank) {
    LayerParts layer = random_layer(config);
    const Tensor left = Tensor::normal({20, rank}, 1);
    const Tensor right = Tensor::normal({rank, 8}, 2);
    const Tensor product = rank == 0 ? Tensor({20, 8}) : linear(left, right);
    for (std::int64_t i = 0; i < 20; ++i) {
      for (std::int64_t c = 0; c < 8; ++c) {
        layer.weights.query_kernel.view()(i, 8 + c) = product.view()(i, c);
      }
    }
    EXPECT_EQ(merged_scores(layer, 1).rank, rank);
    EXPECT_EQ(merged_scores(layer, 0).rank, 8) << "the other head is as it was";
  }
}

TEST(MergedScores, RankDoesNotDependOnTheScale) {
  const AttentionConfig config{.num_heads = 1, .key_dim = 4, .query_features = 9};
  LayerParts layer = random_layer(config);
  for (float& x : layer.weights.query_kernel.values()) x *= 1e-6F;
  for (float& x : layer.weights.key_kernel.values()) x *= 1e-6F;
  EXPECT_EQ(merged_scores(layer, 0).rank, 4);
}

TEST(MergedScores, NoMoreThanTheFeaturesAllow) {
  const AttentionConfig config{.num_heads = 1, .key_dim = 8, .query_features = 3};
  EXPECT_EQ(merged_scores(random_layer(config), 0).rank, 3);
}

// ---- absorb_key --------------------------------------------------------------------------------

class AbsorbKey : public ::testing::TestWithParam<bool> {};  // with biases?

TEST_P(AbsorbKey, SameWeightsOverTheRawKeys) {
  const AttentionConfig config{.num_heads = 4,
                               .num_kv_heads = 2,
                               .key_dim = 3,
                               .query_features = 6,
                               .key_features = 7,
                               .use_bias = GetParam(),
                               .scale = 0.4F};
  const LayerParts layer = random_layer(config);
  const AbsorbedKey absorbed = absorb_key(layer);
  EXPECT_EQ(absorbed.query_kernel.shape(), Shape({6, 4 * 7}));
  const Tensor query = Tensor::normal({2, 5, 6}, 1);
  const Tensor key = Tensor::normal({2, 9, 7}, 2);
  const Tensor expected = MultiHeadAttention(config, layer.weights)
                              .forward({.query = query, .key = key}, {.weights = all_weights()})
                              .weights;

  const ConstView bias = absorbed.query_bias.size() > 0 ? absorbed.query_bias.view() : ConstView();
  EXPECT_EQ(bias.present(), GetParam());
  const Tensor projected = linear(query, absorbed.query_kernel, bias).reshaped({2, 5, 4, 7});
  const ConstView raw_key = key.view().broadcast(2, 4);  // every head reads the same numbers
  const Tensor got =
      attention(projected, raw_key, raw_key, {.scale = absorbed.scale, .weights = all_weights()})
          .weights;
  EXPECT_TRUE(close_to(got, expected, 2e-6));
}

INSTANTIATE_TEST_SUITE_P(Biases, AbsorbKey, ::testing::Bool());

}  // namespace
}  // namespace headwise
