#include "headwise/layer.h"

#include <utility>

#include "layer/layer_state.h"

namespace headwise {

namespace {

Tensor packed_panels(const runtime::Lease& lease, const Tensor& kernel) {
  if (kernel.size() == 0) return {};
  const std::int64_t depth = kernel.extent(0);
  const std::int64_t columns = kernel.extent(1);
  Tensor panels(Shape{kernels::packed_size(depth, columns)});
  (void)ops::pack(lease, depth, columns, {kernel.data(), columns, 1}, panels.data());
  return panels;
}

}  // namespace

MultiHeadAttention::MultiHeadAttention(const AttentionConfig& config, AttentionWeights weights) {
  validate(config);
  validate(config, weights);
  auto state = std::make_unique<layer::LayerState>();
  state->config = config;
  state->weights = std::move(weights);
  Context context(1);
  const runtime::Lease lease("MultiHeadAttention", &context);
  state->query_panels = packed_panels(lease, state->weights.query_kernel);
  state->key_panels = packed_panels(lease, state->weights.key_kernel);
  state->value_panels = packed_panels(lease, state->weights.value_kernel);
  state->gate_panels = packed_panels(lease, state->weights.gate_kernel);
  state->output_panels = packed_panels(lease, state->weights.output_kernel);
  state_ = std::move(state);
}

MultiHeadAttention::~MultiHeadAttention() = default;
MultiHeadAttention::MultiHeadAttention(MultiHeadAttention&&) noexcept = default;
MultiHeadAttention& MultiHeadAttention::operator=(MultiHeadAttention&&) noexcept = default;

const AttentionConfig& MultiHeadAttention::config() const noexcept { return state_->config; }
const AttentionWeights& MultiHeadAttention::weights() const noexcept { return state_->weights; }

}  // namespace headwise
