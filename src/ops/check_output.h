// Checks of a buffer that the caller brings for the output.
#pragma once

#include <initializer_list>
#include <string_view>

#include "headwise/tensor.h"

namespace headwise::ops {

struct NamedInput {
  const char* name;
  ConstView view;
};

// Throws ArgumentError unless `out` is absent, or has the shape and shares no memory with an input
// nor with itself.
void check_output(std::string_view function, const MutableView& out, const Shape& shape,
                  std::initializer_list<NamedInput> inputs);

}  // namespace headwise::ops
