// Fewer numbers than weights: a block of them becomes its largest.
//
// The largest and not the mean: a head that looks at one key among thousands must not fade away
// because the keys around it are not looked at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/tensor.h"

namespace headwise::view {

struct Reduced {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> values;

  [[nodiscard]] float operator()(std::int64_t row, std::int64_t column) const {
    return values[static_cast<std::size_t>(row * columns + column)];
  }
};

// Blocks of row_factor × column_factor weights; the last ones may hold fewer.
Reduced reduced(const ConstView& weights, std::int64_t row_factor, std::int64_t column_factor);

// "each cell shows the largest of 4 × 4 weights", or "" for 1 × 1.
std::string reduction_text(const char* cell, std::int64_t row_factor, std::int64_t column_factor);

}  // namespace headwise::view
