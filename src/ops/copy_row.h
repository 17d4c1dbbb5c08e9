// Copies a row of numbers between matrices.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace headwise::ops {

// The first rows of both; by vectors if the numbers lie side by side.
inline void copy_row(kernels::MatrixView from, std::int64_t count, kernels::MutableMatrix to) {
  if (from.column_stride == 1 && to.column_stride == 1) {
    std::copy_n(from.data, count, to.data);
    return;
  }
  for (std::int64_t i = 0; i < count; ++i) to(0, i) = from(0, i);
}

}  // namespace headwise::ops
