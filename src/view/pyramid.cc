#include "view/pyramid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/check.h"

namespace headwise::view {

ByteMatrix quantised(const ConstView& weights, float largest) {
  ByteMatrix result{.rows = weights.extent(0), .columns = weights.extent(1)};
  result.values.reserve(static_cast<std::size_t>(weights.size()));
  const float inverse = largest > 0.0F ? 1.0F / largest : 0.0F;
  for (std::int64_t row = 0; row < result.rows; ++row) {
    for (std::int64_t column = 0; column < result.columns; ++column) {
      const float weight = weights(row, column);
      const float place = 255.0F * std::sqrt(std::sqrt(weight * inverse)) + 0.5F;
      const float byte = weight > 0.0F ? std::clamp(place, 1.0F, 255.0F) : 0.0F;
      result.values.push_back(static_cast<std::uint8_t>(byte));
    }
  }
  return result;
}

ByteMatrix halved(const ByteMatrix& level, std::int64_t coarsest) {
  const std::int64_t down = level.rows > coarsest ? 2 : 1;
  const std::int64_t across = level.columns > coarsest ? 2 : 1;
  ByteMatrix result{.rows = base::divide_up(level.rows, down),
                    .columns = base::divide_up(level.columns, across),
                    .row_weights = down * level.row_weights,
                    .column_weights = across * level.column_weights};
  result.values.assign(static_cast<std::size_t>(result.rows * result.columns), 0);
  for (std::int64_t row = 0; row < level.rows; ++row) {
    const std::uint8_t* from = level.values.data() + row * level.columns;
    std::uint8_t* into = result.values.data() + row / down * result.columns;
    for (std::int64_t column = 0; column < level.columns; ++column) {
      into[column / across] = std::max(into[column / across], from[column]);
    }
  }
  return result;
}

}  // namespace headwise::view
