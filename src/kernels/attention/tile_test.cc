// Every CPU target's steps of a score tile against the reference, given one row at a time: bits of a
// row depend on that row alone, and a single row has a single span on every target.
#include "kernels/attention/tile.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/attention/tile_reference.h"
#include "kernels/kernels.h"
#include "kernels/math/log_sum_exp.h"
#include "kernels/math/scalar_math.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/row_spans.h"
#include "support/tile_case.h"

namespace headwise::kernels {
namespace {

using test_support::Dice;
using test_support::filled;
using test_support::Floats;
using test_support::has_fused_multiply_add;
using test_support::kInfinity;
using test_support::kNaN;
using test_support::kUntouched;
using test_support::near;
using test_support::random_floats;
using test_support::RowSpans;
using test_support::same_floats;
using test_support::same_numbers;
using test_support::TileCase;

constexpr int kRounds = 600;

// Calls check(target, tile, spans) for random tiles of scores, with spans and without.
template <typename Check>
void for_random_tiles(std::uint64_t seed, float deviation, const Check& check) {
  Dice dice(seed);
  for (int round = 0; round < kRounds; ++round) {
    const TileCase tile(dice, deviation);
    for (const Kernels* target : targets()) {
      SCOPED_TRACE(::testing::Message() << target->target << ", round " << round << ": "
                                        << tile.rows << " rows, " << tile.keys << " keys");
      check(dice, *target, tile,
            round % 2 == 0 ? RowSpans::random(dice, tile.rows, target->gemm.tile_rows, tile.keys)
                           : RowSpans::everything(tile.rows, tile.keys));
      if (::testing::Test::HasFatalFailure()) return;
    }
  }
}

// Within `tolerance` times one more than the expected number's size.
::testing::AssertionResult close(const Floats& ours, const Floats& expected, double tolerance) {
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const auto exact = static_cast<double>(expected[i]);
    if (!near(ours[i], exact, tolerance * (std::abs(exact) + 1.0))) {
      return ::testing::AssertionFailure() << i << ": " << ours[i] << ", not " << expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// ---- finish_scores -----------------------------------------------------------------------------

struct Extras {
  std::vector<std::uint8_t> keep;
  Floats bias, slope;
  ScoreRule rule;
  bool use_keep = false;
  bool use_bias = false;

  Extras(Dice& dice, const TileCase& tile)
      : keep(tile.values.size(), 0),
        bias(filled(static_cast<std::int64_t>(tile.values.size()), kNaN)),  // in padding, it stays
        slope(filled(static_cast<std::int64_t>(tile.values.size()), kUntouched)) {
    rule.finished = dice.chance(0.8);
    rule.scale = dice.chance(0.1) ? 0.0F : dice.normal(1.0F);
    rule.softcap = dice.chance(0.5) ? 3.0F : 0.0F;
    use_keep = dice.chance(0.5);
    use_bias = dice.chance(0.5);
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t key = 0; key < tile.panels_end; ++key) {
        const auto at = static_cast<std::size_t>(row * tile.stride + key);
        keep[at] = static_cast<std::uint8_t>(dice.chance(0.3) ? 0 : dice.between(1, 255));
        if (key < tile.keys) bias[at] = dice.chance(0.3) ? -kInfinity : dice.normal(2.0F);
      }
    }
  }
  [[nodiscard]] ScoreExtras from(const TileCase& tile, std::int64_t row, Floats& slopes) const {
    const std::int64_t first = row * tile.stride;
    return {.keep = use_keep ? keep.data() + first : nullptr,
            .keep_stride = tile.stride,
            .bias = use_bias ? bias.data() + first : nullptr,
            .bias_stride = tile.stride,
            .slope = slopes.data() + first};
  }
};

TEST(FinishScores, EveryTargetGivesTheBitsOfTheReference) {
  for_random_tiles(
      1, 3.0F, [](Dice& dice, const Kernels& target, TileCase tile, const RowSpans& spans) {
        for (std::int64_t i = 0; i < tile.rows && tile.keys > 0 && dice.chance(0.5); ++i) {
          tile.at(i, dice.between(0, tile.keys - 1)) = dice.chance(0.5) ? kNaN : kInfinity;
        }
        const Extras extras(dice, tile);
        Floats ours = tile.values;
        Floats slope = extras.slope;
        Floats row_max = filled(tile.rows * kPanelWidth + 3, kUntouched);
        Floats expected = ours;
        Floats expected_slope = slope;
        Floats expected_max = row_max;
        target.tile.finish_scores(tile.whole(ours, spans), extras.rule, extras.from(tile, 0, slope),
                                  row_max.data());
        for (std::int64_t row = 0; row < tile.rows; ++row) {
          reference::kTileKernels.finish_scores(tile.one_row(expected, spans, row), extras.rule,
                                                extras.from(tile, row, expected_slope),
                                                expected_max.data() + row * kPanelWidth);
        }
        // tanh and a bias need fused multiply-adds to have the reference's bits.
        if (!has_fused_multiply_add(target) && extras.rule.finished) {
          ASSERT_TRUE(close(ours, expected, 1e-5));
          ASSERT_TRUE(close(slope, expected_slope, 1e-5));
          ASSERT_TRUE(close(row_max, expected_max, 1e-5));
          return;
        }
        ASSERT_TRUE(same_floats(ours, expected));
        ASSERT_TRUE(same_floats(slope, expected_slope));
        ASSERT_TRUE(same_numbers(row_max, expected_max));
      });
}

// ---- online_softmax, probabilities -------------------------------------------------------------

// Scores that leave the ordinary way, one kind per row.
void plant_extremes(Dice& dice, TileCase& tile) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t kind = dice.between(0, 11);
    for (std::int64_t key = 0; key < tile.keys; ++key) {
      float& score = tile.at(row, key);
      if (kind == 0) score = -kInfinity;
      if (kind == 1) score *= 1e30F;
      if (kind == 2) score *= 1e6F;   // references of some 2^21
      if (kind == 3) score *= 1e10F;  // beyond 2^30
      if (kind == 4) score *= 30.0F;  // beyond 100 octaves
      if (kind == 5) score = dice.chance(0.5) ? 0.0F : -0.0F;
      if (kind == 6) score *= 1e38F;
      if (kind == 7 && dice.chance(0.02)) score = kInfinity;
      if (kind == 8 && dice.chance(0.02)) score = kNaN;
      if (kind >= 9 && dice.chance(0.3)) score = -kInfinity;
    }
  }
}

// One number per row, with room for a multiple of 4 and something behind that nobody may touch.
struct SoftmaxState {
  std::int64_t rows;
  Floats reference, sum, rescale;

  explicit SoftmaxState(std::int64_t rows_)
      : rows(rows_),
        reference(filled((rows_ + 3) / 4 * 4 + 4, kUntouched)),
        sum(reference),
        rescale(reference) {
    for (std::int64_t row = 0; row < rows; ++row) {
      reference[static_cast<std::size_t>(row)] = -kInfinity;
      sum[static_cast<std::size_t>(row)] = 0.0F;
    }
  }
  SoftmaxRows from(std::int64_t row) {
    return {reference.data() + row, sum.data() + row, rescale.data() + row};
  }
  // Without the room, where kernels may leave anything.
  void forget_room() {
    for (auto* numbers : {&reference, &sum, &rescale}) {
      for (std::size_t i = static_cast<std::size_t>(rows); i < numbers->size() - 4; ++i) {
        (*numbers)[i] = 0.0F;
      }
    }
  }
};

// Without fused multiply-add the exponent score·factor is rounded, and so the weight's error grows
// with it: relative error of a row's weights.
double rounding_of_weights(const TileCase& tile, std::int64_t row, float factor) {
  double largest = 1.0;
  for (std::int64_t key = 0; key < tile.keys; ++key) {
    const double size = std::abs(static_cast<double>(tile.at(row, key) * factor));
    // Beyond the largest fine reference all targets compute alike.
    if (size < static_cast<double>(kLargestReference)) largest = std::max(largest, size);
  }
  return (largest + 8.0) * 0x1p-23;
}

// `rounding`: the largest of every row's blocks so far, if the target does not fuse.
void compare_states(const Kernels& target, const std::vector<double>& rounding, SoftmaxState ours,
                    SoftmaxState expected) {
  ours.forget_room();
  expected.forget_room();
  ASSERT_TRUE(same_numbers(ours.reference, expected.reference));
  ASSERT_TRUE(same_floats(ours.rescale, expected.rescale));
  if (has_fused_multiply_add(target)) {
    ASSERT_TRUE(same_floats(ours.sum, expected.sum));
    return;
  }
  for (std::size_t row = 0; row < rounding.size(); ++row) {
    const auto sum = static_cast<double>(expected.sum[row]);
    ASSERT_TRUE(near(ours.sum[row], sum, rounding[row] * sum)) << ours.sum[row] << ' ' << sum;
  }
}

void compare_weights(const Kernels& target, const TileCase& tile, float factor, const Floats& ours,
                     const Floats& expected) {
  if (has_fused_multiply_add(target)) {
    ASSERT_TRUE(same_floats(ours, expected));
    return;
  }
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const double relative = rounding_of_weights(tile, row, factor);
    for (std::int64_t key = 0; key < tile.stride; ++key) {
      const auto at = static_cast<std::size_t>(row * tile.stride + key);
      const auto exact = static_cast<double>(expected[at]);
      ASSERT_TRUE(near(ours[at], exact, relative * std::abs(exact))) << ours[at] << ' ' << exact;
    }
  }
}

TEST(OnlineSoftmax, EveryTargetGivesTheBitsOfTheReferenceBlockAfterBlock) {
  Dice dice(2);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t rows = test_support::random_rows(dice);
    const auto factor = static_cast<float>(0.01 + dice.unit() * 2.0);
    for (const Kernels* target : targets()) {
      SCOPED_TRACE(::testing::Message() << target->target << ", round " << round);
      SoftmaxState ours(rows);
      SoftmaxState expected(rows);
      std::vector<double> rounding(static_cast<std::size_t>(rows), 0.0);
      for (int block = 0; block < 4; ++block) {  // references move up in some blocks, not in others
        TileCase tile(dice, 3.0F, rows, dice.between(0, 90));
        if (round % 3 > 0) plant_extremes(dice, tile);
        const RowSpans spans = round % 2 == 0
                                   ? RowSpans::random(dice, rows, target->gemm.tile_rows, tile.keys)
                                   : RowSpans::everything(rows, tile.keys);
        const Floats row_max = tile.row_max(spans);
        Floats weights = tile.values;
        Floats expected_weights = tile.values;
        target->tile.online_softmax(tile.whole(weights, spans), factor, row_max.data(),
                                    ours.from(0));
        for (std::int64_t row = 0; row < rows; ++row) {
          reference::kTileKernels.online_softmax(tile.one_row(expected_weights, spans, row), factor,
                                                 row_max.data() + row * kPanelWidth,
                                                 expected.from(row));
        }
        compare_weights(*target, tile, factor, weights, expected_weights);
        for (std::int64_t row = 0; row < rows; ++row) {
          double& largest = rounding[static_cast<std::size_t>(row)];
          largest = std::max(largest, rounding_of_weights(tile, row, factor));
        }
        compare_states(*target, rounding, ours, expected);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Probabilities, EveryTargetGivesTheBitsOfTheReference) {
  for_random_tiles(
      3, 3.0F, [](Dice& dice, const Kernels& target, TileCase tile, const RowSpans& spans) {
        plant_extremes(dice, tile);
        const float factor = 0.7F;
        const Floats row_max = tile.row_max(spans);
        SoftmaxState state(tile.rows);
        Floats scratch = tile.values;
        for (std::int64_t row = 0; row < tile.rows; ++row) {
          reference::kTileKernels.online_softmax(tile.one_row(scratch, spans, row), factor,
                                                 row_max.data() + row * kPanelWidth,
                                                 state.from(row));
        }
        Floats inverse = state.sum;
        for (float& sum : inverse) sum = sum == 0.0F ? 0.0F : 1.0F / sum;
        Floats ours = tile.values;
        Floats expected = tile.values;
        target.tile.probabilities(tile.whole(ours, spans), factor, state.reference.data(),
                                  inverse.data());
        for (std::int64_t row = 0; row < tile.rows; ++row) {
          reference::kTileKernels.probabilities(tile.one_row(expected, spans, row), factor,
                                                state.reference.data() + row, inverse.data() + row);
        }
        compare_weights(target, tile, factor, ours, expected);
      });
}

// ---- drop, score_gradient, row_dots: no multiply-adds, so the same bits without fusing, too ------

TEST(Drop, EveryTargetDropsTheSamePlaces) {
  for_random_tiles(
      4, 1.0F, [](Dice& dice, const Kernels& target, const TileCase& tile, const RowSpans& spans) {
        DropoutTile dropout{
            .seed = dice.bits(),
            .sequence = static_cast<std::uint32_t>(dice.bits()),
            .head = static_cast<std::uint32_t>(dice.bits()),
            .first_query = static_cast<std::uint32_t>(dice.bits()),
            .first_key = static_cast<std::uint32_t>(dice.between(0, 1 << 20) * 4),
            .probability = dice.chance(0.1) ? 0.0F : static_cast<float>(dice.unit())};
        Floats ours = tile.values;
        Floats expected = tile.values;
        target.tile.drop(tile.whole(ours, spans), dropout);
        for (std::int64_t row = 0; row < tile.rows; ++row, ++dropout.first_query) {
          reference::kTileKernels.drop(tile.one_row(expected, spans, row), dropout);
        }
        ASSERT_TRUE(same_floats(ours, expected));
      });
}

TEST(ScoreGradient, EveryTargetGivesTheBitsOfTheReference) {
  for_random_tiles(
      5, 1.0F, [](Dice& dice, const Kernels& target, const TileCase& tile, const RowSpans& spans) {
        const auto size = static_cast<std::int64_t>(tile.values.size());
        Floats p = random_floats(dice, size);
        const Floats slope = random_floats(dice, size);
        const Floats delta = random_floats(dice, tile.rows);
        Floats ours = tile.values;
        for (std::size_t i = 0; i < p.size(); ++i) {
          if (!dice.chance(0.3)) continue;
          p[i] = dice.chance(0.5) ? 0.0F : -0.0F;
          ours[i] = dice.chance(0.5) ? kNaN : kInfinity;
        }
        Floats expected = ours;
        const bool with_slope = dice.chance(0.5);
        const float scale = dice.normal(1.0F);
        target.tile.score_gradient(tile.whole(ours, spans), p.data(),
                                   with_slope ? slope.data() : nullptr, delta.data(), scale);
        for (std::int64_t row = 0; row < tile.rows; ++row) {
          const std::int64_t first = row * tile.stride;
          reference::kTileKernels.score_gradient(
              tile.one_row(expected, spans, row), p.data() + first,
              with_slope ? slope.data() + first : nullptr, delta.data() + row, scale);
        }
        ASSERT_TRUE(same_floats(ours, expected));
      });
}

TEST(RowDots, EveryTargetGivesTheBitsOfTheReference) {
  Dice dice(6);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t rows = dice.between(0, 9);
    const std::int64_t columns = dice.between(0, 70);
    const Floats x = random_floats(dice, rows * (2 * columns + 3), 1e3F);
    const Floats y = random_floats(dice, rows * (2 * columns + 3));
    const MatrixView a{x.data(), 2 * columns + 3, dice.between(1, 2)};
    const MatrixView b{y.data(), 2 * columns + 1, dice.between(1, 2)};
    Floats expected = filled(rows + 4, kUntouched);
    reference::kTileKernels.row_dots(rows, columns, a, b, expected.data());
    for (const Kernels* target : targets()) {
      Floats ours = filled(rows + 4, kUntouched);
      target->tile.row_dots(rows, columns, a, b, ours.data());
      ASSERT_TRUE(same_floats(ours, expected)) << target->target << ", " << columns << " columns";
    }
  }
}

// ---- sigmoid -----------------------------------------------------------------------------------

TEST(Sigmoid, EveryTargetGivesTheBitsOfTheReference) {
  Dice dice(7);
  for (int round = 0; round < kRounds; ++round) {
    Floats values = random_floats(dice, dice.between(0, 70) + 1, 30.0F);
    for (float& x : values) {
      if (dice.chance(0.1)) x = dice.chance(0.5) ? kInfinity : -kInfinity;
      if (dice.chance(0.05)) x = kNaN;
    }
    values.back() = kUntouched;
    const auto count = static_cast<std::int64_t>(values.size()) - 1;
    Floats expected = values;
    reference::kTileKernels.sigmoid(count, expected.data());
    for (const Kernels* target : targets()) {
      Floats ours = values;
      target->tile.sigmoid(count, ours.data());
      if (has_fused_multiply_add(*target)) {
        ASSERT_TRUE(same_floats(ours, expected)) << target->target;
        continue;
      }
      for (std::size_t i = 0; i < ours.size(); ++i) {  // as with weights: the exponent is rounded
        const auto exact = static_cast<double>(expected[i]);
        ASSERT_TRUE(near(ours[i], exact, 130.0 * 0x1p-23 * std::abs(exact))) << values[i];
      }
    }
  }
}

TEST(Tile, EveryTargetGivesTheLogarithmsOfTheReference) {
  Dice dice(17);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t count = dice.between(0, 20);
    Floats references = random_floats(dice, count);
    Floats sums = random_floats(dice, count);
    for (std::int64_t i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      references[at] = std::round(references[at] * 100.0F);
      sums[at] = std::ldexp(std::abs(sums[at]) + 0.5F, static_cast<int>(dice.between(-30, 30)));
      if (dice.chance(0.1))
        sums[at] = dice.chance(0.5) ? 0.0F : dice.chance(0.5) ? kNaN : kInfinity;
    }
    Floats expected;
    for (std::size_t i = 0; i < sums.size(); ++i) {
      expected.push_back(log_sum_exp(references[i], sums[i]));
    }
    for (const Kernels* target : targets()) {
      Floats logs = filled(count, kUntouched);
      target->tile.log_sum_exp(count, references.data(), sums.data(), logs.data());
      ASSERT_TRUE(same_floats(logs, expected)) << target->target << ", " << count;
    }
  }
}

}  // namespace
}  // namespace headwise::kernels
