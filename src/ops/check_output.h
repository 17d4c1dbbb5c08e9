// Checks of a buffer that the caller brings for the output.
#pragma once

#include <string_view>
#include <vector>

#include "headwise/attention.h"
#include "headwise/tensor.h"

namespace headwise::ops {

// Everything that a call reads while it writes its output.
struct OutputNeighbours {
  const AttentionInputs& inputs;
  const Mask& mask;
  const std::vector<Bias>& bias;
};

// Throws ArgumentError unless `out` is absent, or has the shape and shares no memory with what is
// read, nor with itself.
void check_output(std::string_view function, const MutableView& out, const Shape& shape,
                  const OutputNeighbours& read);

}  // namespace headwise::ops
