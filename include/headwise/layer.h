// The layer: projections, attention, output projection.
//
//   Q = query·Wq + bq   K = key·Wk + bk   V = value·Wv + bv
//   output = concat(attention of every head [⊙ gate]) · Wo + bo
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/attention.h"
#include "headwise/config.h"
#include "headwise/weights.h"

namespace headwise {

namespace layer {
struct LayerState;
}

struct ForwardOptions {
  Mask mask = {};
  std::vector<Bias> bias = {};
  WeightsRequest weights = {};
  bool training = false;                           // dropout on
  std::optional<std::uint64_t> dropout_seed = {};  // the configuration's; change it every step
  std::vector<std::int64_t> sequence_ids = {};     // for dropout; empty: 0, 1, 2, …
  bool save_for_backward = false;                  // fills AttentionResult::saved
  std::optional<PackedLengths> packed = {};        // inputs are (total, features) then
  MutableView out = {};                            // the caller's output buffer, any strides
  Context* context = nullptr;
};

struct LayerGradients {
  Tensor query;  // of the three inputs; add them up where the same tensor was passed twice
  Tensor key;
  Tensor value;
  AttentionWeights weights;
  std::vector<Tensor> bias;  // one for each of options.bias, if asked for
};

// Immutable: any number of threads may call forward and backward of one layer at the same time.
class MultiHeadAttention {
 public:
  MultiHeadAttention(const AttentionConfig& config, AttentionWeights weights);
  ~MultiHeadAttention();
  MultiHeadAttention(MultiHeadAttention&&) noexcept;
  MultiHeadAttention& operator=(MultiHeadAttention&&) noexcept;
  MultiHeadAttention(const MultiHeadAttention&) = delete;
  MultiHeadAttention& operator=(const MultiHeadAttention&) = delete;

  [[nodiscard]] const AttentionConfig& config() const noexcept;
  [[nodiscard]] const AttentionWeights& weights() const noexcept;

  // query (B,T,Dq), key (B,S,Dk), value (B,S,Dv) → output (B,T,Do); without B for one sequence.
  [[nodiscard]] AttentionResult forward(const AttentionInputs& inputs,
                                        const ForwardOptions& options = {}) const;

  // Gradients for a forward with save_for_backward; inputs and options as they were then.
  [[nodiscard]] LayerGradients backward(const AttentionInputs& inputs,
                                        const AttentionResult& forward,
                                        const ConstView& output_gradient,
                                        const ForwardOptions& options = {},
                                        const BackwardOptions& backward = {}) const;

 private:
  std::unique_ptr<const layer::LayerState> state_;
};

}  // namespace headwise
