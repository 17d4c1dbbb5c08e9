#include "ops/linear.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "ops/copy_row.h"
#include "tensor/overlap.h"

namespace headwise {

namespace ops {

namespace {

using kernels::kPanelWidth;

// Rows of one task: their part of X stays in the L2 cache while all panels of W pass by.
constexpr std::int64_t kRowBlock = 96;
constexpr std::int64_t kTasksWanted = 16;  // more than most machines have threads to fill
// A kernel that lies as rows is read some of them at a time for few rows of X, along all columns of
// a task, so that the processor sees what follows and fetches it. Down the columns it would not.
constexpr std::int64_t kFewRowsInPlace = 8;
constexpr std::int64_t kDepthInPlace = 8;

bool reads_rows(const LinearCall& call, std::int64_t rows) {
  return call.w.in_place() && rows <= kFewRowsInPlace;
}

// Few rows are shared out by columns instead: by as few as a register tile spans, since threads that
// are done wait for the last task. Eight chains of multiply-adds need more of them for a row or two.
std::int64_t least_columns(const LinearCall& call, std::int64_t rows) {
  if (reads_rows(call, rows)) return 512;
  return rows < 4 ? 64 : 32;
}

constexpr std::int64_t kGradientColumns = 128;  // of one task's share of a weight gradient
constexpr std::int64_t kGradientInputs = 192;
constexpr std::int64_t kGradientRows = 256;  // summed between two visits of it

// How a call is cut into tasks, by its shape alone.
struct LinearTasks {
  explicit LinearTasks(const LinearCall& call) : x(call.x), y(call.y) {
    // Many short sequences become one long block only if both sides allow it.
    if (x.collapsed().outer == 1 && y.collapsed().outer == 1) {
      x = x.collapsed();
      y = y.collapsed();
    }
    const std::int64_t panels = kernels::panel_count(call.w.columns);
    row_blocks = base::divide_up(x.inner, kRowBlock);
    const std::int64_t wanted =
        base::divide_up(kTasksWanted, std::max<std::int64_t>(1, x.outer * row_blocks));
    column_blocks =
        std::clamp<std::int64_t>(panels * kPanelWidth / least_columns(call, x.inner), 1, wanted);
    panels_per_block = base::divide_up(panels, column_blocks);
    // Whole pairs of panels, which the widest register tile spans.
    panels_per_block += panels_per_block % 2;
    column_blocks = panels_per_block == 0 ? 0 : base::divide_up(panels, panels_per_block);
  }
  [[nodiscard]] std::int64_t count() const { return x.outer * row_blocks * column_blocks; }

  ConstRows x;
  MutableRows y;
  std::int64_t row_blocks, column_blocks, panels_per_block;
};

void run_task(const kernels::Kernels& kernels, const LinearCall& call, const LinearTasks& tasks,
              std::int64_t task) {
  const std::int64_t column = task % tasks.column_blocks * tasks.panels_per_block * kPanelWidth;
  const std::int64_t block = task / tasks.column_blocks % tasks.row_blocks;
  const std::int64_t outer = task / tasks.column_blocks / tasks.row_blocks;
  // Equal shares: 97 rows are 49 and 48, not 96 and 1.
  const std::int64_t row = tasks.x.inner * block / tasks.row_blocks;
  const std::int64_t row_end = tasks.x.inner * (block + 1) / tasks.row_blocks;
  kernels::Product product{
      .rows = row_end - row,
      .columns = std::min(tasks.panels_per_block * kPanelWidth, call.w.columns - column),
      .depth = call.w.depth,
      .a = tasks.x.block(outer, row),
      .b = call.w.from(column),
      .c = tasks.y.block(outer, row).from(0, column),
      .bias = call.bias == nullptr ? nullptr : call.bias + column};
  if (call.accumulate) {
    product.start = {product.c.data, product.c.row_stride, product.c.column_stride};
  }
  if (!reads_rows(call, product.rows) || call.w.depth == 0) return kernels.gemm.multiply(product);
  for (std::int64_t depth = 0; depth < call.w.depth; depth += kDepthInPlace) {
    kernels::Product part = product;
    part.depth = std::min(kDepthInPlace, call.w.depth - depth);
    part.a = product.a.from(0, depth);
    part.b.data += depth * part.b.row_stride;
    if (depth > 0) part.start = {product.c.data, product.c.row_stride, product.c.column_stride};
    if (depth + kDepthInPlace < call.w.depth) part.bias = nullptr;
    kernels.gemm.multiply(part);
  }
}

}  // namespace

PackedMatrix pack(const runtime::Lease& lease, std::int64_t depth, std::int64_t columns,
                  kernels::MatrixView matrix, float* panels) {
  constexpr std::int64_t kColumns = 8 * kPanelWidth;
  lease.parallel_for(base::divide_up(columns, kColumns), [&](std::int64_t task, int) {
    const std::int64_t column = task * kColumns;
    (void)lease.kernels().gemm.pack_panels(depth, std::min(kColumns, columns - column),
                                           matrix.from(0, column), panels + column * depth);
  });
  return {depth, columns, panels};
}

void linear(const runtime::Lease& lease, std::span<const LinearCall> calls) {
  std::int64_t total = 0;
  for (const LinearCall& call : calls) total += LinearTasks(call).count();
  lease.parallel_for(total, [&](std::int64_t task, int) {
    for (const LinearCall& call : calls) {
      const LinearTasks tasks(call);
      if (task < tasks.count()) return run_task(lease.kernels(), call, tasks, task);
      task -= tasks.count();
    }
  });
}

Shape mapped_shape(const char* function, const ConstView& input, std::int64_t inputs,
                   std::int64_t outputs) {
  if (input.rank() < 1 || input.extent(input.rank() - 1) != inputs) {
    base::fail(function, "input", "a last axis of " + std::to_string(inputs),
               "shape " + input.shape().to_string());
  }
  std::vector<std::int64_t> extents(input.shape().begin(), input.shape().end());
  extents.back() = outputs;
  return Shape(extents);
}

void check_kernel(const char* function, const ConstView& kernel, const ConstView& bias) {
  if (kernel.rank() != 2) {
    base::fail(function, "kernel", "shape (inputs, outputs)", kernel.shape().to_string());
  }
  const std::int64_t outputs = kernel.extent(1);
  if (bias.present() && bias.shape() != Shape{outputs}) {
    base::fail(function, "bias", "shape " + Shape{outputs}.to_string(), bias.shape().to_string());
  }
}

void check_mapped(const char* function, const MutableView& output, const Shape& shape,
                  std::initializer_list<ConstView> read) {
  if (output.shape() != shape) {
    base::fail(function, "output", "shape " + shape.to_string(), output.shape().to_string());
  }
  const bool shared = std::any_of(read.begin(), read.end(), [&](const ConstView& view) {
    return tensor::may_overlap(output, view);
  });
  if (shared || tensor::may_repeat_elements(output)) {
    base::fail(function, "output", "memory of its own, apart from the input",
               "memory that is shared");
  }
}

std::int64_t linear_gradient_scratch() {
  return kernels::packed_size(kGradientRows, kGradientColumns) + kGradientRows * kGradientInputs;
}

namespace {

// A task's share of a weight gradient: some inputs × some outputs.
struct GradientShare {
  std::int64_t input, inputs;
  std::int64_t output, outputs;
};

// Adds all rows to the share, in order. Returns whether the result is finite.
bool sum_gradient(const kernels::Kernels& kernels, const LinearGradientCall& call,
                  const GradientShare& share, float* scratch, bool zero_annihilates) {
  float* dy_panels = scratch;
  float* x_rows = scratch + kernels::packed_size(kGradientRows, kGradientColumns);
  const kernels::MutableMatrix gradient{
      call.kernel_gradient + share.input * call.outputs + share.output, call.outputs, 1};
  bool started = false;
  bool not_finite = false;
  for (const RowPair& pair : call.pairs) {
    for (std::int64_t o = 0; o < pair.x.outer; ++o) {
      for (std::int64_t row = 0; row < pair.x.inner; row += kGradientRows) {
        const std::int64_t rows = std::min(kGradientRows, pair.x.inner - row);
        (void)kernels.gemm.pack_panels(rows, share.outputs,
                                       pair.dy.block(o, row).from(0, share.output), dy_panels);
        // Copied, because the columns of X lie a whole row apart: with rows of a power of two they
        // would compete for a few places of the cache.
        const kernels::MatrixView x = pair.x.block(o, row).from(0, share.input);
        for (std::int64_t k = 0; k < rows; ++k) {
          copy_row(x.from(k, 0), share.inputs, {x_rows + k * share.inputs});
        }
        kernels.gemm.multiply({.rows = share.inputs,
                               .columns = share.outputs,
                               .depth = rows,
                               .a = {x_rows, 1, share.inputs},
                               .b = kernels::packed_panels(dy_panels, rows),
                               .c = gradient,
                               .start = started
                                            ? kernels::MatrixView{gradient.data, call.outputs, 1}
                                            : kernels::MatrixView{},
                               .zero_annihilates = zero_annihilates,
                               .not_finite = &not_finite});
        started = true;
      }
    }
  }
  for (std::int64_t i = 0; i < share.inputs && !started; ++i) {
    std::fill_n(gradient.data + i * gradient.row_stride, share.outputs, 0.0F);
  }
  return !not_finite;
}

void sum_bias_gradient(const LinearGradientCall& call, const GradientShare& share) {
  float* sums = call.bias_gradient + share.output;
  std::fill_n(sums, share.outputs, 0.0F);
  for (const RowPair& pair : call.pairs) {
    for (std::int64_t o = 0; o < pair.dy.outer; ++o) {
      const kernels::MatrixView dy = pair.dy.block(o, 0).from(0, share.output);
      for (std::int64_t i = 0; i < pair.dy.inner; ++i) {
        const float* row = dy.data + i * dy.row_stride;
        if (dy.column_stride == 1) {
          for (std::int64_t j = 0; j < share.outputs; ++j) sums[j] += row[j];
        } else {
          for (std::int64_t j = 0; j < share.outputs; ++j) sums[j] += row[j * dy.column_stride];
        }
      }
    }
  }
}

}  // namespace

void linear_weight_gradient(const runtime::Lease& lease, const LinearGradientCall& call) {
  const std::int64_t columns = base::divide_up(call.outputs, kGradientColumns);
  const std::int64_t rows = base::divide_up(call.inputs, kGradientInputs);
  lease.parallel_for(columns * rows, [&](std::int64_t task, int worker) {
    const std::int64_t input = task % rows * kGradientInputs;
    const std::int64_t output = task / rows * kGradientColumns;
    const GradientShare share{input, std::min(kGradientInputs, call.inputs - input), output,
                              std::min(kGradientColumns, call.outputs - output)};
    float* scratch = call.worker_scratch + worker * linear_gradient_scratch();
    // Nearly always everything is finite, and to look first would cost a pass over X.
    if (!sum_gradient(lease.kernels(), call, share, scratch, false)) {
      (void)sum_gradient(lease.kernels(), call, share, scratch, true);
    }
    if (call.bias_gradient != nullptr && input == 0) sum_bias_gradient(call, share);
  });
}

}  // namespace ops

PackedLinear::PackedLinear(const ConstView& kernel, const ConstView& bias) {
  ops::check_kernel("PackedLinear", kernel, bias);
  inputs_ = kernel.extent(0);
  outputs_ = kernel.extent(1);
  panels_ = Tensor(Shape{kernels::packed_size(inputs_, outputs_)});
  if (bias.present()) bias_ = Tensor::copy_of(bias);
  Context context(1);
  const runtime::Lease lease("PackedLinear", &context);
  (void)ops::pack(lease, inputs_, outputs_, {kernel.data(), kernel.stride(0), kernel.stride(1)},
                  panels_.data());
}

Tensor PackedLinear::operator()(const ConstView& input, Context* context) const {
  Tensor output(ops::mapped_shape("PackedLinear", input, inputs_, outputs_));
  apply(input, output.view(), context);
  return output;
}

void PackedLinear::apply(const ConstView& input, const MutableView& output,
                         Context* context) const {
  if (panels_.size() != kernels::packed_size(inputs_, outputs_)) {
    base::fail("PackedLinear", "map", "a map", "one that was moved from");
  }
  const Shape shape = ops::mapped_shape("PackedLinear", input, inputs_, outputs_);
  ops::check_mapped("PackedLinear", output, shape, {input});
  if (input.rank() > 3) {  // the strides of more leading axes need not follow one pattern
    for (std::int64_t i = 0; i < input.extent(0); ++i) {
      apply(input.at(0, i), output.at(0, i), context);
    }
    return;
  }
  const ops::ConstRows x = ops::rows_of(input);
  runtime::Lease lease("PackedLinear", context);
  lease.reserve({}, 2.0 * static_cast<double>(x.count()) * static_cast<double>(inputs_) *
                        static_cast<double>(outputs_));
  ops::linear(lease, {.x = x,
                      .w = {inputs_, outputs_, panels_.data()},
                      .bias = bias_.size() == 0 ? nullptr : bias_.data(),
                      .y = ops::rows_of(output)});
}

}  // namespace headwise
