// Parameters and work, against numbers worked out by hand and against counting loops.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "headwise/cost.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;

const StageCost* find(const LayerCost& cost, Stage stage, Pass pass = Pass::Forward) {
  const auto found = std::find_if(cost.stages.begin(), cost.stages.end(), [&](const StageCost& s) {
    return s.stage == stage && s.pass == pass;
  });
  return found == cost.stages.end() ? nullptr : &*found;
}

// The documentation's example: (32, 128, 512), 8 heads × 64.
constexpr AttentionConfig kKeras{.num_heads = 8, .key_dim = 64, .query_features = 512};
constexpr std::int64_t kKerasProjection = 2'147'483'648;  // 2 · 4096 · 512 · 512
constexpr std::int64_t kKerasScores = 536'870'912;        // 2 · 32·8·128·128 · 64
constexpr std::int64_t kKerasPairs = 4'194'304;           // 32·8·128·128

TEST(CostFlops, KerasExampleByHand) {
  const LayerCost cost = layer_cost(kKeras, {.batch = 32, .queries = 128});
  EXPECT_EQ(cost.weights.total, 1'050'624);
  EXPECT_EQ(cost.pairs, kKerasPairs);
  EXPECT_EQ(cost.flops(), 4 * kKerasProjection + 2 * kKerasScores);
  for (const Stage stage : {Stage::QueryProjection, Stage::KeyProjection, Stage::ValueProjection,
                            Stage::OutputProjection}) {
    ASSERT_NE(find(cost, stage), nullptr);
    EXPECT_EQ(find(cost, stage)->flops, kKerasProjection);
    EXPECT_EQ(find(cost, stage)->operations, 4096 * 512);  // the bias
    EXPECT_EQ(find(cost, stage)->bytes, 4 * (2 * 4096 * 512 + 512 * 512 + 512));
  }
  EXPECT_EQ(find(cost, Stage::Scores)->flops, kKerasScores);
  EXPECT_EQ(find(cost, Stage::Values)->flops, kKerasScores);
  EXPECT_EQ(find(cost, Stage::Scores)->bytes, 4 * 2 * 4096 * 512);
  EXPECT_EQ(find(cost, Stage::Softmax)->flops, 0);
  EXPECT_EQ(find(cost, Stage::Softmax)->operations, 18 * kKerasPairs);
  EXPECT_EQ(find(cost, Stage::Gate), nullptr);
  EXPECT_EQ(cost.stages.size(), 7U);
}

TEST(CostFlops, SmallerValuesByHand) {
  AttentionConfig config = kKeras;
  config.value_dim = 32;
  const LayerCost cost = layer_cost(config, {.batch = 32, .queries = 128});
  EXPECT_EQ(cost.weights.total, 788'224);
  EXPECT_EQ(cost.flops(),
            2 * kKerasProjection + 2 * (kKerasProjection / 2) + kKerasScores + kKerasScores / 2);
  EXPECT_EQ(cost.ranks.scores, 64);
  EXPECT_EQ(cost.ranks.values, 32);
}

TEST(CostFlops, TrainingByHand) {
  const LayerCost cost = layer_cost(kKeras, {.batch = 32, .queries = 128, .training = true});
  // Projections three times; scores 2·(dk + dv) forward, 2·(3·dk + 2·dv) backward.
  EXPECT_EQ(cost.flops(), 12 * kKerasProjection + 7 * kKerasScores);
  EXPECT_EQ(find(cost, Stage::QueryProjection, Pass::Backward)->flops, 2 * kKerasProjection);
  EXPECT_EQ(find(cost, Stage::Scores, Pass::Backward)->flops, 3 * kKerasScores);
  EXPECT_EQ(find(cost, Stage::Values, Pass::Backward)->flops, 2 * kKerasScores);
  EXPECT_EQ(cost.stages.size(), 14U);
}

TEST(CostFlops, RankBoundsTakeTheSmallestSide) {
  const AttentionConfig config{.num_heads = 2,
                               .key_dim = 48,
                               .value_dim = 20,
                               .query_features = 64,
                               .key_features = 40,
                               .value_features = 32,
                               .output_features = 16};
  const RankBounds ranks = layer_cost(config, {.queries = 1}).ranks;
  EXPECT_EQ(ranks.scores, 40);
  EXPECT_EQ(ranks.values, 16);
  EXPECT_EQ(ranks.factored_scores, (64 + 40) * 48);
  EXPECT_EQ(ranks.merged_scores, 64 * 40);
}

// Multiply-adds of x (rows × inputs) · w (inputs × outputs), by making every one of them.
std::int64_t count_product(std::int64_t rows, std::int64_t inputs, std::int64_t outputs) {
  std::int64_t flops = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t out = 0; out < outputs; ++out) {
      for (std::int64_t in = 0; in < inputs; ++in) flops += 2;
    }
  }
  return flops;
}

RC_GTEST_PROP(CostFlops, AnySizesAsLoopsCountThem, ()) {
  const auto size = [](std::int64_t most) { return *rc::gen::inRange<std::int64_t>(1, most + 1); };
  const std::int64_t kv_heads = size(3);
  const AttentionConfig config{.num_heads = kv_heads * size(3),
                               .num_kv_heads = kv_heads,
                               .key_dim = size(6),
                               .value_dim = size(6),
                               .query_features = size(7),
                               .key_features = size(7),
                               .value_features = size(7),
                               .output_features = size(7),
                               .use_bias = *rc::gen::arbitrary<bool>(),
                               .use_gate = *rc::gen::arbitrary<bool>()};
  const LayerCall call{.batch = size(3), .queries = size(4), .keys = size(4), .training = true};
  const LayerCost cost = layer_cost(config, call);
  const std::int64_t heads = config.num_heads;
  const std::int64_t dk = config.key_dim;
  const std::int64_t dv = *config.value_dim;
  std::map<Stage, std::int64_t> forward;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    forward[Stage::QueryProjection] +=
        count_product(call.queries, config.query_features, heads * dk);
    forward[Stage::KeyProjection] += count_product(*call.keys, *config.key_features, kv_heads * dk);
    forward[Stage::ValueProjection] +=
        count_product(*call.keys, *config.value_features, kv_heads * dv);
    for (std::int64_t head = 0; head < heads; ++head) {
      forward[Stage::Scores] += count_product(call.queries, dk, *call.keys);
      forward[Stage::Values] += count_product(call.queries, *call.keys, dv);
    }
    forward[Stage::OutputProjection] +=
        count_product(call.queries, heads * dv, *config.output_features);
    if (config.use_gate) {
      forward[Stage::Gate] += count_product(call.queries, config.query_features, heads * dv);
    }
  }
  std::int64_t total = 0;
  for (const auto& [stage, flops] : forward) {
    const std::int64_t backward = (stage == Stage::Scores ? 3 : 2) * flops;
    RC_ASSERT(find(cost, stage) != nullptr);
    RC_ASSERT(find(cost, stage)->flops == flops);
    RC_ASSERT(find(cost, stage, Pass::Backward)->flops == backward);
    total += flops + backward;
  }
  RC_ASSERT(cost.flops() == total);
  RC_ASSERT(cost.weights.total == describe(config).total);
}

TEST(CostFlops, MaskedPairsAreNotCounted) {
  const LayerCall whole{.batch = 2, .queries = 64};
  LayerCall masked = whole;
  masked.mask = causal();
  const LayerCost all = layer_cost(kKeras, whole);
  const LayerCost half = layer_cost(kKeras, masked);
  EXPECT_EQ(half.all_pairs, all.pairs);
  EXPECT_EQ(half.pairs, 2 * 8 * 64 * 65 / 2);
  EXPECT_EQ(find(half, Stage::Scores)->flops, 2 * half.pairs * 64);
  EXPECT_EQ(find(half, Stage::Softmax)->operations, 18 * half.pairs);
  EXPECT_EQ(find(half, Stage::KeyProjection)->flops, find(all, Stage::KeyProjection)->flops);
}

TEST(CostFlops, StageNamesDiffer) {
  const LayerCost cost = layer_cost(kKeras, {.queries = 1});
  std::map<std::string, int> names;
  for (const StageCost& stage : cost.stages) ++names[std::string(name_of(stage.stage))];
  EXPECT_EQ(names.size(), cost.stages.size());
  EXPECT_EQ(names.count(""), 0U);
}

TEST(CostFlops, SizesThatDoNotFitAreRefused) {
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto cost = [](const AttentionConfig& config, const LayerCall& call) {
    return [config, call] { static_cast<void>(layer_cost(config, call)); };
  };
  EXPECT_TRUE(refuses(cost(kKeras, {.batch = huge, .queries = huge}), "layer_cost",
                      "config and call", "64 bits"));
  EXPECT_TRUE(refuses(cost(kKeras, {.batch = 1 << 20, .queries = 1 << 20, .keys = 1 << 20}),
                      "layer_cost", "config and call"));
  EXPECT_TRUE(refuses(cost(kKeras, {.batch = -1, .queries = 1}), "layer_cost", "call.batch"));
  EXPECT_TRUE(refuses(cost(kKeras, {.queries = -1}), "layer_cost", "call.queries"));
  EXPECT_TRUE(refuses(cost(kKeras, {.queries = 1, .keys = -1}), "layer_cost", "call.keys"));
  EXPECT_TRUE(refuses(cost({.num_heads = 0, .key_dim = 1, .query_features = 1}, {.queries = 1}),
                      "AttentionConfig", "num_heads"));
  const AttentionConfig wide{.num_heads = 1, .key_dim = huge, .query_features = 1};
  EXPECT_TRUE(refuses(cost(wide, {.queries = huge}), "layer_cost", "config and call"));
}

TEST(CostFlops, NothingCostsNothing) {
  for (const LayerCall& call : {LayerCall{.batch = 0, .queries = 5}, LayerCall{.queries = 0}}) {
    const LayerCost cost = layer_cost(kKeras, call);
    EXPECT_EQ(cost.flops(), 0);
    EXPECT_EQ(cost.operations(), 0);
    EXPECT_EQ(cost.memory.activations, 0);
    EXPECT_EQ(cost.weights.total, 1'050'624);
  }
}

}  // namespace
}  // namespace headwise
