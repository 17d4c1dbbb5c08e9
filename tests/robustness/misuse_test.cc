// Mistakes of use that no shape gives away: results of other calls, objects that were moved from,
// sizes that only a view can have.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::same_bits;

constexpr const char* kForward = "MultiHeadAttention::forward";
constexpr const char* kBackward = "MultiHeadAttention::backward";

class Misuse : public testing::Test {
 protected:
  AttentionConfig config_{.num_heads = 2, .key_dim = 4, .query_features = 8, .dropout = 0.5F};
  MultiHeadAttention layer_{config_, AttentionWeights::glorot(config_, 1)};
  Tensor x_ = Tensor::normal({2, 5, 8}, 2);
  AttentionResult saved_ =
      layer_.forward({.query = x_}, {.training = true, .save_for_backward = true});
};

TEST_F(Misuse, BackwardOfAnotherLayersResult) {
  AttentionConfig with_norm = config_;
  with_norm.qk_norm = QkNorm::RmsNorm;
  for (const AttentionConfig& other : {config_, with_norm}) {
    const MultiHeadAttention stranger(other, AttentionWeights::glorot(other, 1));
    EXPECT_TRUE(
        refuses([&] { (void)stranger.backward({.query = x_}, saved_, x_, {.training = true}); },
                kBackward, "forward"));
  }
}

TEST_F(Misuse, BackwardWithOtherDropoutThanForward) {
  EXPECT_TRUE(
      refuses([&] { (void)layer_.backward({.query = x_}, saved_, x_); }, kBackward, "options"));
  EXPECT_TRUE(refuses(
      [&] {
        (void)layer_.backward({.query = x_}, saved_, x_, {.training = true, .dropout_seed = 9});
      },
      kBackward, "options"));
  EXPECT_NO_THROW((void)layer_.backward({.query = x_}, saved_, x_, {.training = true}));
}

TEST_F(Misuse, AMovedTensorIsEmpty) {
  const Tensor taken = std::move(x_);
  EXPECT_EQ(taken.shape(), (Shape{2, 5, 8}));
  EXPECT_EQ(x_.size(), 0);  // NOLINT(bugprone-use-after-move): what it left behind is the question
  const Tensor copy = x_;
  EXPECT_EQ(copy.size(), 0);

  AttentionWeights weights = AttentionWeights::glorot(config_, 1);
  const MultiHeadAttention first(config_, std::move(weights));
  EXPECT_TRUE(refuses([&] { const MultiHeadAttention second(config_, weights); },
                      "MultiHeadAttention", "weights query/kernel"));
}

TEST_F(Misuse, MovedContextAndLayer) {
  Context context(1);
  const Context taken = std::move(context);
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_}, {.context = &context}); }, kForward,
                      "options.context"));
  const MultiHeadAttention moved = std::move(layer_);
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_}); }, kForward, "layer"));
  EXPECT_NO_THROW((void)moved.forward({.query = x_}));
}

TEST_F(Misuse, SizesThatOnlyAViewCanHave) {
  const float number = 1.0F;
  const ConstView many_sequences(&number, {std::int64_t{1} << 60, 0, 1, 4});
  EXPECT_THROW((void)attention(many_sequences, many_sequences, many_sequences), OutOfMemory);
  const ConstView many_rows(&number, {std::int64_t{1} << 40, 1, 1}, {0, 1, 1});
  const ConstView one_row(&number, {1, 1, 1});
  EXPECT_THROW((void)attention(many_rows, one_row, one_row), OutOfMemory);
}

TEST_F(Misuse, DescribeRefusesATotalThatOverflows) {
  const AttentionConfig huge{.num_heads = std::int64_t{1} << 20,
                             .key_dim = std::int64_t{1} << 19,
                             .query_features = std::int64_t{1} << 22};
  EXPECT_TRUE(refuses([&] { (void)describe(huge); }, "describe", "config"));
}

TEST_F(Misuse, PackedLengthsAreQuotedAsTheCallerGaveThem) {
  AttentionConfig config = config_;
  config.add_zero_attn = true;
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 1));
  const Tensor x = Tensor::normal({9, 8}, 3);
  try {
    (void)layer.forward({.query = x}, {.packed = PackedLengths{{0, 4, 9}, {0, 5, 7}}});
    FAIL() << "accepted";
  } catch (const ArgumentError& error) {
    EXPECT_EQ(std::string(error.what()),
              "[MultiHeadAttention::forward] options.packed.key: expected cumulative lengths from "
              "0 to 9, got a last one of 7");
  }
}

TEST_F(Misuse, ScoresThatOverflowToMinusInfinityWeighNothing) {
  for (const std::int64_t keys : {200, 300, 600}) {  // with and without a finite score per block
    const Tensor q = Tensor::full({1, 1, 1}, 1e30F);
    Tensor k = Tensor::full({keys, 1, 1}, -1e30F);
    k.data()[keys - 1] = 1e-30F;
    const Tensor v = Tensor::full({keys, 1, 1}, 7.0F);
    const AttentionResult r = attention(q, k, v, {.scale = 1.0F, .weights = all_weights()});
    EXPECT_FLOAT_EQ(r.output.data()[0], 7.0F) << keys;
    EXPECT_FLOAT_EQ(r.log_sum_exp.data()[0], 1.0F) << keys;
    EXPECT_EQ(r.weights.data()[0], 0.0F) << keys;
  }
}

TEST_F(Misuse, LengthsMayComeInAVector) {
  const std::vector<std::int64_t> lengths = {3, 4};
  EXPECT_TRUE(same_bits(layer_.forward({.query = x_}, {.mask = valid_lengths(lengths)}).output,
                        layer_.forward({.query = x_}, {.mask = valid_lengths({3, 4})}).output));
}

TEST_F(Misuse, WeightsDoNotRepeatWhatACallerDraws) {
  const AttentionWeights weights =
      AttentionWeights::initialise(config_, Initializer::LecunNormal, 0);
  const Shape shape = weights.query_kernel.shape();
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    const Tensor drawn = Tensor::normal(shape, seed);
    EXPECT_GT(std::abs(drawn.data()[0] / weights.query_kernel.data()[0] -
                       drawn.data()[1] / weights.query_kernel.data()[1]),
              1e-4F)
        << seed;
  }
}

TEST(PackedLinearMisuse, SizesThatNoMemoryHas) {
  const float x = 1.0F;
  const std::int64_t huge = std::int64_t{1} << 60;
  const ConstView kernel(&x, Shape{huge, 1}, Strides{0, 0});
  EXPECT_THROW(PackedLinear{kernel}, OutOfMemory);
}

TEST(PackedLinearMisuse, WrongShapesAndMovedFromMaps) {
  PackedLinear map(Tensor::normal({8, 3}, 1), Tensor({3}));
  const Tensor x = Tensor::normal({2, 5, 8}, 2);
  EXPECT_EQ(map(x).shape(), (Shape{2, 5, 3}));
  EXPECT_TRUE(refuses([&] { (void)map(Tensor({2, 7})); }, "PackedLinear", "input"));
  EXPECT_TRUE(refuses([&] { PackedLinear(Tensor({8})); }, "PackedLinear", "kernel"));
  EXPECT_TRUE(refuses([&] { PackedLinear(Tensor({8, 3}), Tensor({4})); }, "PackedLinear", "bias"));
  Tensor out({2, 5, 4});
  EXPECT_TRUE(refuses([&] { map.apply(x, out.view()); }, "PackedLinear", "output"));
  Tensor square = Tensor::normal({8, 8}, 3);
  const PackedLinear same(Tensor::normal({8, 8}, 4));
  EXPECT_TRUE(refuses([&] { same.apply(square, square.view()); }, "PackedLinear", "output"));
  const PackedLinear moved = std::move(map);
  // NOLINTNEXTLINE(bugprone-use-after-move): that is the mistake
  EXPECT_TRUE(refuses([&] { (void)map(x); }, "PackedLinear", "map"));
}

// Beside tiny values, a NaN that no one sees must not even change the sign of a zero.
TEST(HiddenNaN, LeavesTheSignOfZeros) {
  const Tensor q = Tensor::normal({1, 20, 1, 16}, 1);
  const Tensor k = Tensor::normal({1, 300, 1, 16}, 2);
  Tensor v({1, 300, 1, 16});
  v.data()[3 * 16] = -1e-45F;
  const AttentionOptions options{.mask = valid_lengths({290})};
  const AttentionResult clean = attention(q, k, v, options);
  v.data()[295 * 16] = std::nanf("");
  EXPECT_TRUE(same_bits(attention(q, k, v, options).output, clean.output));
  Tensor spoilt = q;
  spoilt.data()[0] = std::nanf("");  // row 0, and no other
  const AttentionResult beside = attention(spoilt, k, v, options);
  for (std::int64_t i = 16; i < 20 * 16; ++i) {
    ASSERT_EQ(std::signbit(beside.output.data()[i]), std::signbit(clean.output.data()[i])) << i;
  }
}

}  // namespace
}  // namespace headwise
