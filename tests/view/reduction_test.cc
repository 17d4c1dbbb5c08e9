// Fewer numbers than weights: blocks, bytes, levels.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>

#include "some_weights.h"
#include "view/pyramid.h"
#include "view/reduce.h"

namespace headwise::test_view {
namespace {

float largest_of_block(const ConstView& weights, std::int64_t row, std::int64_t column,
                       std::int64_t rows, std::int64_t columns) {
  float largest = 0.0F;
  for (std::int64_t r = row; r < std::min(row + rows, weights.extent(0)); ++r) {
    for (std::int64_t c = column; c < std::min(column + columns, weights.extent(1)); ++c) {
      largest = std::max(largest, weights(r, c));
    }
  }
  return largest;
}

RC_GTEST_PROP(Reduced, HoldsTheLargestOfEveryBlock, ()) {
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 30);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 30);
  const auto row_factor = *rc::gen::inRange<std::int64_t>(1, 9);
  const auto column_factor = *rc::gen::inRange<std::int64_t>(1, 9);
  const Tensor weights = random_weights(1, queries, keys, 7);
  const ConstView head = ConstView(weights).at(0, 0);
  const view::Reduced cells = view::reduced(head, row_factor, column_factor);
  RC_ASSERT(cells.rows == (queries + row_factor - 1) / row_factor);
  RC_ASSERT(cells.columns == (keys + column_factor - 1) / column_factor);
  for (std::int64_t r = 0; r < cells.rows; ++r) {
    for (std::int64_t c = 0; c < cells.columns; ++c) {
      RC_ASSERT(cells(r, c) == largest_of_block(head, r * row_factor, c * column_factor, row_factor,
                                                column_factor));
    }
  }
}

double weight_of(std::uint8_t byte, float largest) {
  return static_cast<double>(largest) * std::pow(static_cast<double>(byte) / 255.0, 4);
}

RC_GTEST_PROP(Quantised, StaysWithinItsStep, ()) {
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 200);
  const Tensor weights =
      random_weights(1, 3, keys, *rc::gen::arbitrary<std::uint64_t>(), *rc::gen::arbitrary<bool>());
  const ConstView head = ConstView(weights).at(0, 0);
  const float largest = *std::max_element(weights.values().begin(), weights.values().end());
  const view::ByteMatrix bytes = view::quantised(head, largest);
  for (std::int64_t q = 0; q < 3; ++q) {
    for (std::int64_t k = 0; k < keys; ++k) {
      const std::uint8_t byte = bytes.values[static_cast<std::size_t>(q * keys + k)];
      const auto weight = static_cast<double>(head(q, k));
      RC_ASSERT((byte == 0) == (weight == 0.0));
      if (byte < 2) continue;
      // Half a step of the fourth root is 2/byte of the weight, to first order; what the page says.
      const double error = std::abs(weight_of(byte, largest) - weight);
      RC_ASSERT(error <= 1.6 / static_cast<double>(byte) * 2.0 * weight);
    }
  }
}

TEST(Quantised, KeepsItsEnds) {
  const Tensor weights = Tensor::from({1, 4}, {0.0F, 1e-30F, 0.25F, 0.5F});
  const view::ByteMatrix bytes = view::quantised(weights, 0.5F);
  EXPECT_EQ(bytes.values[0], 0);
  EXPECT_EQ(bytes.values[1], 1);  // something is not nothing
  EXPECT_EQ(bytes.values[2], std::lround(255.0 * std::pow(0.5, 0.25)));
  EXPECT_EQ(bytes.values[3], 255);
  const Tensor zeros({2, 2});
  for (const std::uint8_t byte : view::quantised(zeros, 0.0F).values) EXPECT_EQ(byte, 0);
}

RC_GTEST_PROP(Halved, HoldsTheLargestOfFour, ()) {
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 20);
  const Tensor weights = random_weights(1, queries, keys, 9);
  const ConstView head = ConstView(weights).at(0, 0);
  view::ByteMatrix level = view::quantised(head, 1.0F);
  for (std::int64_t side = 2; side <= 8; side *= 2) {
    level = view::halved(level, 1);
    const view::Reduced cells = view::reduced(head, side, side);
    RC_ASSERT(level.rows == cells.rows);
    RC_ASSERT(level.columns == cells.columns);
    const Tensor wanted = Tensor::copy_of_values({cells.rows, cells.columns}, cells.values);
    RC_ASSERT(level.values == view::quantised(wanted, 1.0F).values);
  }
}

TEST(ReductionText, SaysWhatACellIs) {
  EXPECT_EQ(view::reduction_text("cell", 1, 1), "");
  EXPECT_EQ(view::reduction_text("pixel", 4, 2), "each pixel shows the largest of 4 × 2 weights");
}

}  // namespace
}  // namespace headwise::test_view
