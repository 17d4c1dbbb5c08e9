// The functions behind softmax, softcap and gate against the C library's in double. The bounds are
// the worst errors found over every 7th float, rounded up; tests here take larger steps.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/natural_log.h"
#include "kernels/attention/tile_reference.h"
#include "kernels/kernels.h"
#include "kernels/math/scalar_math.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/row_spans.h"

namespace headwise::kernels {
namespace {

using test_support::Dice;
using test_support::Floats;
using test_support::has_fused_multiply_add;
using test_support::kInfinity;
using test_support::kNaN;
using test_support::same_floats;
using test_support::ulps_apart;

// Calls visit(x) for floats from 0 to `limit`, every `step`-th one there is.
template <typename Visit>
void for_floats_up_to(float limit, std::uint32_t step, const Visit& visit) {
  const auto last = std::bit_cast<std::uint32_t>(limit);
  for (std::uint32_t bits = 0; bits <= last; bits += step) visit(std::bit_cast<float>(bits));
}

constexpr std::uint32_t kStep = 401;

TEST(Math, WeightIsExactToThreeUnits) {
  double worst = 0.0;
  for_floats_up_to(100.0F, kStep, [&](float x) {
    const float ours = weight(WeightRule(1.0F, 0.0F), -x);
    worst = std::max(worst, ulps_apart(ours, std::exp2(-static_cast<double>(x))));
  });
  EXPECT_LE(worst, 2.1);
}

TEST(Math, WeightIsAsExactUnderAnyFactorAndReference) {
  Dice dice(1);
  double worst = 0.0;
  for (int i = 0; i < 1'000'000; ++i) {
    const auto factor = static_cast<float>(std::exp2(dice.unit() * 120.0 - 60.0));
    const auto reference = static_cast<float>(dice.between(-(1 << 21) + 1, (1 << 21) - 1));
    const double wanted = static_cast<double>(reference) - 100.0 * dice.unit();
    const auto score = static_cast<float>(wanted / static_cast<double>(factor));
    const double exponent =
        static_cast<double>(score) * static_cast<double>(factor) - static_cast<double>(reference);
    if (exponent < -99.9 || exponent > 0.0) continue;
    const float ours = weight(WeightRule(factor, reference), score);
    worst = std::max(worst, ulps_apart(ours, std::exp2(exponent)));
  }
  EXPECT_LE(worst, 2.2);
}

TEST(Math, WeightOfSpecialScores) {
  const WeightRule rule(0.5F, 3.0F);
  EXPECT_EQ(weight(rule, 6.0F), 1.0F);  // exactly: rescaling by powers of two relies on it
  EXPECT_EQ(weight(rule, 4.0F), 0.5F);
  EXPECT_EQ(weight(rule, -kInfinity), 0.0F);
  EXPECT_EQ(weight(rule, -1e30F), 0.0F);
  EXPECT_EQ(weight(rule, -195.0F), 0.0F);  // 100.5 octaves below
  EXPECT_GT(weight(rule, -193.0F), 0.0F);
  EXPECT_TRUE(std::isnan(weight(rule, kNaN)));
}

// A reference moves by whole numbers, which must change nothing but the power of two.
TEST(Math, MovingTheReferenceRescalesExactly) {
  Dice dice(2);
  for (int i = 0; i < 100'000; ++i) {
    const float score = -std::abs(dice.normal(10.0F));
    const auto up = static_cast<float>(dice.between(0, 40));
    const float direct = weight(WeightRule(1.4427F, up), score);
    ASSERT_EQ(weight(WeightRule(1.4427F, 0.0F), score) * exact_power(-up), direct) << score;
  }
}

TEST(Math, CarefulWeightUnderLargeReferences) {
  Dice dice(3);
  for (int i = 0; i < 200'000; ++i) {
    const float factor = 1.4426950F;
    const auto reference = static_cast<float>(std::ldexp(1.0 + dice.unit(), 21));
    const double wanted = static_cast<double>(std::ceil(reference)) - 100.0 * dice.unit();
    const auto score = static_cast<float>(wanted / static_cast<double>(factor));
    const double exponent = static_cast<double>(score) * static_cast<double>(factor) -
                            static_cast<double>(std::ceil(reference));
    if (exponent < -99.9 || exponent > 0.0) continue;
    const float ours = careful_weight(factor, std::ceil(reference), score);
    // The exponent is rounded to float.
    ASSERT_LE(ulps_apart(ours, std::exp2(exponent)), 2.2 + 0.75 * std::abs(exponent)) << exponent;
  }
}

// The largest score must never weigh nothing, however its reference was rounded.
TEST(Math, TheLargestScoreAlwaysWeighsSomething) {
  Dice dice(4);
  for (int i = 0; i < 200'000; ++i) {
    const float sign = dice.chance(0.5) ? 1.0F : -1.0F;
    const auto score = sign * static_cast<float>(std::ldexp(
                                  1.0 + dice.unit(), static_cast<int>(dice.between(21, 127))));
    const auto factor = static_cast<float>(std::exp2(dice.unit() * 20.0 - 10.0));
    const float reference = std::ceil(score * factor);
    if (std::abs(reference) < kLargestReference) continue;
    const float ours = careful_weight(factor, reference, score);
    ASSERT_GE(ours, 0x1p-70F) << score << " · " << factor;
    ASSERT_LE(ours, 1.0F);
    ASSERT_EQ(careful_weight(factor, reference, -kInfinity), 0.0F);
    ASSERT_TRUE(std::isnan(careful_weight(factor, reference, kNaN)));
    ASSERT_TRUE(std::isnan(careful_weight(factor, reference, kInfinity)));
  }
  EXPECT_EQ(careful_weight(1.0F, kInfinity, 1.0F), 0.0F);
  EXPECT_EQ(careful_weight(1.0F, -kInfinity, -kInfinity), 0.0F);
}

TEST(Math, ExactPowerIsExact) {
  for (int exponent = -126; exponent <= 127; ++exponent) {
    EXPECT_EQ(exact_power(static_cast<float>(exponent)), std::ldexp(1.0F, exponent));
  }
  for (const float exponent : {-127.0F, -300.0F, -1e30F, -kInfinity}) {
    EXPECT_EQ(exact_power(exponent), 0.0F);
  }
}

TEST(Math, TanhIsExactToFourUnits) {
  double worst = 0.0;
  for_floats_up_to(12.0F, kStep, [&](float x) {
    const float ours = kernels::tanh(x);
    worst = std::max(worst, ulps_apart(ours, std::tanh(static_cast<double>(x))));
    ASSERT_EQ(kernels::tanh(-x), -ours);
  });
  EXPECT_LE(worst, 4.0);
  EXPECT_EQ(kernels::tanh(kInfinity), 1.0F);
  EXPECT_EQ(kernels::tanh(-kInfinity), -1.0F);
  EXPECT_TRUE(std::signbit(kernels::tanh(-0.0F)));
  EXPECT_TRUE(std::isnan(kernels::tanh(kNaN)));
}

TEST(Math, SigmoidIsExactToAFewUnits) {
  const auto error = [](float x) {
    return ulps_apart(kernels::sigmoid(x), 1.0 / (1.0 + std::exp(-static_cast<double>(x))));
  };
  double worst_above = 0.0;
  double worst_near = 0.0;
  double worst_below = 0.0;
  for_floats_up_to(80.0F, kStep, [&](float x) {
    worst_above = std::max(worst_above, error(x));
    double& below = x <= 8.0F ? worst_near : worst_below;
    below = std::max(below, error(-x));
  });
  EXPECT_LE(worst_above, 2.0);
  EXPECT_LE(worst_near, 2.6);
  EXPECT_LE(worst_below, 2.6);
  EXPECT_EQ(kernels::sigmoid(kInfinity), 1.0F);
  EXPECT_LT(kernels::sigmoid(-kInfinity), 1e-34F);
  EXPECT_EQ(kernels::sigmoid(0.0F), 0.5F);
  EXPECT_TRUE(std::isnan(kernels::sigmoid(kNaN)));
}

TEST(Math, NaturalLogIsExactToThreeUnitsOfDouble) {
  Dice dice(5);
  double worst = 0.0;
  for (int i = 0; i < 1'000'000; ++i) {
    // Every size there is; and close to 1, where a logarithm is small.
    double x = std::bit_cast<double>(dice.bits() >> 1U);
    if (i % 2 == 0) x = std::exp(dice.unit() * 4.0 - 2.0);
    if (!std::isfinite(x) || x == 1.0) continue;
    const double exact = std::log(x);
    const double unit = std::ldexp(1.0, std::ilogb(exact) - 52);
    worst = std::max(worst, std::abs(base::natural_log(x) - exact) / unit);
  }
  EXPECT_LE(worst, 3.0);
  EXPECT_EQ(base::natural_log(1.0), 0.0);
  EXPECT_EQ(base::natural_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(base::natural_log(std::numeric_limits<double>::infinity()),
            std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(base::natural_log(-1.0)));
  EXPECT_TRUE(std::isnan(base::natural_log(std::numeric_limits<double>::quiet_NaN())));
}

// The vector versions, reached through the kernels that use them, on a sweep of all sizes.
TEST(Math, VectorsGiveTheBitsOfScalars) {
  Floats sweep = {kInfinity, -kInfinity, kNaN, 0.0F, -0.0F};
  for_floats_up_to(kInfinity, 10007, [&](float x) {
    sweep.push_back(x);
    sweep.push_back(-x);
  });
  sweep.resize(sweep.size() / kPanelWidth * kPanelWidth);
  const auto count = static_cast<std::int64_t>(sweep.size());
  const ScoreRule softcap{.scale = 1.0F, .softcap = 1.0F, .finished = true};
  const float reference = 130.0F;  // scores beyond it are none of a softmax: left out
  const float one = 1.0F;
  Floats scores = sweep;
  for (float& score : scores) score = score > reference ? 0.0F : score;
  Floats row_max(static_cast<std::size_t>(kPanelWidth));
  const auto tile = [&](Floats& values) { return ScoreTile{values.data(), count, 1, count}; };
  const auto run = [&](const TileKernels& kernels) {
    Floats all = sweep;
    kernels.sigmoid(count, all.data());
    Floats squashed = sweep;
    kernels.finish_scores(tile(squashed), softcap, {}, row_max.data());
    Floats weights = scores;
    kernels.probabilities(tile(weights), 1.0F, &reference, &one);
    all.insert(all.end(), squashed.begin(), squashed.end());
    all.insert(all.end(), weights.begin(), weights.end());
    return all;
  };
  const Floats expected = run(reference::kTileKernels);
  for (const Kernels* target : targets()) {
    if (!has_fused_multiply_add(*target)) continue;
    EXPECT_TRUE(same_floats(run(target->tile), expected)) << target->target;
  }
}

}  // namespace
}  // namespace headwise::kernels
