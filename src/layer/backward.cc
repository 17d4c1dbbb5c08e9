// One backward call: the forward's steps in reverse order.
#include <algorithm>
#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "headwise/layer.h"
#include "layer/layer_state.h"
#include "ops/attention_backward.h"
#include "ops/gate.h"

namespace headwise {

namespace {

using layer::LayerPlan;
using runtime::Lease;

// A result of another layer, or of another call, would give gradients that look right and are not.
void check_saved(const char* function, const layer::LayerState& state, const LayerPlan& plan,
                 const AttentionResult& forward) {
  if (!forward.saved) {
    base::fail(function, "forward", "a result of forward with save_for_backward = true",
               "one without saved activations");
  }
  const SavedForward& saved = *forward.saved;
  if (saved.layer != &state) base::fail(function, "forward", "a result of this layer", "another's");
  const ops::AttentionPlan& now = plan.attention;
  if (saved.dropout != now.dropout || saved.dropout_seed != now.dropout_seed) {
    base::fail(function, "options", "training and dropout_seed as forward had them",
               now.dropout > 0.0F ? "seed " + std::to_string(now.dropout_seed)
                                  : std::string("no dropout"));
  }
  const auto check = [&](const char* what, const Tensor& tensor, const Shape& expected) {
    if (tensor.shape() != expected) {
      base::fail(function, "forward",
                 std::string("a result for inputs and options like these, ") + what + " of shape " +
                     expected.to_string(),
                 tensor.shape().to_string());
    }
  };
  const ops::AttentionDims& dims = plan.attention.dims;
  check("queries", saved.query, {plan.query_rows(), plan.widths.query});
  check("keys", saved.key, {plan.stored_keys(), plan.widths.key});
  const Shape rows = plan.attention.row_shape(dims.heads, dims.queries, -1);
  check("row_reference", forward.row_reference, rows);
  check("row_sum", forward.row_sum, rows);
}

// Scratch of a call: gradients of the activations, and what the weight gradients need.
struct GradientPlan {
  GradientPlan(const LayerPlan& plan, const AttentionConfig& config, int threads,
               runtime::ScratchPlan& scratch)
      : query(scratch.add<float>(plan.query_rows() * plan.widths.query)),
        key(scratch.add<float>(plan.stored_keys() * plan.widths.key)),
        value(scratch.add<float>(plan.stored_keys() * plan.widths.value)),
        heads(scratch.add<float>(plan.query_rows() * plan.widths.heads)),
        gated(config.use_gate ? scratch.add<float>(plan.query_rows() * plan.widths.heads) : 0),
        gate(config.use_gate ? scratch.add<float>(plan.query_rows() * plan.widths.heads) : 0),
        panels(scratch.add<float>(largest_kernel(plan, config))),
        pairs(scratch.add<ops::RowPair>(plan.key_pieces())),
        workers(scratch.add<float>(threads * ops::linear_gradient_scratch())) {}

  // Transposed kernels are packed one at a time.
  static std::int64_t largest_kernel(const LayerPlan& plan, const AttentionConfig& config) {
    const layer::Widths& w = plan.widths;
    return std::max({kernels::packed_size(w.query, config.query_features),
                     kernels::packed_size(w.key, config.key_inputs()),
                     kernels::packed_size(w.value, config.value_inputs()),
                     kernels::packed_size(w.heads, config.query_features),
                     kernels::packed_size(config.outputs(), w.heads)});
  }

  std::size_t query, key, value, heads, gated, gate, panels, pairs, workers;
};

// Learned extra keys or values: the sum over all sequences' copies.
void add_extra_gradient(const LayerPlan& plan, const float* stored, std::int64_t width,
                        Tensor& gradient) {
  if (gradient.size() == 0) return;
  const auto& shape = plan.attention.shape;
  for (std::int64_t b = 0; b < shape.batch(); ++b) {
    const auto& sequence = shape.sequences[static_cast<std::size_t>(b)];
    const std::int64_t begin = shape.packed ? sequence.key_begin : b * plan.attention.dims.keys;
    const float* row = stored + (begin + sequence.keys) * width;
    for (std::int64_t i = 0; i < width; ++i) gradient.data()[i] += row[i];
  }
}

// One backward call after memory was reserved. Its methods run in the order they stand here, each
// taking the gradients that the one before left in scratch.
class BackwardCall {
 public:
  BackwardCall(const layer::LayerState& state, const LayerPlan& plan,
               const AttentionResult& forward, const GradientPlan& scratch, const Lease& lease,
               LayerGradients& gradients)
      : state_(state),
        plan_(plan),
        forward_(forward),
        saved_(*forward.saved),
        scratch_(scratch),
        lease_(lease),
        gradients_(gradients),
        query_(ops::rows_of(plan.inputs.query)) {}

  void through_output(const ops::ConstRows& d_output) const;
  void through_gate() const;
  void through_attention(const ops::AttentionBackward& pass,
                         const std::optional<ops::BiasGradient>& bias_pass) const;
  void through_norms() const;
  void through_query_projections() const;
  void through_key_projections() const;

 private:
  // A projection's tensors on one side of the call, and where their gradients go.
  struct KeySide {
    const ConstView& input;
    Tensor& input_gradient;
    float* projected_gradient;
    std::int64_t width;
    const Tensor& kernel;
    Tensor& kernel_gradient;
    Tensor& bias_gradient;
  };

  // dx = dy·kernelᵀ (or dx += …).
  void add_input_gradient(const ops::ConstRows& dy, const Tensor& kernel,
                          const ops::MutableRows& dx, bool accumulate) const;
  void set_weight_gradient(std::span<const ops::RowPair> pairs, Tensor& kernel, Tensor& bias) const;
  void set_weight_gradient(const ops::ConstRows& x, const ops::ConstRows& dy, Tensor& kernel,
                           Tensor& bias) const;
  void through_key_projection(const KeySide& side) const;
  [[nodiscard]] float* floats(std::size_t offset) const { return lease_.scratch<float>(offset); }
  // Rows that belong to the queries, cut into sequences as the query is.
  template <typename T>
  [[nodiscard]] ops::Rows<T> query_side(T* data, std::int64_t width) const {
    return ops::dense_rows(data, query_.outer, query_.inner, width);
  }

  const layer::LayerState& state_;
  const LayerPlan& plan_;
  const AttentionResult& forward_;
  const SavedForward& saved_;
  const GradientPlan& scratch_;
  const Lease& lease_;
  LayerGradients& gradients_;
  ops::ConstRows query_;
};

void BackwardCall::add_input_gradient(const ops::ConstRows& dy, const Tensor& kernel,
                                      const ops::MutableRows& dx, bool accumulate) const {
  const std::int64_t in = kernel.extent(0);
  const std::int64_t out = kernel.extent(1);
  const ops::PackedMatrix transposed =
      ops::pack(lease_, out, in, {kernel.data(), 1, out}, floats(scratch_.panels));
  ops::linear(lease_, {.x = dy, .w = transposed, .y = dx, .accumulate = accumulate});
}

void BackwardCall::set_weight_gradient(std::span<const ops::RowPair> pairs, Tensor& kernel,
                                       Tensor& bias) const {
  ops::linear_weight_gradient(lease_, {.pairs = pairs,
                                       .inputs = kernel.extent(0),
                                       .outputs = kernel.extent(1),
                                       .kernel_gradient = kernel.data(),
                                       .bias_gradient = layer::bias_data(bias),
                                       .worker_scratch = floats(scratch_.workers)});
}

void BackwardCall::set_weight_gradient(const ops::ConstRows& x, const ops::ConstRows& dy,
                                       Tensor& kernel, Tensor& bias) const {
  const ops::RowPair pair{x, dy};
  set_weight_gradient(std::span(&pair, 1), kernel, bias);
}

void BackwardCall::through_output(const ops::ConstRows& d_output) const {
  const std::int64_t width = plan_.widths.heads;
  add_input_gradient(d_output, state_.weights.output_kernel,
                     query_side(floats(scratch_.heads), width), false);
  const float* gated = saved_.heads.data();
  if (state_.config.use_gate) {
    ops::apply_gate(lease_, plan_.query_rows() * width, saved_.heads.data(), saved_.gate.data(),
                    floats(scratch_.gated));
    gated = floats(scratch_.gated);
  }
  set_weight_gradient(query_side(gated, width), d_output, gradients_.weights.output_kernel,
                      gradients_.weights.output_bias);
}

void BackwardCall::through_gate() const {
  if (!state_.config.use_gate) return;
  ops::gate_backward(lease_, plan_.query_rows() * plan_.widths.heads, saved_.heads.data(),
                     saved_.gate.data(), floats(scratch_.heads), floats(scratch_.gate));
}

void BackwardCall::through_attention(const ops::AttentionBackward& pass,
                                     const std::optional<ops::BiasGradient>& bias_pass) const {
  const layer::Widths& widths = plan_.widths;
  float* d_query = floats(scratch_.query);
  float* d_key = floats(scratch_.key);
  float* d_value = floats(scratch_.value);
  std::fill_n(d_query, plan_.query_rows() * widths.query, 0.0F);
  const ops::BackwardBuffers buffers{
      .query = plan_.query_heads(saved_.query.data(), widths.query),
      .key = plan_.key_heads(saved_.key.data(), widths.key),
      .value = plan_.key_heads(saved_.value.data(), widths.value),
      .output = plan_.query_heads(saved_.heads.data(), widths.heads),
      .row_reference = forward_.row_reference.data(),
      .row_sum = forward_.row_sum.data(),
      .output_gradient = plan_.query_heads<const float>(floats(scratch_.heads), widths.heads),
      .query_gradient = plan_.query_heads(d_query, widths.query),
      .key_gradient = plan_.key_heads(d_key, widths.key),
      .value_gradient = plan_.key_heads(d_value, widths.value)};
  pass.run(lease_, buffers);
  if (bias_pass) bias_pass->run(lease_, buffers, pass.delta(lease_), gradients_.bias);
  add_extra_gradient(plan_, d_key, widths.key, gradients_.weights.extra_key);
  add_extra_gradient(plan_, d_value, widths.value, gradients_.weights.extra_value);
}

void BackwardCall::through_norms() const {
  if (!state_.normalises()) return;
  const std::int64_t width = plan_.widths.query;
  float* d_key = floats(scratch_.key);
  ops::normalise_heads_backward(
      state_.norm(state_.weights.query_norm), query_side(saved_.query_raw.data(), width),
      query_side(floats(scratch_.query), width), gradients_.weights.query_norm.data());
  plan_.for_each_key_piece(ops::rows_of(plan_.inputs.key), d_key, plan_.widths.key,
                           [&](const ops::ConstRows&, const ops::MutableRows& gradient) {
                             ops::ConstRows raw = gradient;
                             raw.data = saved_.key_raw.data() + (gradient.data - d_key);
                             ops::normalise_heads_backward(state_.norm(state_.weights.key_norm),
                                                           raw, gradient,
                                                           gradients_.weights.key_norm.data());
                           });
}

void BackwardCall::through_query_projections() const {
  const ops::MutableRows d_input = ops::rows_of(gradients_.query.view());
  const auto d_query = query_side<const float>(floats(scratch_.query), plan_.widths.query);
  add_input_gradient(d_query, state_.weights.query_kernel, d_input, false);
  set_weight_gradient(query_, d_query, gradients_.weights.query_kernel,
                      gradients_.weights.query_bias);
  if (!state_.config.use_gate) return;
  const auto d_gate = query_side<const float>(floats(scratch_.gate), plan_.widths.heads);
  add_input_gradient(d_gate, state_.weights.gate_kernel, d_input, true);
  set_weight_gradient(query_, d_gate, gradients_.weights.gate_kernel, gradients_.weights.gate_bias);
}

void BackwardCall::through_key_projections() const {
  const AttentionWeights& w = state_.weights;
  AttentionWeights& d = gradients_.weights;
  through_key_projection({plan_.inputs.key, gradients_.key, floats(scratch_.key), plan_.widths.key,
                          w.key_kernel, d.key_kernel, d.key_bias});
  through_key_projection({plan_.inputs.value, gradients_.value, floats(scratch_.value),
                          plan_.widths.value, w.value_kernel, d.value_kernel, d.value_bias});
}

void BackwardCall::through_key_projection(const KeySide& side) const {
  auto* pairs = lease_.scratch<ops::RowPair>(scratch_.pairs);
  std::size_t count = 0;
  plan_.for_each_key_piece(ops::rows_of(side.input), side.projected_gradient, side.width,
                           [&](const ops::ConstRows& x, const ops::MutableRows& dy) {
                             new (pairs + count++) ops::RowPair{x, dy};
                           });
  set_weight_gradient(std::span(pairs, count), side.kernel_gradient, side.bias_gradient);
  plan_.for_each_key_piece(ops::rows_of(side.input_gradient.view()), side.projected_gradient,
                           side.width, [&](const ops::MutableRows& dx, const ops::MutableRows& dy) {
                             add_input_gradient(dy, side.kernel, dx, false);
                           });
}

AttentionWeights zero_weights(const AttentionConfig& config, const Lease& lease) {
  AttentionWeights weights;
  for (const WeightField& field : weight_fields()) {
    if (field.present(config)) weights.*field.tensor = lease.zeros(field.flat_shape(config));
  }
  return weights;
}

}  // namespace

LayerGradients MultiHeadAttention::backward(const AttentionInputs& inputs,
                                            const AttentionResult& forward,
                                            const ConstView& output_gradient,
                                            const ForwardOptions& options,
                                            const BackwardOptions& backward) const {
  constexpr const char* kFunction = "MultiHeadAttention::backward";
  layer::require_layer(kFunction, state_.get());
  const AttentionConfig& config = state_->config;
  const LayerPlan plan(kFunction, config, inputs, options);
  check_saved(kFunction, *state_, plan, forward);
  if (output_gradient.shape() != plan.output_shape) {
    base::fail(kFunction, "output_gradient", "shape " + plan.output_shape.to_string(),
               output_gradient.shape().to_string());
  }

  Lease lease(kFunction, options.context);
  runtime::ScratchPlan scratch;
  const GradientPlan gradient_plan(plan, config, lease.threads(), scratch);
  const ops::AttentionBackward attention(plan.attention, lease, scratch);
  LayerGradients gradients{lease.zeros(plan.inputs.query.shape()),
                           lease.zeros(plan.inputs.key.shape()),
                           lease.zeros(plan.inputs.value.shape()),
                           zero_weights(config, lease),
                           {}};
  std::optional<ops::BiasGradient> bias_pass;
  if (backward.bias_gradient) {
    bias_pass.emplace(plan.attention, options.bias, lease, scratch);
    gradients.bias = bias_pass->allocate(lease);
  }
  lease.reserve(scratch, 2.5 * plan.attention.flops() + 2.0 * plan.projection_flops(config));

  const BackwardCall call(*state_, plan, forward, gradient_plan, lease, gradients);
  call.through_output(ops::rows_of(output_gradient));
  call.through_gate();
  call.through_attention(attention, bias_pass);
  call.through_norms();
  call.through_query_projections();
  call.through_key_projections();
  return gradients;
}

}  // namespace headwise
