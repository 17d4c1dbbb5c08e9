#include "ops/check_output.h"

#include <string>

#include "base/check.h"
#include "tensor/overlap.h"

namespace headwise::ops {

void check_output(std::string_view function, const MutableView& out, const Shape& shape,
                  std::initializer_list<NamedInput> inputs) {
  if (!out.present()) return;
  if (out.shape() != shape) {
    base::fail(function, "options.out", "shape " + shape.to_string(), out.shape().to_string());
  }
  if (tensor::repeats_elements(out)) {
    base::fail(function, "options.out", "every element at an address of its own",
               "a stride of 0 in " + shape.to_string());
  }
  for (const NamedInput& input : inputs) {
    if (tensor::may_overlap(out, input.view)) {
      base::fail(function, "options.out", std::string("memory apart from ") + input.name,
                 "memory that overlaps it");
    }
  }
}

}  // namespace headwise::ops
