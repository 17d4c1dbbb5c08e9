// Options of the operation that cannot be: each is one clear error, and the caller's output buffer
// stays as it was.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::SentinelOutput;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

// Two sequences, 3 queries, 5 keys, 4 query heads on 2 key/value heads.
class BadOptions : public ::testing::Test {
 protected:
  // The call is refused on account of `argument`, and wrote nothing.
  ::testing::AssertionResult refused(AttentionOptions options, const std::string& argument,
                                     const std::string& mentions = "") {
    SentinelOutput out({2, 3, 4, 6});
    options.out = out.view();
    auto result = refuses([&] { attention(q_, k_, v_, options); }, "attention", argument, mentions);
    if (result && !out.untouched()) return ::testing::AssertionFailure() << "out was written";
    return result;
  }
  ::testing::AssertionResult refused(Mask mask, const std::string& mentions = "") {
    return refused(AttentionOptions{.mask = std::move(mask)}, "options.mask", mentions);
  }

  Tensor q_ = Tensor::normal({2, 3, 4, 6}, 1);
  Tensor k_ = Tensor::normal({2, 5, 2, 6}, 2);
  Tensor v_ = Tensor::normal({2, 5, 2, 6}, 3);
};

TEST_F(BadOptions, TheFixtureItselfIsSound) {
  EXPECT_NO_THROW(attention(q_, k_, v_)) << "or every refusal below would be for another reason";
}

TEST_F(BadOptions, HeadsThatDoNotDivide) {
  SentinelOutput out({2, 3, 4, 6});
  const Tensor three_heads = Tensor::normal({2, 5, 3, 6}, 2);
  EXPECT_TRUE(refuses([&] { attention(q_, three_heads, three_heads, {.out = out.view()}); },
                      "attention", "key"));
  const Tensor eight_heads = Tensor::normal({2, 5, 8, 6}, 2);
  EXPECT_TRUE(refuses([&] { attention(q_, eight_heads, eight_heads, {.out = out.view()}); },
                      "attention", "key"));
  const Tensor no_heads({2, 5, 0, 6});
  EXPECT_TRUE(
      refuses([&] { attention(q_, no_heads, no_heads, {.out = out.view()}); }, "attention", "key"));
  EXPECT_TRUE(out.untouched());
}

TEST_F(BadOptions, DropoutOutsideItsRange) {
  for (const float p : {-0.1F, 1.0F, 1.5F, kNaN, kInfinity, -kInfinity}) {
    EXPECT_TRUE(refused({.dropout = {.probability = p}}, "options.dropout.probability")) << p;
  }
}

TEST_F(BadOptions, WrongNumberOfSequenceIds) {
  for (const auto& ids : {std::vector<std::int64_t>{4}, std::vector<std::int64_t>{1, 2, 3}}) {
    EXPECT_TRUE(refused({.dropout = {.probability = 0.5F, .sequence_ids = ids}},
                        "options.dropout.sequence_ids"));
  }
}

// Ids are 64-bit: two that differ may not drop alike because their lower halves agree.
TEST_F(BadOptions, SequenceIdsBeyondThirtyTwoBits) {
  const auto output_for = [&](std::int64_t first) {
    return attention(q_, k_, v_, {.dropout = {.probability = 0.5F, .sequence_ids = {first, 7}}})
        .output;
  };
  for (const std::int64_t id : {std::int64_t{1} << 32, kLeast}) {
    try {
      EXPECT_FALSE(test_support::same_bits(output_for(id), output_for(0))) << id;
    } catch (const ArgumentError& error) {
      EXPECT_EQ(error.argument(), "options.dropout.sequence_ids") << error.what();
    }
  }
}

TEST_F(BadOptions, Softcap) {
  for (const float softcap : {0.0F, -1.0F, kNaN, kInfinity}) {
    EXPECT_TRUE(refused({.softcap = softcap}, "options.softcap")) << softcap;
  }
}

TEST_F(BadOptions, Scale) {
  for (const float scale : {kNaN, kInfinity, -kInfinity}) {
    EXPECT_TRUE(refused({.scale = scale}, "options.scale")) << scale;
  }
}

// ---- Masks -------------------------------------------------------------------------------------

TEST_F(BadOptions, RankThreeMaskWithoutAxes) {
  EXPECT_TRUE(refused(keep(BoolTensor({2, 3, 5})), "Axes::"));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({2, 3, 5}))}}, "options.bias", "Axes::"));
}

TEST_F(BadOptions, WrongRank) {
  EXPECT_TRUE(refused(keep(BoolTensor({1, 2, 4, 3, 5}))));
  EXPECT_TRUE(refused(keep(BoolTensor({5}))));
  EXPECT_TRUE(refused(keep(BoolTensor({3, 5}), Axes::BatchQueryKey)));
  EXPECT_TRUE(refused(keep(BoolTensor({2, 4, 3, 5}), Axes::QueryKey)));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({1, 2, 4, 3, 5}))}}, "options.bias"));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({5}))}}, "options.bias"));
}

TEST_F(BadOptions, ExtentsThatNeitherMatchNorBroadcast) {
  EXPECT_TRUE(refused(keep(BoolTensor({3, 4})), "(3, 4)"));
  EXPECT_TRUE(refused(keep(BoolTensor({5, 3}))));
  EXPECT_TRUE(refused(keep(BoolTensor({0, 5}))));
  EXPECT_TRUE(refused(keep(BoolTensor({2, 2, 3, 5})))) << "heads are query heads";
  EXPECT_TRUE(refused(keep(BoolTensor({4, 3, 5}), Axes::BatchQueryKey)));
  EXPECT_TRUE(refused(keep(BoolTensor({2, 3, 5}), Axes::HeadQueryKey)));
  EXPECT_TRUE(refused(keep(BoolTensor({2, 3}), Axes::BatchKey)));
  EXPECT_TRUE(refused(keep(BoolTensor({2, 5}), Axes::BatchQuery)));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({3, 4}))}}, "options.bias"));
  EXPECT_TRUE(refused({.bias = {Bias(Tensor({3, 5})), Bias(Tensor({4, 5}))}}, "options.bias"))
      << "the second of two";
}

TEST_F(BadOptions, LengthsBeyondTheKeysOrNegative) {
  EXPECT_TRUE(refused(valid_lengths({6, 1}), "6"));
  EXPECT_TRUE(refused(valid_lengths({5, -1}), "-1"));
  EXPECT_TRUE(refused(valid_lengths({kMost, kLeast})));
  EXPECT_TRUE(refused(valid_lengths(IndexTensor::from({2, 3}, {1, 2, 3, 4, 5, 6}))));
  EXPECT_TRUE(refused(valid_lengths(IndexTensor::from({2, 3}, {1, 2, 3, 4, 5, -1}))));
  EXPECT_TRUE(refused(query_lengths({4, 1}), "4"));
  EXPECT_TRUE(refused(query_lengths({3, -1}), "-1"));
}

TEST_F(BadOptions, WrongNumberOfLengths) {
  EXPECT_TRUE(refused(valid_lengths({1, 1, 1})));
  EXPECT_TRUE(refused(valid_lengths({1})));
  EXPECT_TRUE(refused(valid_lengths(IndexTensor({2, 5})))) << "(B,T), not (B,S)";
  EXPECT_TRUE(refused(valid_lengths(IndexTensor({2, 3, 1}))));
  EXPECT_TRUE(refused(query_lengths({1, 1, 1})));
  EXPECT_TRUE(refused(query_lengths(IndexTensor({2, 3}))));
}

TEST_F(BadOptions, CausalWithoutAnAlignment) {
  EXPECT_TRUE(refused(causal(), "BottomRight"));
  EXPECT_TRUE(refused(causal(), "TopLeft"));
  EXPECT_TRUE(refused(causal(), "query_offset"));
  EXPECT_TRUE(refused(causal(), "3 queries and 5 keys"));
  EXPECT_TRUE(refused(window(1, 1), "BottomRight")) << "a window stands on the same positions";
}

TEST_F(BadOptions, ConflictingPositions) {
  const auto conflict = [](const Mask& a, const Mask& b) {
    return refuses([&] { (void)(a & b); }, "operator&", "positions");
  };
  EXPECT_TRUE(conflict(causal(Alignment::TopLeft), causal(Alignment::BottomRight)));
  EXPECT_TRUE(conflict(aligned(Alignment::TopLeft), query_offset(0)));
  EXPECT_TRUE(conflict(query_offset(1), query_offset(2)));
}

TEST_F(BadOptions, WrongNumberOfOffsets) {
  EXPECT_TRUE(refused(causal() & query_offsets({0, 1, 2})));
  EXPECT_TRUE(refused(causal() & query_offsets({})));
}

TEST_F(BadOptions, OffsetsThatWouldOverflow) {
  EXPECT_TRUE(refused(causal() & query_offset(kMost)));
  EXPECT_TRUE(refused(causal() & query_offset(kLeast)));
}

TEST_F(BadOptions, NegativeWindow) {
  EXPECT_TRUE(refuses([] { (void)window(-1, 0); }, "window", "left"));
  EXPECT_TRUE(refuses([] { (void)window(0, -1); }, "window", "right"));
  // A mask is a plain struct, so the same numbers may come by the side entrance.
  Mask by_hand = aligned(Alignment::TopLeft);
  by_hand.left = kLeast;
  EXPECT_TRUE(refused(by_hand));
  by_hand.left = 0;
  by_hand.right = -1;
  EXPECT_TRUE(refused(by_hand));
}

TEST_F(BadOptions, SegmentsOfWrongShape) {
  EXPECT_TRUE(refused(segments({1, 1, 2}))) << "the same ids for 3 queries and 5 keys";
  EXPECT_TRUE(refused(segments({1, 1, 2}, {1, 1, 2, 2})));
  EXPECT_TRUE(refused(segments(IndexTensor({3, 3}), IndexTensor({2, 5}))));
  EXPECT_TRUE(refused(segments(IndexTensor({2, 3}), IndexTensor({2, 5, 1}))));
}

TEST_F(BadOptions, MasksWithoutAnArray) {
  EXPECT_TRUE(refuses([] { (void)keep(SharedView<bool>()); }, "keep", "values"));
  EXPECT_TRUE(
      refuses([] { (void)valid_lengths(SharedView<std::int64_t>()); }, "valid_lengths", "lengths"));
  EXPECT_TRUE(refused({.bias = {Bias(SharedView<float>())}}, "options.bias"));
}

TEST_F(BadOptions, UnmaskedTail) {
  EXPECT_TRUE(refused({.unmasked_tail = -1}, "options.unmasked_tail"));
  EXPECT_TRUE(refused({.unmasked_tail = 6}, "options.unmasked_tail"));
}

// ---- Packed batches ----------------------------------------------------------------------------

class BadPackedOptions : public ::testing::Test {
 protected:
  ::testing::AssertionResult refused(PackedLengths packed, const std::string& argument) {
    SentinelOutput out({5, 1, 2});
    const AttentionOptions options{.packed = std::move(packed), .out = out.view()};
    auto result = refuses([&] { attention(x_, x_, x_, options); }, "attention", argument);
    if (result && !out.untouched()) return ::testing::AssertionFailure() << "out was written";
    return result;
  }
  Tensor x_ = Tensor::normal({5, 1, 2}, 1);
};

TEST_F(BadPackedOptions, QueryLengths) {
  for (const auto& lengths : std::vector<std::vector<std::int64_t>>{
           {}, {0}, {5}, {1, 5}, {0, 4}, {0, 6}, {0, 3, 2, 5}, {0, 7, 5}, {-1, 5}, {0, kMost, 5}}) {
    EXPECT_TRUE(refused({.query = lengths, .key = {}}, "options.packed.query"))
        << ::testing::PrintToString(lengths);
  }
}

TEST_F(BadPackedOptions, KeyLengths) {
  for (const auto& lengths : std::vector<std::vector<std::int64_t>>{
           {0, 5}, {0, 2, 3, 5}, {1, 2, 5}, {0, 2, 4}, {0, 6, 5}, {0, -2, 5}}) {
    EXPECT_TRUE(refused({.query = {0, 2, 5}, .key = lengths}, "options.packed.key"))
        << ::testing::PrintToString(lengths);
  }
}

TEST_F(BadPackedOptions, InputsWithABatchAxis) {
  const Tensor batched({1, 5, 1, 2});
  EXPECT_TRUE(refuses(
      [&] {
        attention(batched, batched, batched,
                  {.packed = PackedLengths{.query = {0, 2, 5}, .key = {}}});
      },
      "attention", "query"));
}

TEST_F(BadPackedOptions, CausalWhereOneSequenceHasOtherKeysThanQueries) {
  const PackedLengths uneven{.query = {0, 2, 5}, .key = {0, 3, 5}};
  EXPECT_TRUE(refuses([&] { attention(x_, x_, x_, {.mask = causal(), .packed = uneven}); },
                      "attention", "options.mask", "BottomRight"));
}

// ---- Requests ----------------------------------------------------------------------------------

TEST_F(BadOptions, WeightsRequests) {
  EXPECT_TRUE(refuses([] { (void)top_k_weights(0); }, "top_k_weights", "k"));
  EXPECT_TRUE(refused({.weights = {.top_k = -1}}, "options.weights.top_k"));
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{4}, kMost, kLeast}) {
    EXPECT_TRUE(refused({.weights = selected_weights({0, wrong}, {0})}, "options.weights.heads"));
    EXPECT_TRUE(refused({.weights = selected_weights({wrong}, {})}, "options.weights.heads"));
  }
  for (const std::int64_t wrong : {std::int64_t{-1}, std::int64_t{3}, kMost, kLeast}) {
    EXPECT_TRUE(refused({.weights = selected_weights({0}, {2, wrong})}, "options.weights.rows"));
  }
}

TEST_F(BadOptions, TwoMatricesInOneRequest) {
  EXPECT_TRUE(refuses([] { (void)(all_weights() | averaged_weights()); }, "operator|", "weights"));
}

TEST_F(BadOptions, WeightsTooLargeToCount) {
  EXPECT_TRUE(refused({.weights = {.top_k = kMost}}, "options.weights.top_k"));
}

// ---- Backward ----------------------------------------------------------------------------------

TEST_F(BadOptions, BackwardWithAResultOfAnotherCall) {
  const AttentionResult other =
      attention(Tensor({1, 3, 4, 6}), Tensor({1, 5, 2, 6}), Tensor({1, 5, 2, 6}));
  const Tensor gradient({2, 3, 4, 6});
  EXPECT_TRUE(refuses(
      [&] {
        attention_backward({q_, k_, v_}, other, gradient);
      },
      "attention_backward", "forward.row_reference"));
  EXPECT_TRUE(refuses(
      [&] {
        attention_backward({q_, k_, v_}, AttentionResult(), gradient);
      },
      "attention_backward", "forward.row_reference"));
}

TEST_F(BadOptions, BackwardChecksItsOptionsToo) {
  const AttentionResult r = attention(q_, k_, v_);
  const Tensor gradient({2, 3, 4, 6});
  const auto backward = [&](const AttentionOptions& options) {
    return [&] { attention_backward({q_, k_, v_}, r, gradient, options); };
  };
  EXPECT_TRUE(refuses(backward({.mask = causal()}), "attention_backward", "options.mask"));
  EXPECT_TRUE(refuses(backward({.scale = kNaN}), "attention_backward", "options.scale"));
  EXPECT_TRUE(
      refuses(backward({.bias = {Bias(Tensor({9, 9}))}}), "attention_backward", "options.bias"));
}

TEST_F(BadOptions, ContextThreads) {
  for (const int threads : {0, -1, 1025, std::numeric_limits<int>::min()}) {
    EXPECT_TRUE(refuses([&] { const Context context(threads); }, "Context", "threads")) << threads;
  }
}

}  // namespace
}  // namespace headwise
