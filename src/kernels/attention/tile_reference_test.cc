// The reference's steps of a score tile against arithmetic in double and the C library's functions.
#include "kernels/attention/tile_reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/philox.h"
#include "kernels/kernels.h"
#include "kernels/math/log_sum_exp.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/philox.h"
#include "support/tile_case.h"

namespace headwise::kernels {
namespace {

using reference::kTileKernels;
using test_support::Dice;
using test_support::filled;
using test_support::Floats;
using test_support::kInfinity;
using test_support::kNaN;
using test_support::kUntouched;
using test_support::near;
using test_support::random_floats;
using test_support::TileCase;

// ---- finish_scores -----------------------------------------------------------------------------

TEST(TileReference, FinishedScoresAgreeWithDouble) {
  Dice dice(1);
  for (int round = 0; round < 100; ++round) {
    const TileCase tile(dice, 4.0F, 3, dice.between(1, 40));
    const Floats bias = random_floats(dice, tile.rows * tile.stride);
    Floats scores = tile.values;
    Floats slope = scores;
    Floats row_max = filled(tile.rows * kPanelWidth, kNaN);
    const ScoreRule rule{.scale = -0.7F, .softcap = round % 2 == 0 ? 2.5F : 0.0F, .finished = true};
    kTileKernels.finish_scores(
        tile.whole(scores, {}), rule,
        {.bias = bias.data(), .bias_stride = tile.stride, .slope = slope.data()}, row_max.data());
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t key = 0; key < tile.panels_end; ++key) {
        const auto at = static_cast<std::size_t>(row * tile.stride + key);
        ASSERT_GE(row_max[static_cast<std::size_t>(row * kPanelWidth + key % kPanelWidth)],
                  scores[at]);
        if (key >= tile.keys) {
          ASSERT_EQ(scores[at], -kInfinity);
          continue;
        }
        double exact = static_cast<double>(tile.at(row, key)) * -static_cast<double>(0.7F);
        if (rule.softcap > 0.0F) {
          const double squashed = std::tanh(exact / 2.5);
          exact = 2.5 * squashed;
          ASSERT_NEAR(static_cast<double>(slope[at]), 1.0 - squashed * squashed, 1e-6);
        }
        exact += static_cast<double>(bias[at]);
        ASSERT_NEAR(static_cast<double>(scores[at]), exact, 2e-6 * (std::abs(exact) + 1.0));
      }
    }
  }
}

TEST(TileReference, MaskedScoresAreHiddenWhateverTheyHold) {
  Floats scores = {1.0F, kNaN, kInfinity, kNaN, 2.0F, -3.0F};
  scores.resize(kPanelWidth, -kInfinity);
  Floats bias = {0.0F, -kInfinity, -kInfinity, 0.0F, -kInfinity, 0.5F};
  bias.resize(kPanelWidth, kNaN);
  const std::vector<std::uint8_t> keep = {1, 1, 1, 0, 1, 255, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  Floats row_max = filled(kPanelWidth, kNaN);
  const ScoreTile tile{scores.data(), kPanelWidth, 1, 6};
  kTileKernels.finish_scores(tile, {.scale = 1.0F, .finished = true},
                             {.keep = keep.data(), .bias = bias.data()}, row_max.data());
  Floats expected = {1.0F, -kInfinity, -kInfinity, -kInfinity, -kInfinity, -2.5F};
  expected.resize(kPanelWidth, -kInfinity);
  EXPECT_EQ(scores, expected);
  EXPECT_EQ(row_max, expected);
}

// ---- online_softmax ----------------------------------------------------------------------------

struct Softmax {
  Floats weights;  // normalised
  float log_sum = 0.0F;
};

// One row, `block` keys at a time, weights rescaled as the forward pass rescales its sums.
Softmax stream(const Floats& scores, float factor, std::int64_t block) {
  float reference = -kInfinity;
  float sum = 0.0F;
  float rescale = 0.0F;
  Softmax result;
  const auto keys = static_cast<std::int64_t>(scores.size());
  for (std::int64_t first = 0; first < keys; first += block) {
    const std::int64_t count = std::min(block, keys - first);
    Floats values(scores.begin() + first, scores.begin() + first + count);
    values.resize(static_cast<std::size_t>(panel_count(count) * kPanelWidth), -kInfinity);
    Floats row_max = filled(kPanelWidth, -kInfinity);
    const ScoreTile tile{values.data(), static_cast<std::int64_t>(values.size()), 1, count};
    kTileKernels.finish_scores(tile, {}, {}, row_max.data());
    kTileKernels.online_softmax(tile, factor, row_max.data(), {&reference, &sum, &rescale});
    for (float& weight : result.weights) weight *= rescale;
    result.weights.insert(result.weights.end(), values.begin(), values.begin() + count);
  }
  for (float& weight : result.weights) weight /= sum;
  result.log_sum = log_sum_exp(reference, sum);
  return result;
}

TEST(TileReference, OnlineSoftmaxAgreesWithDouble) {
  Dice dice(2);
  // The last two have references beyond 2^21.
  for (const float size : {0.1F, 3.0F, 100.0F, 1e4F, 1e6F, 1e8F}) {
    for (int round = 0; round < 20; ++round) {
      const Floats scores = random_floats(dice, 333, size);
      const float factor = 1.4426950F;
      std::vector<double> exponents;
      for (const float score : scores) {
        exponents.push_back(static_cast<double>(score) * static_cast<double>(factor));
      }
      const double largest = *std::max_element(exponents.begin(), exponents.end());
      double sum = 0.0;
      for (const double exponent : exponents) sum += std::exp2(exponent - largest);
      const Softmax ours = stream(scores, factor, round % 2 == 0 ? 64 : 333);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double exact = std::exp2(exponents[i] - largest) / sum;
        // Below 100 octaves under the reference a weight is 0; careful weights round the exponent.
        const double relative = size < 1e6F ? 1e-6 : 1e-5;
        ASSERT_NEAR(static_cast<double>(ours.weights[i]), exact, relative * exact + 0x1p-60)
            << size << ", " << i;
      }
      const double log_sum = (largest + std::log2(sum)) * std::log(2.0);
      ASSERT_NEAR(static_cast<double>(ours.log_sum), log_sum, 1e-7 * std::abs(log_sum) + 1e-6);
    }
  }
}

TEST(TileReference, TheLargestOfHugeScoresTakesAll) {
  for (const float size : {1e10F, 3e10F, 1e30F, 1.3e30F, 2e38F, 3e38F}) {
    for (const std::int64_t block : {2, 20}) {
      Floats scores = filled(20, -size);
      scores[7] = size;
      Floats expected = filled(20, 0.0F);
      expected[7] = 1.0F;
      EXPECT_EQ(stream(scores, 1.4426950F, block).weights, expected) << size;
      EXPECT_EQ(stream(filled(4, -size), 1.4426950F, block).weights, filled(4, 0.25F)) << size;
    }
  }
}

TEST(TileReference, MovingTheReferenceOftenOrOnceIsTheSame) {
  Floats rising;
  for (int i = 0; i < 128; ++i) rising.push_back(0.37F * static_cast<float>(i));
  Floats falling(rising.rbegin(), rising.rend());
  for (const Floats& scores : {rising, falling}) {
    const Softmax often = stream(scores, 1.0F, 16);
    const Softmax once = stream(scores, 1.0F, 128);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      // Only the order of the sum differs.
      const auto exact = static_cast<double>(once.weights[i]);
      ASSERT_NEAR(static_cast<double>(often.weights[i]), exact, 3e-7 * exact);
    }
  }
}

TEST(TileReference, RowsOfNothingStayEmptyAndSpoiltRowsAreNaN) {
  EXPECT_EQ(stream(filled(20, -kInfinity), 1.0F, 4).log_sum, -kInfinity);
  Floats scores = filled(20, -kInfinity);
  scores.back() = 1.0F;
  for (const std::int64_t block : {4, 20}) {  // whether a block holds a finite score is our affair
    const Softmax ours = stream(scores, 1.0F, block);
    EXPECT_EQ(ours.weights.front(), 0.0F);
    EXPECT_EQ(ours.weights.back(), 1.0F);
    for (const float spoilt : {kNaN, kInfinity}) {
      Floats bad = scores;
      bad[5] = spoilt;
      EXPECT_TRUE(std::isnan(stream(bad, 1.0F, block).log_sum)) << spoilt << ' ' << block;
    }
  }
}

TEST(TileReference, ProbabilitiesAgreeWithDouble) {
  Dice dice(3);
  const TileCase tile(dice, 3.0F, 6, 37);
  Floats ours = tile.values;
  const Floats reference = {3.0F, 0.0F, 20.0F, -1.0F, 5.0F, 4e6F};
  const Floats inverse = {1.0F, 0.5F, 3.0F, 0.0F, 7.0F, 1.0F};
  kTileKernels.probabilities(tile.whole(ours, {}), 0.9F, reference.data(), inverse.data());
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    for (std::int64_t key = 0; key < tile.panels_end; ++key) {
      const auto i = static_cast<std::size_t>(row);
      const double exponent = static_cast<double>(tile.at(row, key)) * static_cast<double>(0.9F) -
                              static_cast<double>(reference[i]);
      const double exact = std::exp2(exponent) * static_cast<double>(inverse[i]);
      const float weight = ours[static_cast<std::size_t>(row * tile.stride + key)];
      ASSERT_NEAR(static_cast<double>(weight), exact, 1e-6 * exact) << row;
    }
  }
}

// A row with a NaN has no sum to divide by; its masked keys weigh 0 all the same. On every target.
TEST(TileReference, WhatWeighsNothingStaysZeroUnderASpoiltSum) {
  for (const float reference : {0.0F, 4e6F}) {  // the ordinary way, and the careful one
    Floats scores = filled(kPanelWidth, -kInfinity);
    scores[3] = reference;
    for (const Kernels* target : targets()) {
      Floats ours = scores;
      target->tile.probabilities({ours.data(), kPanelWidth, 1, kPanelWidth}, 1.0F, &reference,
                                 &kNaN);
      for (std::size_t i = 0; i < ours.size(); ++i) {
        EXPECT_EQ(std::isnan(ours[i]), i == 3) << target->target << ", key " << i;
        if (i != 3) {
          EXPECT_EQ(ours[i], 0.0F) << target->target << ", key " << i;
        }
      }
    }
  }
}

TEST(TileReference, LogSumExpAgreesWithTheLibrary) {
  Dice dice(4);
  for (int i = 0; i < 1000; ++i) {
    const auto reference = static_cast<float>(dice.between(-1000, 1000));
    const auto sum = static_cast<float>(std::exp2(dice.unit() * 20.0 - 1.0));
    const double exact =
        static_cast<double>(reference) * std::log(2.0) + std::log(static_cast<double>(sum));
    ASSERT_NEAR(static_cast<double>(log_sum_exp(reference, sum)), exact,
                0x1p-24 * std::abs(exact) + 1e-12);
  }
  EXPECT_EQ(log_sum_exp(5.0F, 0.0F), -kInfinity);
  EXPECT_EQ(log_sum_exp(-kInfinity, 0.0F), -kInfinity);
  EXPECT_TRUE(std::isnan(log_sum_exp(5.0F, std::nanf(""))));
}

// ---- drop --------------------------------------------------------------------------------------

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

// On every target, so that none can go astray together with the reference.
TEST(TileReference, DropsWhereTheGeneratorsWordIsBelowTheProbability) {
  Dice dice(5);
  for (const float probability : {0.1F, 0.5F, 0.999F}) {
    for (const Kernels* target : targets()) {
      const TileCase tile(dice, 1.0F, 5, 80);
      const DropoutTile dropout{.seed = dice.bits(),
                                .sequence = 2,
                                .head = 3,
                                .first_query = 10,
                                .first_key = 256,
                                .probability = probability};
      Floats ours = tile.values;
      target->tile.drop(tile.whole(ours, {}), dropout);
      for (std::int64_t row = 0; row < tile.rows; ++row) {
        for (std::int64_t key = 0; key < tile.keys; ++key) {
          const auto place = static_cast<std::uint32_t>(256 + key);
          const auto words =
              oracle::philox4x32_10({place / 4, static_cast<std::uint32_t>(10 + row), 3, 2},
                                    {static_cast<std::uint32_t>(dropout.seed),
                                     static_cast<std::uint32_t>(dropout.seed >> 32U)});
          const bool dropped =
              static_cast<double>(words[place % 4]) * 0x1p-32 < static_cast<double>(probability);
          const double scaled =
              static_cast<double>(tile.at(row, key)) / (1.0 - static_cast<double>(probability));
          const auto value =
              static_cast<double>(ours[static_cast<std::size_t>(row * tile.stride + key)]);
          ASSERT_NEAR(value, dropped ? 0.0 : scaled, dropped ? 0.0 : 3e-7 * std::abs(scaled))
              << target->target;
        }
      }
    }
  }
}

TEST(TileReference, WithoutDropoutNothingChanges) {
  Dice dice(6);
  const TileCase tile(dice, 1.0F, 5, 40);
  for (const Kernels* target : targets()) {
    Floats ours = tile.values;
    target->tile.drop(tile.whole(ours, {}), {.seed = 1, .probability = 0.0F});
    EXPECT_EQ(ours, tile.values) << target->target;
  }
}

// ---- the backward pass -------------------------------------------------------------------------

TEST(TileReference, ScoreGradientsAgreeWithDouble) {
  Dice dice(7);
  for (const bool with_slope : {false, true}) {
    const TileCase tile(dice, 1.0F, 7, 32);
    const auto size = static_cast<std::int64_t>(tile.values.size());
    Floats p = random_floats(dice, size);
    const Floats slope = random_floats(dice, size);
    const Floats delta = random_floats(dice, tile.rows);
    Floats ours = tile.values;
    for (std::size_t i = 0; i < p.size(); i += 3) {
      p[i] = 0.0F;
      ours[i] = i % 2 == 0 ? kNaN : kInfinity;
    }
    kTileKernels.score_gradient(tile.whole(ours, {}), p.data(), with_slope ? slope.data() : nullptr,
                                delta.data(), 0.3F);
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t key = 0; key < tile.keys; ++key) {
        const auto at = static_cast<std::size_t>(row * tile.stride + key);
        const double factor =
            static_cast<double>(0.3F) * (with_slope ? static_cast<double>(slope[at]) : 1.0);
        const double inner = static_cast<double>(tile.values[at]) -
                             static_cast<double>(delta[static_cast<std::size_t>(row)]);
        const double exact = at % 3 == 0 ? 0.0 : factor * static_cast<double>(p[at]) * inner;
        ASSERT_NEAR(static_cast<double>(ours[at]), exact, 4e-7 * std::abs(exact));
      }
    }
  }
}

TEST(TileReference, RowDotsAreSumsInDouble) {
  Dice dice(8);
  const Floats x = random_floats(dice, 4 * 50);
  const Floats y = random_floats(dice, 4 * 50);
  Floats dots = filled(4, kUntouched);
  kTileKernels.row_dots(4, 50, {x.data(), 50, 1}, {y.data(), 50, 1}, dots.data());
  for (std::size_t row = 0; row < 4; ++row) {
    double exact = 0.0;
    for (std::size_t i = 0; i < 50; ++i) {
      exact += static_cast<double>(x[row * 50 + i]) * static_cast<double>(y[row * 50 + i]);
    }
    EXPECT_TRUE(near(dots[row], exact, 0x1p-24 * std::abs(exact) + 1e-13));
  }
}

}  // namespace
}  // namespace headwise::kernels
