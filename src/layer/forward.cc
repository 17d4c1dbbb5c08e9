// One forward call: validate → plan → reserve → project → attend → gate → project.
#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "headwise/layer.h"
#include "layer/layer_state.h"
#include "ops/attention_forward.h"
#include "ops/attention_weights.h"
#include "ops/check_output.h"
#include "ops/gate.h"

namespace headwise {

namespace {

using layer::LayerPlan;
using runtime::Lease;

// Where the activations of a call live: in scratch, or in tensors if a backward is to follow.
struct Activations {
  float* query_raw = nullptr;
  float* key_raw = nullptr;
  float* query = nullptr;
  float* key = nullptr;
  float* value = nullptr;
  float* heads = nullptr;
  float* gate = nullptr;
  float* gated = nullptr;  // the heads themselves without a gate
};

struct ActivationPlan {
  ActivationPlan(const LayerPlan& plan, const AttentionConfig& config, bool save,
                 const Lease& lease, runtime::ScratchPlan& scratch);
  [[nodiscard]] Activations activations(const Lease& lease) const;

  std::shared_ptr<SavedForward> saved;
  bool normalises, gates;
  std::size_t query = 0, key = 0, value = 0, heads = 0, gate = 0, gated = 0;
};

ActivationPlan::ActivationPlan(const LayerPlan& plan, const AttentionConfig& config, bool save,
                               const Lease& lease, runtime::ScratchPlan& scratch)
    : normalises(config.qk_norm != QkNorm::None), gates(config.use_gate) {
  const std::int64_t rows = plan.query_rows();
  const std::int64_t keys = plan.stored_keys();
  const layer::Widths& widths = plan.widths;
  if (gates) gated = scratch.add<float>(rows * widths.heads);
  if (!save) {
    query = scratch.add<float>(rows * widths.query);
    key = scratch.add<float>(keys * widths.key);
    value = scratch.add<float>(keys * widths.value);
    heads = scratch.add<float>(rows * widths.heads);
    if (gates) gate = scratch.add<float>(rows * widths.heads);
    return;
  }
  saved = std::make_shared<SavedForward>();
  if (normalises) {
    saved->query_raw = lease.zeros({rows, widths.query});
    saved->key_raw = lease.zeros({keys, widths.key});
  }
  saved->query = lease.zeros({rows, widths.query});
  saved->key = lease.zeros({keys, widths.key});
  saved->value = lease.zeros({keys, widths.value});
  saved->heads = lease.zeros({rows, widths.heads});
  if (gates) saved->gate = lease.zeros({rows, widths.heads});
}

Activations ActivationPlan::activations(const Lease& lease) const {
  const auto floats = [&](std::size_t offset) { return lease.scratch<float>(offset); };
  Activations a;
  a.query = saved ? saved->query.data() : floats(query);
  a.key = saved ? saved->key.data() : floats(key);
  a.value = saved ? saved->value.data() : floats(value);
  a.heads = saved ? saved->heads.data() : floats(heads);
  a.query_raw = saved && normalises ? saved->query_raw.data() : a.query;  // else in place
  a.key_raw = saved && normalises ? saved->key_raw.data() : a.key;
  if (gates) a.gate = saved ? saved->gate.data() : floats(gate);
  a.gated = gates ? floats(gated) : a.heads;
  return a;
}

// Keys and values behind each sequence's own: the learned pair, then the pair of zeros.
void fill_extra_keys(const LayerPlan& plan, const AttentionWeights& weights, const Activations& a) {
  const auto& shape = plan.attention.shape;
  if (shape.tail == 0) return;
  const auto fill = [&](float* stored, std::int64_t width, const Tensor& extra) {
    for (std::int64_t b = 0; b < shape.batch(); ++b) {
      const auto& sequence = shape.sequences[static_cast<std::size_t>(b)];
      const std::int64_t begin = shape.packed ? sequence.key_begin : b * plan.attention.dims.keys;
      float* row = stored + (begin + sequence.keys) * width;
      std::fill_n(row, shape.tail * width, 0.0F);
      if (extra.size() != 0) std::copy_n(extra.data(), width, row);
    }
  };
  fill(a.key, plan.widths.key, weights.extra_key);
  fill(a.value, plan.widths.value, weights.extra_value);
}

// y = x · kernel + bias, with the kernel's packed form.
ops::LinearCall projection(const ops::ConstRows& x, const Tensor& kernel, const Tensor& panels,
                           const Tensor& bias, const ops::MutableRows& y) {
  return {.x = x,
          .w = {kernel.extent(0), kernel.extent(1), panels.data()},
          .bias = layer::bias_data(bias),
          .y = y};
}

void project_inputs(const Lease& lease, const LayerPlan& plan, const layer::LayerState& state,
                    const Activations& a) {
  const AttentionWeights& w = state.weights;
  const layer::Widths& widths = plan.widths;
  const ops::ConstRows query = ops::rows_of(plan.inputs.query);
  const auto query_side = [&](float* data, std::int64_t width) {
    return ops::dense_rows(data, query.outer, query.inner, width);
  };
  // All projections of a call at once, or all but the keys' and values' of a packed batch with
  // extra keys, whose sequences are projected one by one.
  ops::LinearCall calls[4];
  std::size_t count = 0;
  const auto add = [&](const ops::LinearCall& call) {
    if (count == std::size(calls)) {
      ops::linear(lease, std::span(calls, count));
      count = 0;
    }
    calls[count++] = call;
  };
  add(projection(query, w.query_kernel, state.query_panels, w.query_bias,
                 query_side(a.query_raw, widths.query)));
  if (state.config.use_gate) {
    add(projection(query, w.gate_kernel, state.gate_panels, w.gate_bias,
                   query_side(a.gate, widths.heads)));
  }
  plan.for_each_key_piece(ops::rows_of(plan.inputs.key), a.key_raw, widths.key,
                          [&](const ops::ConstRows& in, const ops::MutableRows& out) {
                            add(projection(in, w.key_kernel, state.key_panels, w.key_bias, out));
                          });
  plan.for_each_key_piece(
      ops::rows_of(plan.inputs.value), a.value, widths.value,
      [&](const ops::ConstRows& in, const ops::MutableRows& out) {
        add(projection(in, w.value_kernel, state.value_panels, w.value_bias, out));
      });
  ops::linear(lease, std::span(calls, count));
  if (state.normalises()) {
    ops::normalise_heads(lease, state.norm(w.query_norm), query_side(a.query_raw, widths.query),
                         query_side(a.query, widths.query));
    plan.for_each_key_piece(ops::rows_of(plan.inputs.key), a.key_raw, widths.key,
                            [&](const ops::ConstRows&, const ops::MutableRows& raw) {
                              ops::MutableRows normalised = raw;
                              normalised.data = a.key + (raw.data - a.key_raw);
                              ops::normalise_heads(lease, state.norm(w.key_norm), raw, normalised);
                            });
  }
  fill_extra_keys(plan, w, a);
  if (state.config.use_gate) {
    ops::sigmoid(lease, plan.query_rows() * widths.heads, a.gate);
  }
}

}  // namespace

AttentionResult MultiHeadAttention::forward(const AttentionInputs& inputs,
                                            const ForwardOptions& options) const {
  constexpr const char* kFunction = "MultiHeadAttention::forward";
  layer::require_layer(kFunction, state_.get());
  const AttentionConfig& config = state_->config;
  const LayerPlan plan(kFunction, config, inputs, options);
  ops::check_output(kFunction, options.out, plan.output_shape,
                    {plan.inputs, options.mask, options.bias});

  Lease lease(kFunction, options.context);
  runtime::ScratchPlan scratch;
  const ActivationPlan activation_plan(plan, config, options.save_for_backward, lease, scratch);
  const ops::AttentionForward attention(plan.attention, lease, scratch);
  const ops::AttentionWeightsPass weights(kFunction, plan.attention, options.weights, lease,
                                          scratch);
  AttentionResult result = ops::allocate_result(plan.attention, lease);
  if (!options.out.present()) result.output = lease.zeros(plan.output_shape);
  weights.allocate(lease, result);
  lease.reserve(scratch, plan.attention.flops() + plan.projection_flops(config));

  const Activations a = activation_plan.activations(lease);
  project_inputs(lease, plan, *state_, a);
  const ops::AttentionBuffers buffers{plan.query_heads<const float>(a.query, plan.widths.query),
                                      plan.key_heads<const float>(a.key, plan.widths.key),
                                      plan.key_heads<const float>(a.value, plan.widths.value),
                                      plan.query_heads(a.heads, plan.widths.heads),
                                      result.row_reference.data(),
                                      result.row_sum.data()};
  attention.run(lease, buffers);
  ops::fill_log_sum_exp(lease, result);
  weights.run(lease, buffers, result);
  if (config.use_gate) {
    ops::apply_gate(lease, plan.query_rows() * plan.widths.heads, a.heads, a.gate, a.gated);
  }
  const ops::MutableRows out =
      ops::rows_of(options.out.present() ? options.out : result.output.view());
  const AttentionWeights& w = state_->weights;
  ops::linear(lease, projection(ops::dense_rows<const float>(a.gated, out.outer, out.inner,
                                                             plan.widths.heads),
                                w.output_kernel, state_->output_panels, w.output_bias, out));
  if (activation_plan.saved) {
    activation_plan.saved->layer = state_.get();
    activation_plan.saved->dropout = plan.attention.dropout;
    activation_plan.saved->dropout_seed = plan.attention.dropout_seed;
  }
  result.saved = activation_plan.saved;
  return result;
}

}  // namespace headwise
