// Heads with known products, and slow and obvious answers: full matrices in float64.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "headwise/headwise.h"
#include "headwise/spectra.h"
#include "support/dice.h"

namespace headwise::test_support {

// Random in every tensor, biases too: zeros would hide a forgotten term.
inline LayerParts random_layer(const AttentionConfig& config, std::uint64_t seed = 5) {
  LayerParts layer{config, AttentionWeights::glorot(config, seed)};
  for (const WeightField& field : weight_fields()) {
    Tensor& tensor = layer.weights.*field.tensor;
    if (!field.present(config) || tensor.rank() != 1) continue;
    tensor = Tensor::normal(tensor.shape(), ++seed * 1000, 0.5F);
  }
  return layer;
}

using Matrix = std::vector<std::vector<double>>;  // rows

inline Matrix matrix_of(const ConstView& view) {
  Matrix matrix(static_cast<std::size_t>(view.extent(0)));
  for (std::int64_t i = 0; i < view.extent(0); ++i) {
    for (std::int64_t j = 0; j < view.extent(1); ++j) {
      matrix[static_cast<std::size_t>(i)].push_back(static_cast<double>(view(i, j)));
    }
  }
  return matrix;
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// a·bᵀ
inline Matrix times_transposed(const Matrix& a, const Matrix& b) {
  Matrix product;
  for (const auto& row : a) {
    product.emplace_back();
    for (const auto& other : b) product.back().push_back(dot(row, other));
  }
  return product;
}

inline Matrix score_product(const LayerParts& layer, std::int64_t head) {
  const HeadViews views = head_views(layer.config, layer.weights, head);
  return times_transposed(matrix_of(views.query_kernel), matrix_of(views.key_kernel));
}
inline Matrix value_product(const LayerParts& layer, std::int64_t head) {
  const HeadViews views = head_views(layer.config, layer.weights, head);
  return times_transposed(matrix_of(views.value_kernel),
                          matrix_of(views.output_kernel.permuted({1, 0})));
}

inline double inner(const Matrix& a, const Matrix& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += dot(a[i], b[i]);
  return sum;
}
inline double norm(const Matrix& a) { return std::sqrt(inner(a, a)); }
inline double cosine(const Matrix& a, const Matrix& b) { return inner(a, b) / norm(a) / norm(b); }

// Of the whole matrix: rows are rotated against each other until all are orthogonal (Hestenes,
// 1958); their lengths are the singular values. Descending.
inline std::vector<double> singular_values_of(Matrix rows) {
  for (bool rotated = true; rotated;) {
    rotated = false;
    for (std::size_t p = 0; p < rows.size(); ++p) {
      for (std::size_t q = p + 1; q < rows.size(); ++q) {
        const double alpha = dot(rows[p], rows[p]);
        const double beta = dot(rows[q], rows[q]);
        const double gamma = dot(rows[p], rows[q]);
        if (std::abs(gamma) <= 1e-15 * std::sqrt(alpha * beta) || std::abs(gamma) < 1e-40) continue;
        rotated = true;
        const double zeta = (beta - alpha) / (2.0 * gamma);
        const double t = std::copysign(1.0, zeta) / (std::abs(zeta) + std::hypot(1.0, zeta));
        const double c = 1.0 / std::hypot(1.0, t);
        for (std::size_t i = 0; i < rows[p].size(); ++i) {
          const double x = rows[p][i];
          const double y = rows[q][i];
          rows[p][i] = c * (x - t * y);
          rows[q][i] = c * (y + t * x);
        }
      }
    }
  }
  std::vector<double> values;
  for (const auto& row : rows) values.push_back(std::sqrt(dot(row, row)));
  std::sort(values.begin(), values.end(), std::greater<>());
  return values;
}

// Sizes that have nothing to do with each other.
inline AttentionConfig any_config(Dice& dice) {
  AttentionConfig config;
  config.num_kv_heads = dice.between(1, 3);
  config.num_heads = *config.num_kv_heads * dice.between(1, 3);
  config.key_dim = dice.between(1, 9);
  if (dice.chance(0.7)) config.value_dim = dice.between(1, 9);
  config.query_features = dice.between(1, 14);
  if (dice.chance(0.7)) config.key_features = dice.between(1, 14);
  if (dice.chance(0.7)) config.value_features = dice.between(1, 14);
  if (dice.chance(0.7)) config.output_features = dice.between(1, 14);
  config.use_bias = dice.chance(0.6);
  if (dice.chance(0.3)) config.scale = 0.3F;
  return config;
}

}  // namespace headwise::test_support
