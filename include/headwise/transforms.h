// What the factorisation of a head allows, exactly: without biases and normalisation, its scores
// depend on W_q·W_kᵀ alone.
#pragma once

#include <cstdint>

#include "headwise/config.h"
#include "headwise/tensor.h"
#include "headwise/weights.h"

namespace headwise {

struct LayerParts {
  AttentionConfig config;
  AttentionWeights weights;
};

enum class Projection { Query, Key, Value };

// The layer that gives for x what the old one gives for x·map + shift:
//
//   W' = map·W      b' = shift·W + b
//
// `map` is (new features, old features); `shift` (old features) may be left out, and needs a layer
// with biases. Folding into the query folds into the gate as well, which reads the same input.
LayerParts fold(const LayerParts& layer, Projection projection, const ConstView& map,
                const ConstView& shift = {});

struct MergedScores {
  Tensor matrix;          // W_q·W_kᵀ of the head, (Dq, Dk)
  std::int64_t rank = 0;  // numerical; at most key_dim
};
// Not for layers with qk_norm.
MergedScores merged_scores(const LayerParts& layer, std::int64_t head);

// A query projection that meets the raw key inputs: query' = query·kernel + bias, seen as
// (…, Hq, Dk), has with `key` itself the scores that the projected pair had, up to a number per
// row that softmax does not see. Not for layers with softcap, qk_norm or extra keys.
struct AbsorbedKey {
  Tensor query_kernel;  // (Dq, Hq·Dk)
  Tensor query_bias;    // (Hq·Dk); empty without biases
  float scale = 1.0F;   // to pass to attention()
};
AbsorbedKey absorb_key(const LayerParts& layer);

}  // namespace headwise
