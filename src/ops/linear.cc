#include "ops/linear.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"

namespace headwise {

namespace ops {

namespace {

constexpr std::int64_t kRowBlock = 64;
constexpr std::int64_t kColumnBlock = 256;
constexpr std::int64_t kGradientColumns = 64;  // of one task's share of a weight gradient
constexpr std::int64_t kGradientRows = 256;    // summed between two visits of it

static_assert(kColumnBlock % kernels::kPanelWidth == 0);
static_assert(kGradientColumns % kernels::kPanelWidth == 0);

bool all_finite(const ConstRows& rows) {
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    const auto block = rows.block(o, 0);
    for (std::int64_t i = 0; i < rows.inner; ++i) {
      for (std::int64_t f = 0; f < rows.features; ++f) {
        if (!std::isfinite(block(i, f))) return false;
      }
    }
  }
  return true;
}

// 1 for every row that is not all zero.
void mark_used(const ConstRows& rows, std::uint8_t* used) {
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    const auto block = rows.block(o, 0);
    for (std::int64_t i = 0; i < rows.inner; ++i) {
      bool zero = true;
      for (std::int64_t f = 0; f < rows.features; ++f) zero = zero && block(i, f) == 0.0F;
      *used++ = zero ? 0 : 1;
    }
  }
}

}  // namespace

PackedMatrix pack(std::int64_t depth, std::int64_t columns, kernels::MatrixView matrix,
                  float* panels) {
  (void)kernels::pack_panels(depth, columns, matrix, panels);
  return {depth, columns, panels};
}

void linear(const runtime::Lease& lease, const LinearCall& call) {
  ConstRows x = call.x;
  MutableRows y = call.y;
  // Many short sequences become one long block only if both sides allow it.
  if (x.collapsed().outer == 1 && y.collapsed().outer == 1) {
    x = x.collapsed();
    y = y.collapsed();
  }
  const std::int64_t row_blocks = base::divide_up(x.inner, kRowBlock);
  const std::int64_t column_blocks = base::divide_up(call.w.columns, kColumnBlock);
  lease.parallel_for(x.outer * row_blocks * column_blocks, [&](std::int64_t task, int) {
    const std::int64_t column = task % column_blocks * kColumnBlock;
    const std::int64_t row = task / column_blocks % row_blocks * kRowBlock;
    const std::int64_t outer = task / column_blocks / row_blocks;
    kernels::multiply({.rows = std::min(kRowBlock, x.inner - row),
                       .columns = std::min(kColumnBlock, call.w.columns - column),
                       .depth = call.w.depth,
                       .a = x.block(outer, row),
                       .panels = call.w.panels + column * call.w.depth,
                       .c = y.block(outer, row).from(0, column),
                       .bias = call.bias == nullptr ? nullptr : call.bias + column,
                       .accumulate = call.accumulate});
  });
}

std::int64_t linear_gradient_scratch(std::int64_t outputs) {
  return kernels::packed_size(kGradientRows, std::min(outputs, kGradientColumns));
}

void linear_weight_gradient(const runtime::Lease& lease, const LinearGradientCall& call) {
  const std::int64_t outputs = call.dy.features;
  const std::int64_t scratch = linear_gradient_scratch(outputs);
  mark_used(call.dy, call.used);
  const bool finite = all_finite(call.x);

  // A task owns some columns of the gradient and adds all rows to them, in order.
  lease.parallel_for(
      base::divide_up(outputs, kGradientColumns), [&](std::int64_t task, int worker) {
        const std::int64_t column = task * kGradientColumns;
        const std::int64_t columns = std::min(kGradientColumns, outputs - column);
        float* panels = call.worker_scratch + worker * scratch;
        for (std::int64_t o = 0; o < call.x.outer; ++o) {
          for (std::int64_t row = 0; row < call.x.inner; row += kGradientRows) {
            const std::int64_t rows = std::min(kGradientRows, call.x.inner - row);
            const kernels::MatrixView dy = call.dy.block(o, row).from(0, column);
            (void)kernels::pack_panels(rows, columns, dy, panels);
            const kernels::Product product{.rows = call.x.features,
                                           .columns = columns,
                                           .depth = rows,
                                           .a = call.x.block(o, row).transposed(),
                                           .panels = panels,
                                           .c = {call.kernel_gradient + column, outputs, 1},
                                           .accumulate = true};
            if (finite) {
              kernels::multiply(product);
            } else {
              kernels::multiply_selected(product, {call.used + o * call.x.inner + row, 0, 1});
            }
            if (call.bias_gradient == nullptr) continue;
            for (std::int64_t i = 0; i < rows; ++i) {
              for (std::int64_t j = 0; j < columns; ++j) call.bias_gradient[column + j] += dy(i, j);
            }
          }
        }
      });
}

}  // namespace ops

Tensor linear(const ConstView& input, const ConstView& kernel, const ConstView& bias,
              Context* context) {
  if (input.rank() < 1) base::fail("linear", "input", "rank ≥ 1", input.shape().to_string());
  const std::int64_t features = input.extent(input.rank() - 1);
  if (kernel.rank() != 2 || kernel.extent(0) != features) {
    base::fail("linear", "kernel", "shape (" + std::to_string(features) + ", outputs)",
               kernel.shape().to_string());
  }
  const std::int64_t outputs = kernel.extent(1);
  if (bias.present() && bias.shape() != Shape{outputs}) {
    base::fail("linear", "bias", "shape " + Shape{outputs}.to_string(), bias.shape().to_string());
  }
  std::vector<std::int64_t> extents(input.shape().begin(), input.shape().end());
  extents.back() = outputs;
  Tensor output{Shape(extents)};

  // Beyond rank 3 the strides of the leading axes need not follow one pattern: copy those.
  const Tensor copy = input.rank() > 3 ? Tensor::copy_of(input) : Tensor();
  const std::int64_t count =
      features == 0 ? output.size() / std::max<std::int64_t>(outputs, 1) : input.size() / features;
  const ops::ConstRows x =
      input.rank() > 3 ? ops::dense_rows(copy.data(), 1, count, features) : ops::rows_of(input);
  const Tensor dense_bias = bias.present() ? Tensor::copy_of(bias) : Tensor();

  runtime::Lease lease("linear", context);
  runtime::ScratchPlan plan;
  const std::size_t panels = plan.add<float>(kernels::packed_size(features, outputs));
  lease.reserve(plan, 2.0 * static_cast<double>(count) * static_cast<double>(kernel.size()));
  const ops::PackedMatrix packed =
      ops::pack(features, outputs, {kernel.data(), kernel.stride(0), kernel.stride(1)},
                lease.scratch<float>(panels));
  ops::linear(lease, {.x = x,
                      .w = packed,
                      .bias = bias.present() ? dense_bias.data() : nullptr,
                      .y = ops::dense_rows(output.data(), x.outer, x.inner, outputs)});
  return output;
}

}  // namespace headwise
