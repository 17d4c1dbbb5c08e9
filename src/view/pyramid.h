// A head as bytes, in ever coarser levels: level n holds the largest of each 2ⁿ × 2ⁿ weights. An axis
// that is short already is not halved any more: three queries over thousands of keys stay three rows.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/tensor.h"

namespace headwise::view {

struct ByteMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t row_weights = 1;  // in a cell
  std::int64_t column_weights = 1;
  std::vector<std::uint8_t> values = {};
};

// Level 0. A byte b stands for largest·(b/255)⁴: within 2% near the largest, within 10% a thousand
// times below it, and 0 for 0 alone.
ByteMatrix quantised(const ConstView& weights, float largest);

// The next level: axes of more than `coarsest` cells are halved. Larger weights have larger bytes, so
// bytes are all it needs.
ByteMatrix halved(const ByteMatrix& level, std::int64_t coarsest);

}  // namespace headwise::view
