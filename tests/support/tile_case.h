// A random tile of scores for tests of kernels/attention, whole or one row at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/attention/tile.h"
#include "support/dice.h"
#include "support/floats.h"
#include "support/row_spans.h"

namespace headwise::test_support {

struct TileCase {
  std::int64_t rows, keys, panels_end, stride;
  Floats values;  // −∞ behind the last key up to the end of its panel, then a gap

  TileCase(Dice& dice, float deviation, std::int64_t rows_, std::int64_t keys_)
      : rows(rows_),
        keys(keys_),
        panels_end(kernels::panel_count(keys_) * kernels::kPanelWidth),
        stride(panels_end + dice.between(0, 9)),
        values(filled(rows_ * stride, kUntouched)) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t key = 0; key < panels_end; ++key) {
        at(row, key) = key < keys ? dice.normal(deviation) : -kInfinity;
      }
    }
  }
  TileCase(Dice& dice, float deviation)
      : TileCase(dice, deviation, random_rows(dice), dice.between(0, 90)) {}

  float& at(std::int64_t row, std::int64_t key) {
    return values[static_cast<std::size_t>(row * stride + key)];
  }
  [[nodiscard]] float at(std::int64_t row, std::int64_t key) const {
    return values[static_cast<std::size_t>(row * stride + key)];
  }
  // What a kernel takes, with the numbers elsewhere.
  kernels::ScoreTile whole(Floats& numbers, const RowSpans& spans) const {
    return {numbers.data(), stride, rows, keys, spans.tiles()};
  }
  kernels::ScoreTile one_row(Floats& numbers, const RowSpans& spans, std::int64_t row) const {
    return {numbers.data() + row * stride, stride, 1, keys, &spans.row(row)};
  }
  // Largest score of every lane, with room for a multiple of 4 rows, as online_softmax wants it.
  [[nodiscard]] Floats row_max(const RowSpans& spans) const {
    Floats result = filled((rows + 3) / 4 * 4 * kernels::kPanelWidth, kNaN);
    std::fill_n(result.begin(), rows * kernels::kPanelWidth, -kInfinity);
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t key = spans.row(row).begin; key < spans.row(row).end; ++key) {
        float& lane = result[static_cast<std::size_t>(row * kernels::kPanelWidth +
                                                      key % kernels::kPanelWidth)];
        if (at(row, key) > lane) lane = at(row, key);
      }
    }
    return result;
  }
};

}  // namespace headwise::test_support
