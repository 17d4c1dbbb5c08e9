#include "headwise/transforms.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "headwise/linear.h"

namespace headwise {

namespace {

void check_layer(const LayerParts& layer) {
  validate(layer.config);
  validate(layer.config, layer.weights);
}

// kernel → map·kernel, bias → shift·kernel + bias.
void fold_into(const ConstView& map, const ConstView& shift, Tensor& kernel, Tensor& bias) {
  if (shift.present()) {
    const Tensor row = linear(shift, kernel, bias);
    bias = row;
  }
  kernel = linear(map, kernel);
}

// Rank of the product of two factors a (m × k) and b (n × k) as a·bᵀ, in float64 and without
// forming it: Gram–Schmidt with pivoting on the columns of a gives a = q·r, and the rank is that of
// r·bᵀ.
using Columns = std::vector<std::vector<double>>;

Columns columns_of(const ConstView& matrix) {
  Columns columns(static_cast<std::size_t>(matrix.extent(1)));
  for (std::int64_t j = 0; j < matrix.extent(1); ++j) {
    for (std::int64_t i = 0; i < matrix.extent(0); ++i) {
      columns[static_cast<std::size_t>(j)].push_back(static_cast<double>(matrix(i, j)));
    }
  }
  return columns;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Orthonormal vectors that span the columns; each step takes the longest column that is left.
Columns orthonormal_basis(Columns columns, double relative_tolerance) {
  Columns basis;
  double largest = 0.0;
  while (!columns.empty()) {
    const auto longest =
        std::max_element(columns.begin(), columns.end(),
                         [](const auto& a, const auto& b) { return dot(a, a) < dot(b, b); });
    const double length = std::sqrt(dot(*longest, *longest));
    largest = std::max(largest, length);
    if (!(length > largest * relative_tolerance)) break;
    std::vector<double> direction = std::move(*longest);
    columns.erase(longest);
    for (double& x : direction) x /= length;
    for (auto& column : columns) {
      for (int pass = 0; pass < 2; ++pass) {  // the second pass removes what rounding left over
        const double along = dot(column, direction);
        for (std::size_t i = 0; i < column.size(); ++i) column[i] -= along * direction[i];
      }
    }
    basis.push_back(std::move(direction));
  }
  return basis;
}

std::int64_t rank_of_product(const ConstView& a, const ConstView& b) {
  // The factors are float32: what is below their rounding is not rank.
  const double tolerance = static_cast<double>(std::max(a.extent(0), b.extent(0))) * 0x1p-24;
  const Columns a_columns = columns_of(a);
  const Columns b_columns = columns_of(b);
  const Columns basis = orthonormal_basis(a_columns, tolerance);
  Columns projected;  // rows of r·bᵀ
  for (const auto& direction : basis) {
    std::vector<double> row(static_cast<std::size_t>(b.extent(0)), 0.0);
    for (std::size_t j = 0; j < a_columns.size(); ++j) {
      const double r = dot(direction, a_columns[j]);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] += r * b_columns[j][i];
    }
    projected.push_back(std::move(row));
  }
  return static_cast<std::int64_t>(orthonormal_basis(std::move(projected), tolerance).size());
}

}  // namespace

LayerParts fold(const LayerParts& layer, Projection projection, const ConstView& map,
                const ConstView& shift) {
  check_layer(layer);
  const AttentionConfig& old = layer.config;
  const std::int64_t features = projection == Projection::Query ? old.query_features
                                : projection == Projection::Key ? old.key_inputs()
                                                                : old.value_inputs();
  if (map.rank() != 2 || map.extent(0) < 1 || map.extent(1) != features) {
    base::fail("fold", "map", "shape (new features, " + std::to_string(features) + ")",
               map.shape().to_string());
  }
  if (shift.present() && shift.shape() != Shape{features}) {
    base::fail("fold", "shift", "shape " + Shape{features}.to_string(), shift.shape().to_string());
  }
  if (shift.present() && !old.use_bias) {
    base::fail("fold", "shift", "none for a layer without biases", shift.shape().to_string());
  }
  LayerParts folded = layer;
  // Sizes that followed from the one that changes are now said out loud.
  folded.config.key_features = old.key_inputs();
  folded.config.value_features = old.value_inputs();
  folded.config.output_features = old.outputs();
  AttentionWeights& w = folded.weights;
  switch (projection) {
    case Projection::Query:
      folded.config.query_features = map.extent(0);
      fold_into(map, shift, w.query_kernel, w.query_bias);
      if (old.use_gate) fold_into(map, shift, w.gate_kernel, w.gate_bias);
      break;
    case Projection::Key:
      folded.config.key_features = map.extent(0);
      fold_into(map, shift, w.key_kernel, w.key_bias);
      break;
    case Projection::Value:
      folded.config.value_features = map.extent(0);
      fold_into(map, shift, w.value_kernel, w.value_bias);
      break;
  }
  return folded;
}

MergedScores merged_scores(const LayerParts& layer, std::int64_t head) {
  check_layer(layer);
  if (head < 0 || head >= layer.config.num_heads) {
    base::fail("merged_scores", "head", "0 … " + std::to_string(layer.config.num_heads - 1),
               std::to_string(head));
  }
  if (layer.config.qk_norm != QkNorm::None) {
    base::fail("merged_scores", "layer", "a layer without qk_norm, which is not linear", "qk_norm");
  }
  const HeadViews views = head_views(layer.config, layer.weights, head);
  return {linear(views.query_kernel, views.key_kernel.permuted({1, 0})),
          rank_of_product(views.query_kernel, views.key_kernel)};
}

AbsorbedKey absorb_key(const LayerParts& layer) {
  check_layer(layer);
  const AttentionConfig& config = layer.config;
  if (config.softcap || config.qk_norm != QkNorm::None || config.extra_keys() > 0) {
    base::fail("absorb_key", "layer", "a layer without softcap, qk_norm and extra keys",
               config.softcap                   ? "softcap"
               : config.qk_norm != QkNorm::None ? "qk_norm"
                                                : "extra keys");
  }
  const std::int64_t inputs = config.key_inputs();
  AbsorbedKey absorbed{Tensor({config.query_features, config.num_heads * inputs}),
                       config.use_bias ? Tensor({config.num_heads * inputs}) : Tensor(),
                       config.score_scale()};
  for (std::int64_t head = 0; head < config.num_heads; ++head) {
    const HeadViews views = head_views(config, layer.weights, head);
    const ConstView to_inputs = views.key_kernel.permuted({1, 0});  // (dk, Dk)
    const Tensor kernel = linear(views.query_kernel, to_inputs);
    const auto columns = absorbed.query_kernel.view().sliced(1, head * inputs, (head + 1) * inputs);
    for (std::int64_t i = 0; i < config.query_features; ++i) {
      for (std::int64_t j = 0; j < inputs; ++j) columns(i, j) = kernel.view()(i, j);
    }
    if (!config.use_bias) continue;
    const ConstView bias = layer.weights.query_bias.view().sliced(0, head * config.key_dim,
                                                                  (head + 1) * config.key_dim);
    const Tensor absorbed_bias = linear(bias, to_inputs);
    std::copy_n(absorbed_bias.data(), inputs, absorbed.query_bias.data() + head * inputs);
  }
  return absorbed;
}

}  // namespace headwise
