#include "ops/head_norm.h"

namespace headwise::ops {

namespace {

// Calls visit(input head, output head) for all heads of row `row`, counted over all outer blocks.
template <typename Visit>
void for_each_head(std::int64_t size, const ConstRows& input, const MutableRows& output,
                   std::int64_t row, Visit visit) {
  const float* from = input.block(row / input.inner, row % input.inner).data;
  float* to = output.block(row / input.inner, row % input.inner).data;
  for (std::int64_t i = 0; i < input.features; i += size) visit(from + i, to + i);
}

}  // namespace

void normalise_heads(const runtime::Lease& lease, const HeadNorm& norm, const ConstRows& input,
                     const MutableRows& output) {
  lease.parallel_for(input.count(), [&](std::int64_t row, int) {
    for_each_head(norm.size, input, output, row, [&](const float* x, float* y) {
      kernels::normalise_vector(norm.rule, norm.size, x, norm.scale, y);
    });
  });
}

void normalise_heads_backward(const HeadNorm& norm, const ConstRows& input,
                              const MutableRows& gradient, float* scale_gradient) {
  for (std::int64_t row = 0; row < input.count(); ++row) {
    for_each_head(norm.size, input, gradient, row, [&](const float* x, float* dy_dx) {
      kernels::normalise_vector_backward(norm.rule, norm.size, x, norm.scale, dy_dx,
                                         scale_gradient);
    });
  }
}

}  // namespace headwise::ops
