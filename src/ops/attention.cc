// The public operation: validate → plan → reserve → run.
#include "headwise/attention.h"

#include <string>
#include <utility>

#include "base/check.h"
#include "ops/attention_backward.h"
#include "ops/attention_forward.h"
#include "ops/attention_inputs.h"
#include "ops/attention_weights.h"
#include "ops/check_output.h"

namespace headwise {

namespace {

using ops::AttentionDims;
using ops::AttentionPlan;
using runtime::Lease;
using runtime::ScratchPlan;

// Where the axes of a head tensor are. Sequences are missing where there is no batch axis.
struct AxisOrder {
  int sequence = -1;
  int row = 0;
  int head = 0;
  int feature = 0;
};

AxisOrder axis_order(Layout layout, int rank) {
  const int first = rank - 3;  // 1 with a batch axis, 0 without
  const bool heads_first = layout == Layout::HeadsFirst;
  return {first - 1, first + (heads_first ? 1 : 0), first + (heads_first ? 0 : 1), rank - 1};
}

template <typename T>
ops::HeadTensor<T> head_tensor(const TensorView<T>& view, Layout layout) {
  const AxisOrder axes = axis_order(layout, view.rank());
  return {view.data(), axes.sequence < 0 ? 0 : view.stride(axes.sequence), view.stride(axes.row),
          view.stride(axes.head), view.stride(axes.feature)};
}

// The shape of a head tensor in the caller's layout.
Shape head_shape(Layout layout, int rank, std::int64_t batch, std::int64_t rows, std::int64_t heads,
                 std::int64_t features) {
  const bool heads_first = layout == Layout::HeadsFirst;
  const std::int64_t a = heads_first ? heads : rows;
  const std::int64_t b = heads_first ? rows : heads;
  return rank == 4 ? Shape{batch, a, b, features} : Shape{a, b, features};
}

void check_heads(const char* function, const char* argument, const ConstView& view,
                 const Shape& expected) {
  if (view.shape() != expected) {
    base::fail(function, argument, "shape " + expected.to_string(), view.shape().to_string());
  }
}

AttentionDims checked_dims(const char* function, const AttentionInputs& inputs,
                           const AttentionOptions& options) {
  const ConstView& query = inputs.query;
  const int rank = query.rank();
  const char* axes =
      options.layout == Layout::HeadsFirst ? "(B,H,T,d) or (H,T,d)" : "(B,T,H,d) or (T,H,d)";
  if (options.packed && rank != 3) {
    base::fail(function, "query", "rank 3 for a packed batch",
               "shape " + query.shape().to_string());
  }
  if (rank != 3 && rank != 4)
    base::fail(function, "query", axes, "shape " + query.shape().to_string());
  for (const auto& [name, view] :
       {std::pair{"key", &inputs.key}, std::pair{"value", &inputs.value}}) {
    if (view->rank() != rank) {
      base::fail(function, name, "rank " + std::to_string(rank) + " as query has",
                 "shape " + view->shape().to_string());
    }
  }
  const AxisOrder order = axis_order(options.layout, rank);
  AttentionDims dims;
  dims.batched = rank == 4;
  dims.batch = rank == 4 ? query.extent(0) : 1;
  dims.queries = query.extent(order.row);
  dims.keys = inputs.key.extent(order.row);
  dims.heads = query.extent(order.head);
  dims.kv_heads = inputs.key.extent(order.head);
  dims.key_size = query.extent(order.feature);
  dims.value_size = inputs.value.extent(order.feature);
  check_heads(
      function, "key", inputs.key,
      head_shape(options.layout, rank, dims.batch, dims.keys, dims.kv_heads, dims.key_size));
  check_heads(
      function, "value", inputs.value,
      head_shape(options.layout, rank, dims.batch, dims.keys, dims.kv_heads, dims.value_size));
  const bool divides = dims.kv_heads == 0 ? dims.heads == 0 : dims.heads % dims.kv_heads == 0;
  if (!divides) {
    base::fail(function, "key",
               "a number of heads that divides the query's " + std::to_string(dims.heads),
               std::to_string(dims.kv_heads));
  }
  return dims;
}

ops::PlanOptions plan_options(const AttentionOptions& options) {
  return {.mask = options.mask,
          .bias = options.bias,
          .scale = options.scale,
          .softcap = options.softcap,
          .dropout = options.dropout.probability,
          .dropout_seed = options.dropout.seed,
          .sequence_ids = options.dropout.sequence_ids,
          .packed = options.packed,
          .unmasked_tail = options.unmasked_tail};
}

Shape output_shape(const AttentionDims& dims, const AttentionOptions& options, int rank) {
  return head_shape(options.layout, rank, dims.batch, dims.queries, dims.heads, dims.value_size);
}

}  // namespace

AttentionResult attention(const ConstView& query, const ConstView& key, const ConstView& value,
                          const AttentionOptions& options) {
  constexpr const char* kFunction = "attention";
  const AttentionInputs inputs{query, key, value};
  const AttentionDims dims = checked_dims(kFunction, inputs, options);
  const Shape shape = output_shape(dims, options, query.rank());
  ops::check_output(kFunction, options.out, shape, {inputs, options.mask, options.bias});
  const AttentionPlan plan(kFunction, dims, plan_options(options));

  Lease lease(kFunction, options.context);
  ScratchPlan scratch;
  const ops::AttentionForward forward(plan, lease, scratch);
  const ops::AttentionWeightsPass weights(kFunction, plan, options.weights, lease, scratch);
  AttentionResult result = ops::allocate_result(plan, lease);
  if (!options.out.present()) result.output = lease.zeros(shape);
  weights.allocate(lease, result);
  lease.reserve(scratch, plan.flops());

  const MutableView out = options.out.present() ? options.out : result.output.view();
  const ops::AttentionBuffers buffers{
      head_tensor(query, options.layout), head_tensor(key, options.layout),
      head_tensor(value, options.layout), head_tensor(out, options.layout),
      result.row_reference.data(),        result.row_sum.data()};
  forward.run(lease, buffers);
  ops::fill_log_sum_exp(lease, result);
  weights.run(lease, buffers, result);
  return result;
}

AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionResult& forward,
                                      const ConstView& output_gradient,
                                      const AttentionOptions& options,
                                      const BackwardOptions& backward) {
  constexpr const char* kFunction = "attention_backward";
  const auto [query, key, value] = ops::with_defaults(inputs);
  const AttentionDims dims = checked_dims(kFunction, {query, key, value}, options);
  const Shape shape = output_shape(dims, options, query.rank());
  check_heads(kFunction, "output_gradient", output_gradient, shape);
  const AttentionPlan plan(kFunction, dims, plan_options(options));
  const Shape rows = plan.row_shape(dims.heads, dims.queries, -1);
  check_heads(kFunction, "forward.row_reference", forward.row_reference, rows);
  check_heads(kFunction, "forward.row_sum", forward.row_sum, rows);
  const bool brought = options.out.present();
  const ConstView output = brought ? ConstView(options.out) : ConstView(forward.output);
  check_heads(kFunction, brought ? "options.out" : "forward.output", output, shape);

  Lease lease(kFunction, options.context);
  ScratchPlan scratch;
  const ops::AttentionBackward pass(plan, lease, scratch);
  AttentionGradients gradients{
      lease.zeros(query.shape()), lease.zeros(key.shape()), lease.zeros(value.shape()), {}};
  std::optional<ops::BiasGradient> bias_pass;
  if (backward.bias_gradient) {
    bias_pass.emplace(plan, options.bias, lease, scratch);
    gradients.bias = bias_pass->allocate(lease);
  }
  lease.reserve(scratch, 2.5 * plan.flops());

  const auto heads = [&](const auto& view) { return head_tensor(view, options.layout); };
  const ops::BackwardBuffers buffers{.query = heads(query),
                                     .key = heads(key),
                                     .value = heads(value),
                                     .output = heads(output),
                                     .row_reference = forward.row_reference.data(),
                                     .row_sum = forward.row_sum.data(),
                                     .output_gradient = heads(output_gradient),
                                     .query_gradient = heads(gradients.query.view()),
                                     .key_gradient = heads(gradients.key.view()),
                                     .value_gradient = heads(gradients.value.view())};
  pass.run(lease, buffers);
  if (bias_pass) bias_pass->run(lease, buffers, pass.delta(lease), gradients.bias);
  return gradients;
}

}  // namespace headwise
