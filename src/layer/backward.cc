// One backward call: the forward's steps in reverse order.
#include <algorithm>
#include <optional>
#include <string>

#include "base/check.h"
#include "headwise/layer.h"
#include "kernels/gate/gate.h"
#include "layer/layer_state.h"
#include "ops/attention_backward.h"

namespace headwise {

namespace {

using layer::LayerPlan;
using Lease = runtime::Lease;

void check_saved(const char* function, const LayerPlan& plan, const AttentionResult& forward,
                 bool gates) {
  if (!forward.saved) {
    base::fail(function, "forward", "a result of forward with save_for_backward = true",
               "one without saved activations");
  }
  const SavedForward& saved = *forward.saved;
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
  check("values", saved.value, {plan.stored_keys(), plan.widths.value});
  if (gates) check("gate", saved.gate, {plan.query_rows(), plan.widths.heads});
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
        used(scratch.add<std::uint8_t>(std::max(plan.query_rows(), plan.stored_keys()))),
        workers(scratch.add<float>(threads * ops::linear_gradient_scratch(widest(plan, config)))) {}

  static std::int64_t widest(const LayerPlan& plan, const AttentionConfig& config) {
    const layer::Widths& w = plan.widths;
    return std::max({w.query, w.key, w.value, w.heads, config.outputs()});
  }
  // Transposed kernels are packed one at a time.
  static std::int64_t largest_kernel(const LayerPlan& plan, const AttentionConfig& config) {
    const layer::Widths& w = plan.widths;
    return std::max({kernels::packed_size(w.query, config.query_features),
                     kernels::packed_size(w.key, config.key_inputs()),
                     kernels::packed_size(w.value, config.value_inputs()),
                     kernels::packed_size(w.heads, config.query_features),
                     kernels::packed_size(config.outputs(), w.heads)});
  }

  std::size_t query, key, value, heads, gated, gate, panels, used, workers;
};

// The two sides of a projection's backward, with the scratch they share.
class Projections {
 public:
  Projections(const Lease& lease, const GradientPlan& plan) : lease_(lease), plan_(plan) {}

  // dx = dy·kernelᵀ (or dx += …).
  void input_gradient(const ops::ConstRows& dy, const Tensor& kernel, const ops::MutableRows& dx,
                      bool accumulate) const {
    const std::int64_t in = kernel.extent(0);
    const std::int64_t out = kernel.extent(1);
    const ops::PackedMatrix transposed =
        ops::pack(out, in, {kernel.data(), 1, out}, lease_.scratch<float>(plan_.panels));
    ops::linear(lease_, {.x = dy, .w = transposed, .y = dx, .accumulate = accumulate});
  }
  void weight_gradient(const ops::ConstRows& x, const ops::ConstRows& dy, Tensor& kernel,
                       Tensor& bias) const {
    ops::linear_weight_gradient(
        lease_, {.x = x,
                 .dy = dy,
                 .kernel_gradient = kernel.data(),
                 .bias_gradient = layer::bias_data(bias),
                 .used = lease_.scratch<std::uint8_t>(plan_.used),
                 .worker_scratch = lease_.scratch<float>(plan_.workers)});
  }

 private:
  const Lease& lease_;
  const GradientPlan& plan_;
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

}  // namespace

LayerGradients MultiHeadAttention::backward(const AttentionInputs& given,
                                            const AttentionResult& forward,
                                            const ConstView& output_gradient,
                                            const ForwardOptions& options,
                                            const BackwardOptions& backward) const {
  constexpr const char* kFunction = "MultiHeadAttention::backward";
  const AttentionConfig& config = state_->config;
  const AttentionWeights& w = state_->weights;
  const LayerPlan plan(kFunction, config, given, options);
  const layer::Widths& widths = plan.widths;
  check_saved(kFunction, plan, forward, config.use_gate);
  if (output_gradient.shape() != plan.output_shape) {
    base::fail(kFunction, "output_gradient", "shape " + plan.output_shape.to_string(),
               output_gradient.shape().to_string());
  }
  const SavedForward& saved = *forward.saved;

  Lease lease(kFunction, options.context);
  runtime::ScratchPlan scratch;
  const GradientPlan gradient_plan(plan, config, lease.threads(), scratch);
  const ops::AttentionBackward attention(plan.attention, scratch, lease.threads());
  LayerGradients gradients{Tensor(plan.inputs.query.shape()), Tensor(plan.inputs.key.shape()),
                           Tensor(plan.inputs.value.shape()), AttentionWeights::zeros(config), {}};
  std::optional<ops::BiasGradient> bias_pass;
  if (backward.bias_gradient) {
    bias_pass.emplace(plan.attention, options.bias, scratch, lease.threads());
    gradients.bias = bias_pass->allocate();
  }
  lease.reserve(scratch, 2.5 * plan.attention.flops() + 2.0 * plan.projection_flops(config));

  const Projections projections(lease, gradient_plan);
  const std::int64_t rows = plan.query_rows();
  const auto floats = [&](std::size_t offset) { return lease.scratch<float>(offset); };
  const ops::ConstRows query = ops::rows_of(plan.inputs.query);
  const auto query_side = [&](auto* data, std::int64_t width) {
    return ops::dense_rows(data, query.outer, query.inner, width);
  };

  // Output projection and gate.
  const ops::ConstRows d_output = ops::rows_of(output_gradient);
  float* d_heads = floats(gradient_plan.heads);
  projections.input_gradient(d_output, w.output_kernel, query_side(d_heads, widths.heads), false);
  const float* gated = saved.heads.data();
  if (config.use_gate) {
    kernels::apply_gate(rows * widths.heads, saved.heads.data(), saved.gate.data(),
                        floats(gradient_plan.gated));
    gated = floats(gradient_plan.gated);
  }
  projections.weight_gradient(query_side(gated, widths.heads), d_output,
                              gradients.weights.output_kernel, gradients.weights.output_bias);
  if (config.use_gate) {
    kernels::gate_backward(rows * widths.heads, saved.heads.data(), saved.gate.data(), d_heads,
                           floats(gradient_plan.gate));
  }

  // Attention.
  float* d_query = floats(gradient_plan.query);
  float* d_key = floats(gradient_plan.key);
  float* d_value = floats(gradient_plan.value);
  std::fill_n(d_query, rows * widths.query, 0.0F);
  std::fill_n(d_key, plan.stored_keys() * widths.key, 0.0F);
  std::fill_n(d_value, plan.stored_keys() * widths.value, 0.0F);
  const ops::BackwardBuffers buffers{
      .query = plan.query_heads(saved.query.data(), widths.query),
      .key = plan.key_heads(saved.key.data(), widths.key),
      .value = plan.key_heads(saved.value.data(), widths.value),
      .output = plan.query_heads(saved.heads.data(), widths.heads),
      .row_reference = forward.row_reference.data(),
      .row_sum = forward.row_sum.data(),
      .output_gradient = plan.query_heads<const float>(d_heads, widths.heads),
      .query_gradient = plan.query_heads(d_query, widths.query),
      .key_gradient = plan.key_heads(d_key, widths.key),
      .value_gradient = plan.key_heads(d_value, widths.value)};
  attention.run(lease, buffers);
  if (bias_pass) bias_pass->run(lease, buffers, attention.delta(lease), gradients.bias);
  add_extra_gradient(plan, d_key, widths.key, gradients.weights.extra_key);
  add_extra_gradient(plan, d_value, widths.value, gradients.weights.extra_value);

  // Normalisation and input projections.
  const ops::ConstRows key = ops::rows_of(plan.inputs.key);
  if (state_->normalises()) {
    ops::normalise_heads_backward(state_->norm(w.query_norm),
                                  query_side(saved.query_raw.data(), widths.query),
                                  query_side(d_query, widths.query),
                                  gradients.weights.query_norm.data());
    plan.for_each_key_piece(
        key, d_key, widths.key, [&](const ops::ConstRows&, const ops::MutableRows& gradient) {
          ops::ConstRows raw = gradient;
          raw.data = saved.key_raw.data() + (gradient.data - d_key);
          ops::normalise_heads_backward(state_->norm(w.key_norm), raw, gradient,
                                        gradients.weights.key_norm.data());
        });
  }
  const ops::MutableRows query_gradient = ops::rows_of(gradients.query.view());
  projections.input_gradient(query_side(d_query, widths.query), w.query_kernel, query_gradient,
                             false);
  projections.weight_gradient(query, query_side(d_query, widths.query),
                              gradients.weights.query_kernel, gradients.weights.query_bias);
  if (config.use_gate) {
    const float* d_gate = floats(gradient_plan.gate);
    projections.input_gradient(query_side(d_gate, widths.heads), w.gate_kernel, query_gradient,
                               true);
    projections.weight_gradient(query, query_side(d_gate, widths.heads),
                                gradients.weights.gate_kernel, gradients.weights.gate_bias);
  }
  const auto key_side = [&](const ConstView& input, Tensor& input_gradient, float* projected,
                            std::int64_t width, const Tensor& kernel, Tensor& kernel_gradient,
                            Tensor& bias_gradient) {
    plan.for_each_key_piece(ops::rows_of(input), projected, width,
                            [&](const ops::ConstRows& x, const ops::MutableRows& dy) {
                              projections.weight_gradient(x, dy, kernel_gradient, bias_gradient);
                            });
    plan.for_each_key_piece(ops::rows_of(input_gradient.view()), projected, width,
                            [&](const ops::MutableRows& dx, const ops::MutableRows& dy) {
                              projections.input_gradient(dy, kernel, dx, false);
                            });
  };
  key_side(plan.inputs.key, gradients.key, d_key, widths.key, w.key_kernel,
           gradients.weights.key_kernel, gradients.weights.key_bias);
  key_side(plan.inputs.value, gradients.value, d_value, widths.value, w.value_kernel,
           gradients.weights.value_kernel, gradients.weights.value_bias);
  return gradients;
}

}  // namespace headwise
