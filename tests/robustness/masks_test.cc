// What each kind of mask means, on examples small enough to draw.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "headwise/headwise.h"
#include "support/attend_pattern.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::attended_rows;
using test_support::pattern;
using test_support::PatternSizes;
using test_support::Rows;
using test_support::small_weights;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
constexpr bool kYes = true;
constexpr bool kNo = false;

TEST(Masks, NoneAttendsEverything) {
  EXPECT_EQ(pattern({}, {.queries = 2, .keys = 3}), (Rows{"xxx", "xxx"}));
}

// ---- Positions ---------------------------------------------------------------------------------

TEST(Masks, CausalSquare) { EXPECT_EQ(pattern(causal()), (Rows{"x...", "xx..", "xxx.", "xxxx"})); }

TEST(Masks, CausalTopLeft) {
  EXPECT_EQ(pattern(causal(Alignment::TopLeft), {.queries = 2, .keys = 4}), (Rows{"x...", "xx.."}));
  EXPECT_EQ(pattern(causal(Alignment::TopLeft), {.queries = 4, .keys = 2}),
            (Rows{"x.", "xx", "xx", "xx"}));
}

TEST(Masks, CausalBottomRight) {
  EXPECT_EQ(pattern(causal(Alignment::BottomRight), {.queries = 2, .keys = 4}),
            (Rows{"xxx.", "xxxx"}));
  EXPECT_EQ(pattern(causal(Alignment::BottomRight), {.queries = 4, .keys = 2}),
            (Rows{"..", "..", "x.", "xx"}))
      << "the first queries stand before every key: empty rows";
}

TEST(Masks, CausalWithOffset) {
  EXPECT_EQ(pattern(causal() & query_offset(1), {.queries = 2, .keys = 4}), (Rows{"xx..", "xxx."}));
  EXPECT_EQ(pattern(causal() & query_offset(-1), {.queries = 3, .keys = 3}),
            (Rows{"...", "x..", "xx."}));
  EXPECT_EQ(pattern(causal() & query_offset(9), {.queries = 2, .keys = 3}), (Rows{"xxx", "xxx"}));
}

TEST(Masks, CausalWithAnOffsetPerSequence) {
  const Mask mask = causal() & query_offsets({0, 2});
  const PatternSizes n{.queries = 2, .keys = 4, .batch = 2};
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"x...", "xx.."}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"xxx.", "xxxx"}));
}

TEST(Masks, BottomRightEndsAtTheLastValidKey) {
  const Mask mask = causal(Alignment::BottomRight) & valid_lengths({3, 5});
  const PatternSizes n{.queries = 2, .keys = 5, .batch = 2};
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"xx...", "xxx.."}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"xxxx.", "xxxxx"}));
}

TEST(Masks, BottomRightStartsFromTheLastValidQuery) {
  const Mask mask = causal(Alignment::BottomRight) & valid_lengths({3, 4}) & query_lengths({1, 2});
  const PatternSizes n{.queries = 2, .keys = 4, .batch = 2};
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"xxx.", "...."}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"xxx.", "xxxx"}));
}

TEST(Masks, AlignmentAloneHidesNothing) {
  EXPECT_EQ(pattern(aligned(Alignment::BottomRight), {.queries = 2, .keys = 3}),
            (Rows{"xxx", "xxx"}));
  EXPECT_EQ(pattern(query_offset(-5), {.queries = 2, .keys = 3}), (Rows{"xxx", "xxx"}));
}

TEST(Masks, WindowCountsAreInclusive) {
  EXPECT_EQ(pattern(window(1, 1)), (Rows{"xx..", "xxx.", ".xxx", "..xx"}));
  EXPECT_EQ(pattern(window(0, 0)), (Rows{"x...", ".x..", "..x.", "...x"}));
  EXPECT_EQ(pattern(window(2, 0)), (Rows{"x...", "xx..", "xxx.", ".xxx"}));
  EXPECT_EQ(pattern(window(std::nullopt, 1)), (Rows{"xx..", "xxx.", "xxxx", "xxxx"}));
  EXPECT_EQ(pattern(window(1, std::nullopt)), (Rows{"xxxx", "xxxx", ".xxx", "..xx"}));
  EXPECT_EQ(pattern(window(std::nullopt, std::nullopt)), (Rows{"xxxx", "xxxx", "xxxx", "xxxx"}));
}

TEST(Masks, WindowOnAlignedPositions) {
  EXPECT_EQ(pattern(window(1, 0) & aligned(Alignment::BottomRight), {.queries = 2, .keys = 4}),
            (Rows{".xx.", "..xx"}));
  EXPECT_EQ(pattern(window(1, 0) & query_offset(1), {.queries = 2, .keys = 4}),
            (Rows{"xx..", ".xx."}));
}

TEST(Masks, CausalIsAWindowWithNothingToTheRight) {
  EXPECT_EQ(pattern(causal()), pattern(window(std::nullopt, 0)));
}

// ---- Combination -------------------------------------------------------------------------------

TEST(Masks, BothPartsMustAgree) {
  EXPECT_EQ(pattern(causal() & window(1, 1)), (Rows{"x...", "xx..", ".xx.", "..xx"}));
  EXPECT_EQ(pattern(window(3, 1) & window(1, 2)), (Rows{"xx..", "xxx.", ".xxx", "..xx"}));
  EXPECT_EQ(pattern(causal() & valid_lengths({2})), (Rows{"x...", "xx..", "xx..", "xx.."}));
  EXPECT_EQ(pattern(valid_lengths({3}) & valid_lengths({2})),
            (Rows{"xx..", "xx..", "xx..", "xx.."}));
  const BoolTensor not_one = BoolTensor::from({1, 4}, {kYes, kNo, kYes, kYes});
  const BoolTensor not_two = BoolTensor::from({1, 4}, {kYes, kYes, kNo, kYes});
  EXPECT_EQ(pattern(keep(not_one) & keep(not_two)), (Rows{"x..x", "x..x", "x..x", "x..x"}));
  EXPECT_EQ(pattern(causal() & keep(not_one) & segments({5, 5, 8, 8})),
            (Rows{"x...", "x...", "..x.", "..xx"}));
}

TEST(Masks, OrderOfThePartsDoesNotMatter) {
  const Mask a = causal(Alignment::BottomRight);
  const Mask b = valid_lengths({3});
  const Mask c = segments({1, 2}, {1, 1, 2, 2});
  const PatternSizes n{.queries = 2, .keys = 4};
  const Rows expected{"xx..", "..x."};
  EXPECT_EQ(pattern(a & b & c, n), expected);
  EXPECT_EQ(pattern(c & b & a, n), expected);
  EXPECT_EQ(pattern(b & (c & a), n), expected);
}

TEST(Masks, TheSameAlignmentTwiceIsNoConflict) {
  EXPECT_EQ(pattern(causal(Alignment::BottomRight) & aligned(Alignment::BottomRight),
                    {.queries = 2, .keys = 3}),
            (Rows{"xx.", "xxx"}));
}

// ---- Lengths -----------------------------------------------------------------------------------

TEST(Masks, LengthsPerSequence) {
  const PatternSizes n{.queries = 2, .keys = 3, .batch = 3};
  const Mask mask = valid_lengths({3, 1, 0});
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"xxx", "xxx"}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"x..", "x.."}));
  EXPECT_EQ(pattern(mask, n, 2), (Rows{"...", "..."}));
}

TEST(Masks, LengthsPerQuery) {
  const PatternSizes n{.queries = 3, .keys = 3, .batch = 2};
  const Mask mask = valid_lengths(IndexTensor::from({2, 3}, {1, 3, 2, 0, 2, 1}));
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"x..", "xxx", "xx."}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"...", "xx.", "x.."}));
}

TEST(Masks, QueryLengthsEmptyTheRowsBeyond) {
  const PatternSizes n{.queries = 3, .keys = 2, .batch = 2};
  EXPECT_EQ(pattern(query_lengths({2, 0}), n, 0), (Rows{"xx", "xx", ".."}));
  EXPECT_EQ(pattern(query_lengths({2, 0}), n, 1), (Rows{"..", "..", ".."}));
}

// ---- Segments ----------------------------------------------------------------------------------

TEST(Masks, Segments) {
  EXPECT_EQ(pattern(segments({7, 7, 0, 7})), (Rows{"xx.x", "xx.x", "..x.", "xx.x"}));
  EXPECT_EQ(pattern(segments({1, 2}, {2, 1, 1}), {.queries = 2, .keys = 3}), (Rows{".xx", "x.."}));
  EXPECT_EQ(pattern(segments({1, 9}, {2, 1, 1}), {.queries = 2, .keys = 3}), (Rows{".xx", "..."}));
}

TEST(Masks, SegmentsPerSequence) {
  const Mask mask = segments(IndexTensor::from({2, 3}, {1, 1, 2, 1, 2, 2}));
  const PatternSizes n{.queries = 3, .keys = 3, .batch = 2};
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"xx.", "xx.", "..x"}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"x..", ".xx", ".xx"}));
}

// ---- Keep masks: each kind of axes -------------------------------------------------------------

const BoolTensor& two_by_three() {
  static const BoolTensor mask = BoolTensor::from({2, 3}, {kYes, kNo, kYes, kNo, kNo, kYes});
  return mask;
}

TEST(Masks, KeepQueryKey) {
  const PatternSizes n{.queries = 2, .keys = 3, .batch = 2, .heads = 2};
  for (std::int64_t b = 0; b < 2; ++b) {
    EXPECT_EQ(pattern(keep(two_by_three()), n, b, 1), (Rows{"x.x", "..x"})) << "rank 2 says it";
    EXPECT_EQ(pattern(keep(two_by_three(), Axes::QueryKey), n, b, 0), (Rows{"x.x", "..x"}));
  }
}

TEST(Masks, KeepBatchKey) {
  const PatternSizes n{.queries = 2, .keys = 3, .batch = 2, .heads = 2};
  const Mask mask = keep(two_by_three(), Axes::BatchKey);
  EXPECT_EQ(pattern(mask, n, 0, 1), (Rows{"x.x", "x.x"}));
  EXPECT_EQ(pattern(mask, n, 1, 0), (Rows{"..x", "..x"}));
}

TEST(Masks, KeepBatchQuery) {
  const PatternSizes n{.queries = 3, .keys = 2, .batch = 2};
  const Mask mask = keep(two_by_three(), Axes::BatchQuery);
  EXPECT_EQ(pattern(mask, n, 0), (Rows{"xx", "..", "xx"}));
  EXPECT_EQ(pattern(mask, n, 1), (Rows{"..", "..", "xx"}));
}

TEST(Masks, KeepBatchQueryKeyAndHeadQueryKey) {
  const BoolTensor mask = BoolTensor::from({2, 1, 3}, {kYes, kNo, kYes, kNo, kNo, kYes});
  const PatternSizes n{.queries = 2, .keys = 3, .batch = 2, .heads = 2};
  for (std::int64_t other = 0; other < 2; ++other) {
    EXPECT_EQ(pattern(keep(mask, Axes::BatchQueryKey), n, 0, other), (Rows{"x.x", "x.x"}));
    EXPECT_EQ(pattern(keep(mask, Axes::BatchQueryKey), n, 1, other), (Rows{"..x", "..x"}));
    EXPECT_EQ(pattern(keep(mask, Axes::HeadQueryKey), n, other, 0), (Rows{"x.x", "x.x"}));
    EXPECT_EQ(pattern(keep(mask, Axes::HeadQueryKey), n, other, 1), (Rows{"..x", "..x"}));
  }
}

TEST(Masks, KeepBatchHeadQueryKey) {
  BoolTensor mask = BoolTensor::full({2, 2, 2, 3}, kYes);
  mask.view()(1, 0, 1, 2) = kNo;
  const PatternSizes n{.queries = 2, .keys = 3, .batch = 2, .heads = 2};
  EXPECT_EQ(pattern(keep(mask), n, 1, 0), (Rows{"xxx", "xx."}));
  EXPECT_EQ(pattern(keep(mask), n, 0, 0), (Rows{"xxx", "xxx"}));
  EXPECT_EQ(pattern(keep(mask), n, 1, 1), (Rows{"xxx", "xxx"}));
}

TEST(Masks, KeepOnStridedMemory) {
  const BoolTensor transposed = BoolTensor::from({3, 2}, {kYes, kNo, kNo, kNo, kYes, kYes});
  EXPECT_EQ(pattern(keep(transposed.view().permuted({1, 0})), {.queries = 2, .keys = 3}),
            (Rows{"x.x", "..x"}));
}

TEST(Masks, HeadsOfAGroupKeepTheirOwnMasks) {
  const Tensor q = Tensor::normal({1, 2, 2, 3}, 1);
  const Tensor kv = Tensor::normal({1, 3, 1, 3}, 2);  // one key/value head for both
  const BoolTensor mask = BoolTensor::from({2, 1, 3}, {kYes, kNo, kYes, kNo, kNo, kYes});
  const Tensor weights =
      attention(q, kv, kv, {.mask = keep(mask, Axes::HeadQueryKey), .weights = all_weights()})
          .weights;
  EXPECT_EQ(attended_rows(weights.view().at(0, 0).at(0, 0)), (Rows{"x.x", "x.x"}));
  EXPECT_EQ(attended_rows(weights.view().at(0, 0).at(0, 1)), (Rows{"..x", "..x"}));
}

// ---- Biases ------------------------------------------------------------------------------------

TEST(Masks, BiasOfMinusInfinityHides) {
  const Tensor bias = Tensor::from({2, 3}, {0.5F, kMinusInfinity, 0.0F,  //
                                            kMinusInfinity, kMinusInfinity, kMinusInfinity});
  const Tensor weights = small_weights({.queries = 2, .keys = 3}, {.bias = {Bias(bias)}});
  EXPECT_EQ(attended_rows(weights.view().at(0, 0).at(0, 0)), (Rows{"x.x", "..."}));
}

TEST(Masks, BiasesAreSummed) {
  const Tensor a = Tensor::normal({3, 3}, 5);
  const Tensor b = Tensor::normal({1, 1, 3, 3}, 6);
  Tensor sum = a;
  for (std::size_t i = 0; i < 9; ++i) sum.values()[i] += b.values()[i];
  const PatternSizes n{.queries = 3, .keys = 3};
  EXPECT_TRUE(test_support::close_to(small_weights(n, {.bias = {Bias(a), Bias(b)}}),
                                     small_weights(n, {.bias = {Bias(sum)}}), 1e-6));
}

TEST(Masks, BiasIsAddedAfterScaleAndSoftcap) {
  // Scores are 0, so the weights are the softmax of the bias whatever scale and softcap are.
  const Tensor bias = Tensor::from({1, 2}, {3.0F, 1.0F});
  const Tensor weights =
      attention(Tensor({1, 1, 1}), Tensor({2, 1, 1}), Tensor({2, 1, 1}),
                {.bias = {Bias(bias)}, .scale = 0.1F, .softcap = 0.5F, .weights = all_weights()})
          .weights;
  EXPECT_NEAR(weights.values()[0], 1.0 / (1.0 + std::exp(-2.0)), 1e-6);
}

// ---- Keys that no mask touches -----------------------------------------------------------------

TEST(Masks, UnmaskedTail) {
  const Tensor bias = Tensor::full({1, 1}, kMinusInfinity);
  const auto tail_of_one = [](const Mask& mask, std::vector<Bias> biases) {
    const Tensor weights = small_weights(
        {.queries = 3, .keys = 4}, {.mask = mask, .bias = std::move(biases), .unmasked_tail = 1});
    return attended_rows(weights.view().at(0, 0).at(0, 0));
  };
  EXPECT_EQ(tail_of_one(causal(), {}), (Rows{"x..x", "xx.x", "xxxx"}))
      << "the tail is not counted: 3 queries, 3 keys";
  EXPECT_EQ(tail_of_one(valid_lengths({1}), {}), (Rows{"x..x", "x..x", "x..x"}));
  EXPECT_EQ(tail_of_one(window(0, 0), {}), (Rows{"x..x", ".x.x", "..xx"}));
  EXPECT_EQ(tail_of_one(segments({1, 1, 2}), {}), (Rows{"xx.x", "xx.x", "..xx"}));
  EXPECT_EQ(tail_of_one({}, {Bias(bias)}), (Rows{"...x", "...x", "...x"}));
}

// ---- Packed batches ----------------------------------------------------------------------------

TEST(Masks, PackedSequencesDoNotMeet) {
  const Tensor x = Tensor::normal({5, 1, 3}, 1);
  const AttentionOptions options{.mask = causal(),
                                 .weights = all_weights(),
                                 .packed = PackedLengths{.query = {0, 2, 5}, .key = {}}};
  const AttentionResult r = attention(x, x, x, options);
  // Keys are counted from the start of the row's own sequence; the longest has 3.
  EXPECT_EQ(r.weights.shape(), Shape({1, 5, 3}));
  EXPECT_EQ(attended_rows(r.weights.view().at(0, 0)), (Rows{"x..", "xx.", "x..", "xx.", "xxx"}));
  const Tensor second = Tensor::copy_of(x.view().sliced(0, 2, 5));
  EXPECT_TRUE(
      test_support::same_bits(Tensor::copy_of(r.output.view().sliced(0, 2, 5)),
                              attention(second, second, second, {.mask = causal()}).output));
}

TEST(Masks, PackedCrossAttentionWithAnEmptySequence) {
  const Tensor q = Tensor::normal({4, 1, 3}, 1);
  const Tensor kv = Tensor::normal({3, 1, 3}, 2);
  const AttentionOptions options{.mask = causal(Alignment::BottomRight),
                                 .weights = all_weights(),
                                 .packed = PackedLengths{{0, 1, 3, 4}, {0, 2, 2, 3}}};
  const AttentionResult r = attention(q, kv, kv, options);
  EXPECT_EQ(attended_rows(r.weights.view().at(0, 0)), (Rows{"xx", "..", "..", "x."}));
  EXPECT_EQ(r.log_sum_exp.shape(), Shape({1, 4}));
  EXPECT_EQ(r.log_sum_exp.values()[1], kMinusInfinity);
}

}  // namespace
}  // namespace headwise
