// A linear map over the last axis, as every projection of a layer computes it.
#pragma once

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// (…, in) · kernel (in, out) + bias (out): a new tensor (…, out). No bias: leave it out.
Tensor linear(const ConstView& input, const ConstView& kernel, const ConstView& bias = {},
              Context* context = nullptr);

}  // namespace headwise
