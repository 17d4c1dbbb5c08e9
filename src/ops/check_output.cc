#include "ops/check_output.h"

#include <string>

#include "base/check.h"
#include "tensor/overlap.h"

namespace headwise::ops {

void check_output(std::string_view function, const MutableView& out, const Shape& shape,
                  const OutputNeighbours& read) {
  if (!out.present()) return;
  if (out.shape() != shape) {
    base::fail(function, "options.out", "shape " + shape.to_string(), out.shape().to_string());
  }
  if (tensor::may_repeat_elements(out)) {
    base::fail(function, "options.out", "strides that give every element an address of its own",
               "strides that may share them in " + shape.to_string());
  }
  const auto keep_apart = [&](const char* name, const auto& view) {
    if (!tensor::may_overlap(out, view)) return;
    base::fail(function, "options.out", std::string("memory apart from ") + name,
               "memory that overlaps it");
  };
  keep_apart("query", read.inputs.query);
  keep_apart("key", read.inputs.key);
  keep_apart("value", read.inputs.value);
  for (const Bias& bias : read.bias) keep_apart("options.bias", bias.values.view());
  for (const KeepMask& keep : read.mask.keeps) keep_apart("options.mask", keep.values.view());
  for (const auto& lengths : read.mask.key_lengths) keep_apart("options.mask", lengths.view());
  for (const auto& lengths : read.mask.query_lengths) keep_apart("options.mask", lengths.view());
  for (const Segments& segments : read.mask.segments) {
    keep_apart("options.mask", segments.query.view());
    keep_apart("options.mask", segments.key.view());
  }
}

}  // namespace headwise::ops
