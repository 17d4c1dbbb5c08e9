// Normalisation of every head of projected rows, and its gradient.
#pragma once

#include <cstdint>

#include "kernels/norm/norm.h"
#include "ops/linear.h"
#include "runtime/context_state.h"

namespace headwise::ops {

// Rows hold heads of `size` numbers side by side, without gaps inside a row.
struct HeadNorm {
  kernels::NormRule rule;
  std::int64_t size = 0;
  const float* scale = nullptr;  // (size)
};

// output = norm(input), which may be the same memory.
void normalise_heads(const runtime::Lease& lease, const HeadNorm& norm, const ConstRows& input,
                     const MutableRows& output);

// Turns `gradient` from that of the output into that of the input; adds to the scale's gradient,
// row after row.
void normalise_heads_backward(const HeadNorm& norm, const ConstRows& input,
                              const MutableRows& gradient, float* scale_gradient);

}  // namespace headwise::ops
