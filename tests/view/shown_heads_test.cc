// Which weights a picture shows, what their parts are called, and what is refused.
#include "view/shown_heads.h"

#include <gtest/gtest.h>

#include <limits>

#include "some_weights.h"
#include "support/expect_error.h"

namespace headwise::test_view {
namespace {

using test_support::refuses;
using view::shown_heads;
using view::ShownHeads;

TEST(ShownHeads, TakesEveryRank) {
  const Tensor weights = random_weights(6, 4, 5, 1);
  const ConstView all = weights;
  const ShownHeads heads = shown_heads("f", {.weights = all});
  EXPECT_EQ(heads.heads.size(), 6U);
  EXPECT_EQ(heads.queries, 4);
  EXPECT_EQ(heads.keys, 5);

  const ShownHeads one = shown_heads("f", {.weights = all.at(0, 2)});
  ASSERT_EQ(one.heads.size(), 1U);
  EXPECT_EQ(one.heads[0].weights(3, 4), all(2, 3, 4));

  const Tensor batch = Tensor(weights).reshaped({2, 3, 4, 5});
  const ShownHeads second = shown_heads("f", {.weights = batch, .sequence = 1});
  ASSERT_EQ(second.heads.size(), 3U);
  EXPECT_EQ(second.heads[1].weights(2, 0), all(4, 2, 0));
}

TEST(ShownHeads, PicksHeadsAndRows) {
  const Tensor weights = random_weights(4, 6, 6, 2);
  const ShownHeads shown = shown_heads("f", {.weights = weights,
                                             .heads = {3, 1},
                                             .first_row = 2,
                                             .end_row = 5,
                                             .query_offset = 10,
                                             .query_tokens = numbered_tokens("q", 6),
                                             .key_tokens = numbered_tokens("k", 6)});
  ASSERT_EQ(shown.heads.size(), 2U);
  EXPECT_EQ(shown.heads[0].name, "head 3");
  EXPECT_EQ(shown.queries, 3);
  EXPECT_EQ(shown.heads[1].weights(0, 4), weights.view()(1, 2, 4));
  EXPECT_EQ(shown.position(0), 12);
  EXPECT_EQ(shown.query_label(0), "q2");
  EXPECT_EQ(shown.key_label(0), "k0");
}

TEST(ShownHeads, SquareWeightsShareTheirTokens) {
  const Tensor square = random_weights(1, 3, 3, 3);
  EXPECT_EQ(shown_heads("f", {.weights = square, .query_tokens = {"a", "b", "c"}}).key_label(2),
            "c");
  const Tensor wide = random_weights(1, 3, 4, 3);
  EXPECT_EQ(shown_heads("f", {.weights = wide, .query_tokens = {"a", "b", "c"}}).key_label(2), "2");
}

TEST(ShownHeads, ReadsAnyStrides) {
  const Tensor weights = random_weights(3, 4, 5, 4);
  const ConstView turned = ConstView(weights).permuted({0, 2, 1});  // keys as queries
  EXPECT_EQ(shown_heads("f", {.weights = turned}).heads[2].weights(4, 1), weights.view()(2, 1, 4));
}

TEST(ShownHeads, RefusesWhatDoesNotFit) {
  const Tensor weights = random_weights(2, 3, 4, 5);
  const auto call = [&](const AttentionPicture& picture) {
    return [picture] { (void)shown_heads("draw", picture); };
  };
  EXPECT_TRUE(refuses(call({}), "draw", "weights", "nothing"));
  const Tensor flat({5});
  EXPECT_TRUE(refuses(call({.weights = flat}), "draw", "weights", "(5,)"));
  EXPECT_TRUE(refuses(call({.weights = weights, .sequence = 1}), "draw", "sequence"));
  EXPECT_TRUE(refuses(call({.weights = weights, .heads = {2}}), "draw", "heads", "0 … 1"));
  EXPECT_TRUE(refuses(call({.weights = weights, .heads = {-1}}), "draw", "heads"));
  EXPECT_TRUE(refuses(call({.weights = weights, .first_row = -1}), "draw", "rows"));
  EXPECT_TRUE(refuses(call({.weights = weights, .end_row = 4}), "draw", "rows", "0 … 3"));
  EXPECT_TRUE(refuses(call({.weights = weights, .first_row = 2, .end_row = 1}), "draw", "rows"));
  EXPECT_TRUE(refuses(call({.weights = weights, .first_row = 3}), "draw", "rows", "which is none"));
  EXPECT_TRUE(refuses(call({.weights = weights, .query_tokens = {"a"}}), "draw", "query_tokens",
                      "expected 3, one for each query, got 1"));
  EXPECT_TRUE(refuses(call({.weights = weights, .key_tokens = {"a", "b", "c"}}), "draw",
                      "key_tokens", "expected 4, one for each key, got 3"));
  EXPECT_TRUE(refuses(call({.weights = weights, .head_names = {"a"}}), "draw", "head_names"));
  for (const Shape& shape :
       {Shape{0, 3, 4}, Shape{2, 0, 4}, Shape{2, 3, 0}, Shape{0, 2, 3, 4}, Shape{1, 2, 0, 4}}) {
    const Tensor empty(shape);
    EXPECT_TRUE(refuses(call({.weights = empty}), "draw", "weights", "at least one"));
  }
}

TEST(ShownHeads, RefusesWhatAreNotWeights) {
  for (const float wrong :
       {-0.5F, 1.5F, 40.0F, std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    Tensor weights = random_weights(2, 3, 4, 6);
    weights.view()(1, 2, 3) = wrong;
    const auto call = [&] { (void)shown_heads("draw", {.weights = weights}); };
    EXPECT_TRUE(refuses(call, "draw", "weights", "head 1, query 2, key 3"));
    EXPECT_EQ(refuses(call, "draw", "weights", "softmax") ? true : false, std::isfinite(wrong));
    // What is not shown does not matter.
    EXPECT_NO_THROW((void)shown_heads("draw", {.weights = weights, .heads = {0}}));
  }
}

}  // namespace
}  // namespace headwise::test_view
