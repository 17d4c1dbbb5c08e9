// Every CPU target's products against the reference, given one row at a time: bits of a row depend
// on that row alone, and a single row has a single span on every target, whose tiles differ.
#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>

#include "kernels/gemm/gemm_reference.h"
#include "kernels/kernels.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/product_case.h"
#include "support/row_spans.h"

namespace headwise::kernels {
namespace {

using test_support::Dice;
using test_support::exact_element;
using test_support::filled;
using test_support::Floats;
using test_support::has_fused_multiply_add;
using test_support::kInfinity;
using test_support::kNaN;
using test_support::kUntouched;
using test_support::near;
using test_support::ProductCase;
using test_support::random_floats;
using test_support::random_rows;
using test_support::RowSpans;
using test_support::same_float;
using test_support::same_floats;
using test_support::StoredMatrix;

constexpr int kRounds = 1500;

// ---- C = A·B -----------------------------------------------------------------------------------

// The same product with C elsewhere.
Product into(const ProductCase& test, Floats& c) {
  Product product = test.product;
  if (product.start.data == product.c.data) product.start.data = c.data();
  product.c.data = c.data();
  return product;
}

Product row_of(const Product& p, std::int64_t row, const TileSpan* span) {
  Product one = p;
  one.rows = 1;
  one.a = p.a.from(row, 0);
  one.c = p.c.from(row, 0);
  if (p.start.data != nullptr) one.start = p.start.from(row, 0);
  if (p.row_before != nullptr) one.row_before += row;
  if (p.row_after != nullptr) one.row_after += row;
  one.depth_of_tile = span;
  return one;
}

// Without fused multiply-add every term rounds twice: compared within what that can make of it.
::testing::AssertionResult close_enough(const ProductCase& test, const Product& ours,
                                        const RowSpans& spans) {
  for (std::int64_t i = 0; i < test.rows; ++i) {
    for (std::int64_t j = 0; j < test.columns; ++j) {
      const auto exact = exact_element(test, spans.row(i), i, j);
      const double tolerance = static_cast<double>(test.depth + 3) * 0x1p-23 * exact.magnitude;
      if (!near(ours.c(i, j), exact.value, tolerance)) {
        return ::testing::AssertionFailure()
               << "row " << i << ", column " << j << ": " << ours.c(i, j) << ", not " << exact.value
               << " ± " << tolerance;
      }
    }
  }
  return ::testing::AssertionSuccess();
}

void compare_with_reference(const Kernels& target, const ProductCase& test, const RowSpans& spans) {
  Floats ours = test.c.memory;
  Product product = into(test, ours);
  product.depth_of_tile = spans.tiles();
  target.gemm.multiply(product);
  if (!has_fused_multiply_add(target)) {
    ASSERT_TRUE(close_enough(test, product, spans));
    return;
  }
  Floats expected = test.c.memory;
  const Product reference = into(test, expected);
  for (std::int64_t row = 0; row < test.rows; ++row) {
    reference::kGemmKernels.multiply(row_of(reference, row, &spans.row(row)));
  }
  ASSERT_TRUE(same_floats(ours, expected));  // gaps included
}

TEST(Gemm, EveryTargetGivesTheBitsOfTheReference) {
  Dice dice(1);
  for (int round = 0; round < kRounds; ++round) {
    const ProductCase test(dice);
    for (const Kernels* target : targets()) {
      SCOPED_TRACE(::testing::Message()
                   << target->target << ", round " << round << ": " << test.rows << " × "
                   << test.columns << " × " << test.depth);
      compare_with_reference(
          *target, test,
          round % 2 == 0 ? RowSpans::random(dice, test.rows, target->gemm.tile_rows, test.depth)
                         : RowSpans::everything(test.rows, test.depth));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Gemm, WithoutAnnihilationZeroTimesNaNIsNaN) {
  const Floats a = {0.0F, 1.0F};
  Floats b = filled(2 * kPanelWidth, 1.0F);
  b[3] = kNaN;
  for (const Kernels* target : targets()) {
    for (const bool annihilates : {false, true}) {
      Floats c = filled(kPanelWidth, 0.0F);
      target->gemm.multiply({.rows = 1,
                             .columns = kPanelWidth,
                             .depth = 2,
                             .a = {a.data(), 2, 1},
                             .b = packed_panels(b.data(), 2),
                             .c = {c.data(), kPanelWidth, 1},
                             .zero_annihilates = annihilates});
      EXPECT_EQ(std::isnan(c[3]), !annihilates) << target->target;
      EXPECT_EQ(c[2], 1.0F) << target->target;
    }
  }
}

TEST(Gemm, EveryTargetTellsWhetherTheResultIsFinite) {
  Dice dice(4);
  int spoilt = 0;
  int sound = 0;
  for (int round = 0; round < 300; ++round) {
    const ProductCase test(dice);
    Floats factors = filled(test.rows, 1.0F);
    if (test.rows > 0 && dice.chance(0.5)) {
      factors[static_cast<std::size_t>(dice.between(0, test.rows - 1))] =
          dice.chance(0.5) ? kNaN : kInfinity;
    }
    for (const Kernels* target : targets()) {
      Floats ours = test.c.memory;
      Product product = into(test, ours);
      product.row_after = factors.data();
      bool not_finite = false;
      product.not_finite = &not_finite;
      target->gemm.multiply(product);
      bool expected = false;
      for (std::int64_t i = 0; i < test.rows; ++i) {
        for (std::int64_t j = 0; j < test.columns; ++j) {
          expected = expected || !std::isfinite(product.c(i, j));
        }
      }
      ASSERT_EQ(not_finite, expected) << target->target << ", round " << round;
      ++(expected ? spoilt : sound);
    }
  }
  EXPECT_GT(spoilt, 100);
  EXPECT_GT(sound, 100);
}

// ---- Q·Kᵀ --------------------------------------------------------------------------------------

struct ScoreCase {
  std::int64_t rows, columns, depth, stride;
  StoredMatrix a;
  Floats panels, row_max;

  explicit ScoreCase(Dice& dice)
      : rows(random_rows(dice)),
        columns(dice.between(0, 70)),
        depth(dice.between(0, 70)),
        stride(panel_count(columns) * kPanelWidth + dice.between(0, 9)),
        a(StoredMatrix::random(dice, rows, depth)),
        panels(filled(packed_size(depth, columns), 0.0F)),
        row_max(random_floats(dice, rows * kPanelWidth)) {
    StoredMatrix keys = StoredMatrix::random(dice, columns, depth);
    if (dice.chance(0.2) && columns * depth > 0) {
      const float spoilt = dice.chance(0.5) ? kNaN : kInfinity;
      keys.view()(dice.between(0, columns - 1), dice.between(0, depth - 1)) = spoilt;
    }
    reference::kGemmKernels.pack_panels(
        depth, columns, MatrixView{keys.memory.data(), keys.column_stride, keys.row_stride},
        panels.data());
  }
};

// What a target wrote, against the reference for this row and span.
void compare_row(const ScoreCase& test, std::int64_t row, const TileSpan& span, bool fused,
                 const float* scores, const float* row_max) {
  Floats expected = filled(test.stride, kUntouched);
  Floats largest(test.row_max.begin() + row * kPanelWidth,
                 test.row_max.begin() + (row + 1) * kPanelWidth);
  const ScoreProduct one{.rows = 1,
                         .columns = test.columns,
                         .depth = test.depth,
                         .a = test.a.view().from(row, 0),
                         .b = packed_panels(test.panels.data(), test.depth),
                         .scores = expected.data(),
                         .score_stride = test.stride,
                         .row_max = largest.data(),
                         .columns_of_tile = &span};
  reference::kGemmKernels.multiply_scores(one);
  const std::int64_t end = span.begin < span.end ? panel_count(span.end) * kPanelWidth : 0;
  Floats own(test.row_max.begin() + row * kPanelWidth,
             test.row_max.begin() + (row + 1) * kPanelWidth);
  for (std::int64_t key = span.begin; key < end; ++key) {
    const auto at = static_cast<std::size_t>(key);
    if (fused) {
      ASSERT_TRUE(same_float(scores[key], expected[at])) << scores[key] << ' ' << expected[at];
    } else {
      double magnitude = 0.0;
      for (std::int64_t k = 0; k < test.depth; ++k) {
        const std::int64_t place =
            (key / kPanelWidth * test.depth + k) * kPanelWidth + key % kPanelWidth;
        magnitude += std::abs(static_cast<double>(test.a.view()(row, k)) *
                              static_cast<double>(test.panels[static_cast<std::size_t>(place)]));
      }
      const double tolerance = static_cast<double>(test.depth + 1) * 0x1p-23 * magnitude;
      ASSERT_TRUE(near(scores[key], static_cast<double>(expected[at]), tolerance));
    }
    float& lane = own[static_cast<std::size_t>(key % kPanelWidth)];
    if (scores[key] > lane) lane = scores[key];
  }
  ASSERT_TRUE(same_floats({row_max, static_cast<std::size_t>(kPanelWidth)}, own));
  // Whole panels outside the span may be written, but nothing behind the last one.
  for (std::int64_t key = panel_count(test.columns) * kPanelWidth; key < test.stride; ++key) {
    ASSERT_EQ(scores[key], kUntouched);
  }
}

TEST(Gemm, EveryTargetGivesTheScoresAndMaximaOfTheReference) {
  Dice dice(2);
  for (int round = 0; round < kRounds; ++round) {
    const ScoreCase test(dice);
    for (const Kernels* target : targets()) {
      SCOPED_TRACE(::testing::Message()
                   << target->target << ", round " << round << ": " << test.rows << " × "
                   << test.columns << " × " << test.depth);
      const RowSpans spans =
          round % 2 == 0 ? RowSpans::random(dice, test.rows, target->gemm.tile_rows, test.columns)
                         : RowSpans::everything(test.rows, test.columns);
      Floats scores = filled(test.rows * test.stride, kUntouched);
      Floats row_max = test.row_max;
      target->gemm.multiply_scores({.rows = test.rows,
                                    .columns = test.columns,
                                    .depth = test.depth,
                                    .a = test.a.view(),
                                    .b = packed_panels(test.panels.data(), test.depth),
                                    .scores = scores.data(),
                                    .score_stride = test.stride,
                                    .row_max = row_max.data(),
                                    .columns_of_tile = spans.tiles()});
      for (std::int64_t row = 0; row < test.rows; ++row) {
        compare_row(test, row, spans.row(row), has_fused_multiply_add(*target),
                    scores.data() + row * test.stride, row_max.data() + row * kPanelWidth);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Keys as they lie in memory, against the reference on packed ones.
TEST(Gemm, AFewRowsGetTheScoresOfPackedKeys) {
  Dice dice(5);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t rows = dice.between(1, 9);
    const std::int64_t columns = dice.between(1, 150);
    const std::int64_t depth = dice.between(1, 70);
    const std::int64_t row_stride = depth + dice.between(0, 5);
    const std::int64_t key_stride = depth + dice.between(0, 5);
    const std::int64_t stride = panel_count(columns) * kPanelWidth + dice.between(0, 9);
    const Floats queries = random_floats(dice, rows * row_stride);
    const MatrixView a{queries.data(), row_stride, 1};
    const Floats keys = random_floats(dice, columns * key_stride);
    Floats panels = filled(packed_size(depth, columns), 0.0F);
    reference::kGemmKernels.pack_panels(depth, columns, {keys.data(), 1, key_stride},
                                        panels.data());
    const Floats row_max_before = random_floats(dice, rows * kPanelWidth);
    Floats expected = filled(rows * stride, kUntouched);
    Floats expected_max = row_max_before;
    reference::kGemmKernels.multiply_scores({.rows = rows,
                                             .columns = columns,
                                             .depth = depth,
                                             .a = a,
                                             .b = packed_panels(panels.data(), depth),
                                             .scores = expected.data(),
                                             .score_stride = stride,
                                             .row_max = expected_max.data()});
    for (const Kernels* target : targets()) {
      if (!has_fused_multiply_add(*target)) continue;  // rounds differently
      Floats scores = filled(rows * stride, kUntouched);
      Floats row_max = row_max_before;
      target->gemm.multiply_few_rows({.rows = rows,
                                      .columns = columns,
                                      .depth = depth,
                                      .a = a,
                                      .b = {keys.data(), key_stride, 1},
                                      .scores = scores.data(),
                                      .score_stride = stride,
                                      .row_max = row_max.data()});
      ASSERT_TRUE(same_floats(scores, expected))
          << target->target << ": " << rows << " × " << columns << " × " << depth;
      ASSERT_TRUE(same_floats(row_max, expected_max)) << target->target;
    }
  }
}

// ---- Packing -----------------------------------------------------------------------------------

TEST(Gemm, EveryTargetPacksTheSamePanels) {
  Dice dice(3);
  for (int round = 0; round < kRounds; ++round) {
    const std::int64_t depth = dice.between(0, 70);
    const std::int64_t columns = dice.between(0, 70);
    StoredMatrix b = StoredMatrix::random(dice, depth, columns);
    const bool spoilt = dice.chance(0.5) && depth * columns > 0;
    if (spoilt) {
      b.view()(dice.between(0, depth - 1), dice.between(0, columns - 1)) =
          dice.chance(0.3) ? kNaN : (dice.chance(0.5) ? kInfinity : -kInfinity);
    }
    Floats expected = filled(packed_size(depth, columns) + 5, kUntouched);
    for (std::int64_t i = 0; i < packed_size(depth, columns); ++i) {
      const std::int64_t panel = i / kPanelWidth / depth;
      const std::int64_t column = panel * kPanelWidth + i % kPanelWidth;
      expected[static_cast<std::size_t>(i)] =
          column < columns ? b.view()(i / kPanelWidth % depth, column) : 0.0F;
    }
    for (const Kernels* target : targets()) {
      Floats panels = filled(packed_size(depth, columns) + 5, kUntouched);
      const bool finite =
          target->gemm.pack_panels(depth, columns, std::as_const(b).view(), panels.data());
      ASSERT_EQ(finite, !spoilt) << target->target << ": " << depth << " × " << columns;
      ASSERT_TRUE(same_floats(panels, expected)) << target->target;
    }
  }
}

// The largest numbers are finite too, though their sum is not.
TEST(Gemm, PackingKnowsTheLargestNumbersAsFinite) {
  const Floats b = filled(32 * 32, 3e38F);
  Floats panels = filled(packed_size(32, 32), 0.0F);
  for (const Kernels* target : targets()) {
    EXPECT_TRUE(target->gemm.pack_panels(32, 32, {b.data(), 32, 1}, panels.data()))
        << target->target;
    EXPECT_TRUE(target->gemm.pack_panels(32, 32, {b.data(), 1, 32}, panels.data()))
        << target->target << ", transposed";
  }
}

}  // namespace
}  // namespace headwise::kernels
