// A linear map over the last axis, as every projection of a layer computes it.
#pragma once

#include <cstdint>

#include "headwise/context.h"
#include "headwise/tensor.h"

namespace headwise {

// (…, in) · kernel (in, out) + bias (out): a new tensor (…, out). No bias: leave it out.
Tensor linear(const ConstView& input, const ConstView& kernel, const ConstView& bias = {},
              Context* context = nullptr);

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

}  // namespace headwise
