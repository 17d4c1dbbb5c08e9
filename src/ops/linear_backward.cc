// linear_backward(): the steps by which a layer goes back through a projection.
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/linear.h"

namespace headwise {

namespace {

constexpr const char* kFunction = "linear_backward";

void check_shapes(const ConstView& input, const ConstView& kernel,
                  const ConstView& output_gradient) {
  if (input.rank() < 1) base::fail(kFunction, "input", "rank ≥ 1", input.shape().to_string());
  const std::int64_t features = input.extent(input.rank() - 1);
  if (kernel.rank() != 2 || kernel.extent(0) != features) {
    base::fail(kFunction, "kernel", "shape (" + std::to_string(features) + ", outputs)",
               kernel.shape().to_string());
  }
  const Shape expected = ops::mapped_shape(kFunction, input, features, kernel.extent(1));
  if (!output_gradient.present() || output_gradient.shape() != expected) {
    base::fail(kFunction, "output_gradient", "shape " + expected.to_string(),
               output_gradient.shape().to_string());
  }
}

}  // namespace

LinearGradients linear_backward(const ConstView& input, const ConstView& kernel,
                                const ConstView& output_gradient, Context* context) {
  check_shapes(input, kernel, output_gradient);
  const std::int64_t inputs = kernel.extent(0);
  const std::int64_t outputs = kernel.extent(1);

  runtime::Lease lease(kFunction, context);
  LinearGradients gradients{lease.zeros(input.shape()), lease.zeros(kernel.shape()),
                            lease.zeros({outputs})};
  const auto x = ops::pieces_of(input);
  const auto dy = ops::pieces_of(output_gradient);
  const auto dx = ops::pieces_of(gradients.input.view());
  std::vector<ops::RowPair> pairs(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) pairs[i] = {x[i], dy[i]};
  runtime::ScratchPlan scratch;
  const std::size_t panels = scratch.add<float>(kernels::packed_size(outputs, inputs));
  const std::size_t workers = scratch.add<float>(lease.threads() * ops::linear_gradient_scratch());
  lease.reserve(scratch,
                4.0 * static_cast<double>(output_gradient.size()) * static_cast<double>(inputs));

  const ops::PackedMatrix transposed =
      ops::pack(lease, outputs, inputs, {kernel.data(), kernel.stride(1), kernel.stride(0)},
                lease.scratch<float>(panels));
  for (std::size_t i = 0; i < x.size(); ++i) {
    ops::linear(lease, {.x = dy[i], .w = transposed, .y = dx[i]});
  }
  ops::linear_weight_gradient(lease, {.pairs = pairs,
                                      .inputs = inputs,
                                      .outputs = outputs,
                                      .kernel_gradient = gradients.kernel.data(),
                                      .bias_gradient = gradients.bias.data(),
                                      .worker_scratch = lease.scratch<float>(workers)});
  return gradients;
}

}  // namespace headwise
