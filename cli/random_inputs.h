// Random inputs of a layer's three feature sizes, to compare layers on.
#pragma once

#include <cstdint>

#include "headwise/layer.h"

namespace headwise::cli {

struct RandomInputs {
  explicit RandomInputs(const AttentionConfig& config)
      : query(Tensor::normal({kBatch, kTokens, config.query_features}, 1)),
        key(Tensor::normal({kBatch, kTokens, config.key_inputs()}, 2)),
        value(Tensor::normal({kBatch, kTokens, config.value_inputs()}, 3)) {}

  [[nodiscard]] AttentionInputs views() const { return {query, key, value}; }

  static constexpr std::int64_t kBatch = 2;
  static constexpr std::int64_t kTokens = 16;
  Tensor query;
  Tensor key;
  Tensor value;
};

}  // namespace headwise::cli
