// Which keys each query attends, as text: one string a query, 'x' attended and '.' not.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/tensor.h"

namespace headwise::test_support {

using Rows = std::vector<std::string>;

// Of one (T,S) matrix of attention weights. '?' is what neither may be: negative or not a number.
// Every row must sum to 1, or be entirely 0.
inline Rows attended_rows(const ConstView& weights) {
  Rows rows;
  for (std::int64_t t = 0; t < weights.extent(0); ++t) {
    std::string row;
    double sum = 0.0;
    for (std::int64_t s = 0; s < weights.extent(1); ++s) {
      const float w = weights(t, s);
      row += w > 0.0F ? 'x' : w == 0.0F ? '.' : '?';
      sum += static_cast<double>(w);
    }
    const bool attends = row.find('x') != std::string::npos;
    EXPECT_NEAR(sum, attends ? 1.0 : 0.0, 1e-5) << "row " << t << ": " << row;
    rows.push_back(row);
  }
  return rows;
}

struct PatternSizes {
  std::int64_t queries = 4;
  std::int64_t keys = 4;
  std::int64_t batch = 1;
  std::int64_t heads = 1;
};

// The weights (B,H,T,S) of small random heads under these options.
inline Tensor small_weights(const PatternSizes& n, AttentionOptions options) {
  options.weights = all_weights();
  return attention(Tensor::normal({n.batch, n.queries, n.heads, 3}, 1),
                   Tensor::normal({n.batch, n.keys, n.heads, 3}, 2),
                   Tensor::normal({n.batch, n.keys, n.heads, 2}, 3), options)
      .weights;
}

inline Rows pattern(const Mask& mask, const PatternSizes& n = {}, std::int64_t b = 0,
                    std::int64_t h = 0) {
  const Tensor weights = small_weights(n, {.mask = mask});
  return attended_rows(weights.view().at(0, b).at(0, h));
}

}  // namespace headwise::test_support
