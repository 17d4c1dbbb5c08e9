// Attended pairs in closed form, against looking at every score.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cstdint>
#include <vector>

#include "headwise/cost.h"
#include "support/expect_error.h"
#include "support/oracle_mask.h"
#include "support/random_case.h"

namespace headwise {
namespace {

using test_support::BatchKind;
using test_support::LayerCase;
using test_support::Recipe;

// What the oracle says of every score of a padded batch.
std::int64_t pairs_by_looking(const AttentionConfig& config, const LayerCall& call) {
  const std::int64_t extra = config.extra_keys();
  AttentionOptions options{.mask = call.mask, .unmasked_tail = extra};
  oracle::Sequences sequences;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    sequences.query.push_back(sequences.query.back() + call.queries);
    sequences.key.push_back(sequences.key.back() + call.key_count() + extra);
  }
  const oracle::Rules rules(options, sequences);
  std::int64_t pairs = 0;
  for (std::int64_t b = 0; b < call.batch; ++b) {
    for (std::int64_t head = 0; head < config.num_heads; ++head) {
      for (std::int64_t query = 0; query < call.queries; ++query) {
        for (std::int64_t key = 0; key < call.key_count() + extra; ++key) {
          pairs += rules.attends({b, head, query, key}) ? 1 : 0;
        }
      }
    }
  }
  return pairs;
}

RC_GTEST_PROP(CostPairs, AnyMaskAsTheOracleSeesIt, (Recipe recipe)) {
  if (recipe.batch_kind == BatchKind::Packed) recipe.batch_kind = BatchKind::Padded;
  if (recipe.batch_kind == BatchKind::Single) recipe.batch = 1;
  const LayerCase layer = make_layer_case(recipe);
  const ConstView& query = layer.inputs.query;
  const ConstView& key = layer.inputs.key.present() ? layer.inputs.key : query;
  const int rows = query.rank() - 2;
  const LayerCall call{.batch = query.rank() == 3 ? query.extent(0) : 1,
                       .queries = query.extent(rows),
                       .keys = key.extent(rows),
                       .mask = layer.options.mask};
  const LayerCost cost = layer_cost(layer.config, call);
  RC_ASSERT(cost.pairs == pairs_by_looking(layer.config, call));
  RC_ASSERT(cost.pairs <= cost.range_pairs);
  RC_ASSERT(cost.range_pairs <= cost.all_pairs);
}

constexpr AttentionConfig kOneHead{.num_heads = 1, .key_dim = 1, .query_features = 1};

std::int64_t pairs_of(const LayerCall& call) { return layer_cost(kOneHead, call).pairs; }

// Windows at every place, also such that begin before the first key or behind the last.
TEST(CostPairs, EveryBandOfSmallSequences) {
  for (std::int64_t queries = 0; queries <= 4; ++queries) {
    for (std::int64_t keys = 0; keys <= 4; ++keys) {
      for (std::int64_t offset = -6; offset <= 6; ++offset) {
        for (std::int64_t left = 0; left <= 4; ++left) {
          for (std::int64_t right = 0; right <= 4; ++right) {
            for (int sides = 0; sides < 4; ++sides) {
              const auto side = [&](int bit, std::int64_t count) {
                return (sides & bit) != 0 ? std::optional(count) : std::nullopt;
              };
              const LayerCall call{
                  .queries = queries,
                  .keys = keys,
                  .mask = query_offset(offset) & window(side(1, left), side(2, right))};
              ASSERT_EQ(pairs_of(call), pairs_by_looking(kOneHead, call))
                  << queries << " queries, " << keys << " keys, offset " << offset << ", window "
                  << left << ", " << right << ", sides " << sides;
            }
          }
        }
      }
    }
  }
}

TEST(CostPairs, KnownSeries) {
  EXPECT_EQ(pairs_of({.queries = 1024, .mask = causal()}), 1024 * 1025 / 2);
  EXPECT_EQ(pairs_of({.batch = 3, .queries = 512, .mask = window(255, 0)}),
            3 * (256 * 257 / 2 + 256 * 256));
  EXPECT_EQ(pairs_of({.batch = 2, .queries = 10, .mask = valid_lengths({3, 10})}), 30 + 100);
}

// Sequences too long to look at: nobody waits for a sum over rows.
TEST(CostPairs, LongSequencesTakeNoTime) {
  const std::int64_t length = std::int64_t{1} << 28;
  EXPECT_EQ(pairs_of({.queries = length, .mask = causal()}), length / 2 * (length + 1));
  const std::int64_t many = 1 << 20;
  EXPECT_EQ(pairs_of({.batch = many, .queries = many, .mask = window(0, 0)}), many * many);
}

// Rows whose keys end (causal) or begin and end (window) somewhere inside.
TEST(CostPairs, CutEnds) {
  const auto cut_ends = [](const Mask& mask) {
    return layer_cost(kOneHead, {.batch = 2, .queries = 100, .mask = mask}).cut_ends;
  };
  EXPECT_EQ(cut_ends({}), 0);
  EXPECT_EQ(cut_ends(valid_lengths({50, 100})), 0);
  EXPECT_EQ(cut_ends(causal()), 2 * 99);  // the last row sees everything
  EXPECT_EQ(cut_ends(window(9, 0)), 2 * (99 + 90));
}

TEST(CostPairs, RefusesWhatACallWouldRefuse) {
  const auto cost = [](const LayerCall& call) {
    return [call] { static_cast<void>(layer_cost(kOneHead, call)); };
  };
  EXPECT_TRUE(test_support::refuses(cost({.queries = 4, .keys = 5, .mask = causal()}), "layer_cost",
                                    "options.mask", "BottomRight"));
  EXPECT_TRUE(test_support::refuses(cost({.batch = 2, .queries = 4, .mask = valid_lengths({1})}),
                                    "layer_cost", "options.mask", "(2,)"));
  EXPECT_TRUE(test_support::refuses(cost({.queries = 4, .mask = valid_lengths({5})}), "layer_cost",
                                    "options.mask"));
}

}  // namespace
}  // namespace headwise
