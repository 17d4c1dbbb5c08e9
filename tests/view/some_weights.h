// Attention weights to draw.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headwise/tensor.h"
#include "support/dice.h"

namespace headwise::test_view {

// Rows of a softmax of random scores: causal ones hold exact zeros.
inline Tensor random_weights(std::int64_t heads, std::int64_t queries, std::int64_t keys,
                             std::uint64_t seed, bool causal = false) {
  test_support::Dice dice(seed);
  Tensor weights({heads, queries, keys});
  const MutableView view = weights;
  std::vector<double> row(static_cast<std::size_t>(keys));
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t query = 0; query < queries; ++query) {
      double sum = 0.0;
      for (std::int64_t key = 0; key < keys; ++key) {
        const bool kept = !causal || key <= query;
        double& weight = row[static_cast<std::size_t>(key)];
        weight = kept ? std::exp(static_cast<double>(dice.normal(2.0F))) : 0.0;
        sum += weight;
      }
      for (std::int64_t key = 0; key < keys; ++key) {
        view(head, query, key) = static_cast<float>(row[static_cast<std::size_t>(key)] / sum);
      }
    }
  }
  return weights;
}

inline std::vector<std::string> numbered_tokens(const std::string& name, std::int64_t count) {
  std::vector<std::string> tokens;
  for (std::int64_t i = 0; i < count; ++i) tokens.push_back(name + std::to_string(i));
  return tokens;
}

}  // namespace headwise::test_view
