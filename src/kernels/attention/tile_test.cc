#include "kernels/attention/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "base/philox.h"

namespace headwise::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The generator's published known answers (Random123, kat_vectors).
TEST(Philox, KnownAnswers) {
  using base::philox;
  using base::PhiloxBlock;
  EXPECT_EQ(philox({0, 0, 0, 0}, 0), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffffffffffff),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0x299f31d0a4093822),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

std::vector<float> random_scores(std::size_t count, float size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, size);
  std::vector<float> scores(count);
  for (float& score : scores) score = normal(random);
  return scores;
}

struct Softmax {
  std::vector<float> weights;  // normalised
  float log_sum = 0.0F;
};

// One row through online_softmax, `block` keys at a time, weights rescaled as forward would.
Softmax stream(std::vector<float> scores, std::int64_t block) {
  float reference = -kInfinity;
  float sum = 0.0F;
  float rescale = 1.0F;
  const auto keys = static_cast<std::int64_t>(scores.size());
  for (std::int64_t key = 0; key < keys; key += block) {
    const ScoreTile tile{.values = scores.data() + key,
                         .stride = block,
                         .rows = 1,
                         .keys = std::min(block, keys - key)};
    online_softmax(tile, {&reference, &sum, &rescale});
    for (std::int64_t done = 0; done < key; ++done)
      scores[static_cast<std::size_t>(done)] *= rescale;
  }
  for (float& weight : scores) weight /= sum;
  return {scores, log_sum_exp(reference, sum)};
}

TEST(OnlineSoftmax, AgreesWithFloat64) {
  for (const float size : {0.1F, 3.0F, 100.0F, 1e4F}) {
    for (unsigned seed = 0; seed < 20; ++seed) {
      const auto scores = random_scores(333, size, seed);
      double largest = -1e300;
      for (const float score : scores) largest = std::max(largest, static_cast<double>(score));
      double sum = 0.0;
      for (const float score : scores) sum += std::exp(static_cast<double>(score) - largest);
      const Softmax ours = stream(scores, 64);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double exact = std::exp(static_cast<double>(scores[i]) - largest) / sum;
        // The scores are given, so only exp2, the sum and a quotient round.
        ASSERT_NEAR(static_cast<double>(ours.weights[i]), exact, 1e-6 * exact + 1e-37);
      }
      ASSERT_NEAR(static_cast<double>(ours.log_sum), largest + std::log(sum),
                  1e-7 * std::abs(largest) + 1e-6);
    }
  }
}

TEST(OnlineSoftmax, MovingTheReferenceIsExact) {
  // Rising scores move it in every block; one block moves it once.
  std::vector<float> scores;
  for (int i = 0; i < 128; ++i) scores.push_back(0.37F * static_cast<float>(i));
  const Softmax often = stream(scores, 16);
  const Softmax once = stream(scores, 128);
  for (std::size_t i = 0; i < scores.size(); ++i) {
    // Only the sums' order differs; the weights before division are the same numbers.
    ASSERT_NEAR(static_cast<double>(often.weights[i]), static_cast<double>(once.weights[i]),
                2e-7 * static_cast<double>(once.weights[i]) + 1e-40);
  }
}

TEST(OnlineSoftmax, NothingAttendedLeavesTheRowEmpty) {
  std::vector<float> scores = {1.0F, std::numeric_limits<float>::quiet_NaN(), kInfinity};
  const std::vector<std::uint8_t> keep(3, 0);
  float reference = -kInfinity;
  float sum = 0.0F;
  float rescale = 0.0F;
  online_softmax({.values = scores.data(), .keep = keep.data(), .stride = 3, .rows = 1, .keys = 3},
                 {&reference, &sum, &rescale});
  EXPECT_EQ(scores, std::vector<float>(3, 0.0F));
  EXPECT_EQ(sum, 0.0F);
  EXPECT_EQ(rescale, 1.0F);
  EXPECT_EQ(log_sum_exp(reference, sum), -kInfinity);
}

// Whether a block holds a finite score or not must not matter: blocks are our affair.
TEST(OnlineSoftmax, ScoresOfMinusInfinityWeighNothing) {
  std::vector<float> scores(20, -kInfinity);
  scores.back() = 1.0F;
  for (const std::int64_t block : {4, 20}) {
    const Softmax ours = stream(scores, block);
    EXPECT_EQ(ours.weights.back(), 1.0F);
    EXPECT_EQ(ours.weights.front(), 0.0F);
    EXPECT_FLOAT_EQ(ours.log_sum, 1.0F);
  }
  EXPECT_EQ(stream(std::vector<float>(20, -kInfinity), 4).log_sum, -kInfinity);
}

TEST(FinishScores, ScaleThenSoftcapThenBias) {
  std::vector<float> scores = {2.0F, -30.0F};
  const std::vector<float> bias = {0.5F, -1.0F};
  std::vector<float> slope(2);
  const ScoreTile tile{
      .values = scores.data(), .bias = bias.data(), .stride = 2, .rows = 1, .keys = 2};
  finish_scores(tile, {.scale = 0.5F, .softcap = 5.0F}, slope.data());
  for (std::size_t i = 0; i < 2; ++i) {
    const double squashed = std::tanh((i == 0 ? 1.0 : -15.0) / 5.0);
    EXPECT_NEAR(static_cast<double>(scores[i]), 5.0 * squashed + static_cast<double>(bias[i]),
                1e-6);
    EXPECT_NEAR(static_cast<double>(slope[i]), 1.0 - squashed * squashed, 1e-6);
  }
}

TEST(Drop, DependsOnPlacesNotOnTiles) {
  std::vector<float> whole(64, 1.0F);
  drop({.values = whole.data(), .stride = 16, .rows = 4, .keys = 16}, {.seed = 9,
                                                                       .sequence = 2,
                                                                       .head = 3,
                                                                       .first_query = 10,
                                                                       .first_key = 8,
                                                                       .probability = 0.5F});
  std::vector<float> part(8, 1.0F);
  drop({.values = part.data(), .stride = 8, .rows = 1, .keys = 8}, {.seed = 9,
                                                                    .sequence = 2,
                                                                    .head = 3,
                                                                    .first_query = 12,
                                                                    .first_key = 16,
                                                                    .probability = 0.5F});
  for (std::size_t key = 0; key < 8; ++key) EXPECT_EQ(part[key], whole[2 * 16 + 8 + key]);
  EXPECT_GT(std::count(whole.begin(), whole.end(), 0.0F), 0);
  EXPECT_EQ(
      std::count(whole.begin(), whole.end(), 0.0F) + std::count(whole.begin(), whole.end(), 2.0F),
      64);
}

}  // namespace
}  // namespace headwise::kernels
