#include "view/reduce.h"

#include <algorithm>

#include "base/check.h"

namespace headwise::view {

Reduced reduced(const ConstView& weights, std::int64_t row_factor, std::int64_t column_factor) {
  Reduced result{base::divide_up(weights.extent(0), row_factor),
                 base::divide_up(weights.extent(1), column_factor),
                 {}};
  result.values.assign(static_cast<std::size_t>(result.rows * result.columns), 0.0F);
  for (std::int64_t row = 0; row < weights.extent(0); ++row) {
    float* into = result.values.data() + row / row_factor * result.columns;
    for (std::int64_t column = 0; column < result.columns; ++column) {
      const std::int64_t begin = column * column_factor;
      const std::int64_t end = std::min(begin + column_factor, weights.extent(1));
      for (std::int64_t key = begin; key < end; ++key) {
        into[column] = std::max(into[column], weights(row, key));
      }
    }
  }
  return result;
}

std::string reduction_text(const char* cell, std::int64_t row_factor, std::int64_t column_factor) {
  if (row_factor == 1 && column_factor == 1) return "";
  return std::string("each ") + cell + " shows the largest of " + std::to_string(row_factor) +
         " × " + std::to_string(column_factor) + " weights";
}

}  // namespace headwise::view
