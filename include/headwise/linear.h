// A linear map over the last axis and its gradients, as every projection of a layer computes them;
// and the sigmoid of its gate.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// (…, in) · kernel (in, out) + bias (out): a new tensor (…, out). No bias: leave it out.
Tensor linear(const ConstView& input, const ConstView& kernel, const ConstView& bias = {},
              Context* context = nullptr);
// Into the caller's buffer, any strides.
void linear(const ConstView& input, const ConstView& kernel, const ConstView& bias,
            const MutableView& output, Context* context = nullptr);

// The same map with its kernel packed once, for many calls. Immutable: any number of threads may
// use it at the same time.
class PackedLinear {
 public:
  explicit PackedLinear(const ConstView& kernel, const ConstView& bias = {});
  [[nodiscard]] std::int64_t inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::int64_t outputs() const noexcept { return outputs_; }
  [[nodiscard]] Tensor operator()(const ConstView& input, Context* context = nullptr) const;
  // Into the caller's buffer, any strides: `input`'s shape with outputs() in place of the last axis.
  void apply(const ConstView& input, const MutableView& output, Context* context = nullptr) const;

 private:
  std::int64_t inputs_, outputs_;
  Tensor panels_, bias_;
};

// Of every argument of linear(), each in its argument's shape.
struct LinearGradients {
  Tensor input, kernel, bias;
};

// What a layer computes for its projections, bit for bit; `output_gradient` has linear()'s shape.
// A row whose output gradient is exactly 0 adds nothing to the kernel's, whatever `input` holds there.
LinearGradients linear_backward(const ConstView& input, const ConstView& kernel,
                                const ConstView& output_gradient, Context* context = nullptr);

// σ of every number, as a layer with `use_gate` computes it; a new tensor of input's shape.
Tensor sigmoid(const ConstView& input, Context* context = nullptr);

}  // namespace headwise
