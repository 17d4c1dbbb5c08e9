// What a layer owns, and what one call of it computes on the way.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "headwise/layer.h"
#include "kernels/norm/norm.h"
#include "layer/layer_plan.h"
#include "ops/head_norm.h"
#include "ops/linear.h"
#include "runtime/context_state.h"

namespace headwise {

// A forward's activations, kept for its backward.
struct SavedForward {
  const void* layer = nullptr;  // whose forward it was
  float dropout = 0.0F;
  std::uint64_t dropout_seed = 0;
  Tensor query_raw;  // before normalisation; empty without it
  Tensor key_raw;
  Tensor query;  // projected rows; keys and values with the extra ones
  Tensor key;
  Tensor value;
  Tensor heads;  // before the gate
  Tensor gate;
};

namespace layer {

struct LayerState {
  AttentionConfig config;
  AttentionWeights weights;
  Tensor query_panels, key_panels, value_panels, gate_panels, output_panels;  // packed kernels

  [[nodiscard]] bool normalises() const { return config.qk_norm != QkNorm::None; }
  [[nodiscard]] ops::HeadNorm norm(const Tensor& scale) const {
    return {{config.qk_norm == QkNorm::LayerNorm, config.qk_norm_epsilon},
            config.key_dim,
            scale.data()};
  }
};

// Throws ArgumentError for a layer that was moved from.
inline void require_layer(const char* function, const LayerState* state) {
  if (state == nullptr) base::fail(function, "layer", "a layer", "one that was moved from");
}

// Null where a layer has no such bias.
inline const float* bias_data(const Tensor& bias) {
  return bias.size() == 0 ? nullptr : bias.data();
}
inline float* bias_data(Tensor& bias) { return bias.size() == 0 ? nullptr : bias.data(); }

}  // namespace layer
}  // namespace headwise
