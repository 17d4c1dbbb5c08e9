// A head as bytes, in ever coarser levels: level n holds the largest of each 2ⁿ × 2ⁿ weights.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/tensor.h"

namespace headwise::view {

struct ByteMatrix {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<std::uint8_t> values;
};

// Level 0. A byte b stands for largest·(b/255)⁴: within 2% near the largest, within 10% a thousand
// times below it, and 0 for 0 alone.
ByteMatrix quantised(const ConstView& weights, float largest);

// The next level. Larger weights have larger bytes, so bytes are all it needs.
ByteMatrix halved(const ByteMatrix& level);

}  // namespace headwise::view
