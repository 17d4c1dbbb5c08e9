#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/spectra_svd.h"
#include "base/check.h"
#include "headwise/spectra.h"

namespace headwise {

namespace {

using analyze::ProductSvd;
using Eigen::Index;
using Eigen::MatrixXd;

void check_arguments(const LayerParts& layer, std::int64_t key_dim) {
  validate(layer.config);
  validate(layer.config, layer.weights);
  if (layer.config.qk_norm != QkNorm::None) {
    base::fail("refactor_key_dim", "layer", "a layer without qk_norm, which is not linear",
               "qk_norm");
  }
  if (key_dim < 1 || key_dim > layer.config.key_dim) {
    base::fail("refactor_key_dim", "key_dim", "1 … " + std::to_string(layer.config.key_dim),
               std::to_string(key_dim));
  }
}

// The same layer with all that has key_dim in its shape at zero, in the new size.
LayerParts with_key_dim(const LayerParts& old, std::int64_t key_dim) {
  LayerParts layer = old;
  // What followed from the old key_dim is now said out loud.
  layer.config.scale = old.config.score_scale();
  layer.config.value_dim = old.config.value_size();
  layer.config.key_dim = key_dim;
  AttentionWeights zeros = AttentionWeights::zeros(layer.config);
  using W = AttentionWeights;
  for (Tensor W::*tensor :
       {&W::query_kernel, &W::query_bias, &W::key_kernel, &W::key_bias, &W::extra_key}) {
    layer.weights.*tensor = std::move(zeros.*tensor);
  }
  return layer;
}

// ---- a key head and the query heads that read it -----------------------------------------------
//
// Scores are products of rows: of the query blocks, one after the other, with the key blocks. All
// blocks have key_dim columns. `weights` may be const or not, and so are the views.

template <typename Weights>
auto query_blocks(const AttentionConfig& config, Weights& weights, std::int64_t kv_head) {
  std::vector<decltype(weights.query_kernel.view())> blocks;
  const std::int64_t group = config.num_heads / config.kv_heads();
  for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const std::int64_t begin = head * config.key_dim;
    const std::int64_t end = begin + config.key_dim;
    blocks.push_back(weights.query_kernel.view().sliced(1, begin, end));
    // The row of an input that is always 1.
    if (config.use_bias) {
      blocks.push_back(weights.query_bias.view().sliced(0, begin, end).broadcast(0, 1));
    }
  }
  return blocks;
}

template <typename Weights>
auto key_blocks(const AttentionConfig& config, Weights& weights, std::int64_t kv_head) {
  const std::int64_t begin = kv_head * config.key_dim;
  const std::int64_t end = begin + config.key_dim;
  std::vector<decltype(weights.key_kernel.view())> blocks = {
      weights.key_kernel.view().sliced(1, begin, end)};
  // Softmax does not see what the bias adds to all scores of a query, unless softcap bends them
  // first or there are keys that it is not added to.
  if (config.use_bias && (config.softcap || config.extra_keys() > 0)) {
    blocks.push_back(weights.key_bias.view().sliced(0, begin, end).broadcast(0, 1));
  }
  if (config.add_bias_kv) {
    blocks.push_back(weights.extra_key.view().sliced(0, begin, end).broadcast(0, 1));
  }
  return blocks;
}

MatrixXd stacked(const std::vector<ConstView>& blocks) {
  Index rows = 0;
  for (const ConstView& block : blocks) rows += block.extent(0);
  MatrixXd matrix(rows, blocks.front().extent(1));
  Index row = 0;
  for (const ConstView& block : blocks) {
    matrix.middleRows(row, block.extent(0)) = analyze::to_matrix(block);
    row += block.extent(0);
  }
  return matrix;
}

// The other way round: vectors·√σ, cut to the blocks' columns. Each factor takes a root of σ, so that
// neither is larger than it must be. Columns beyond the last singular value stay zero.
void unstack(const MatrixXd& vectors, const Eigen::VectorXd& values,
             const std::vector<MutableView>& blocks) {
  Index row = 0;
  for (const MutableView& block : blocks) {
    const Index columns = std::min<Index>(block.extent(1), values.size());
    for (Index i = 0; i < block.extent(0); ++i, ++row) {
      for (Index j = 0; j < columns; ++j) {
        block(i, j) = static_cast<float>(vectors(row, j) * std::sqrt(values(j)));
      }
    }
  }
}

// The share of a query head's rows, [row, row + rows), that singular values from `kept` on carry.
double left_out(const ProductSvd& svd, Index row, Index rows, Index kept) {
  const MatrixXd scaled = svd.left.middleRows(row, rows) * svd.values.asDiagonal();
  const double whole = scaled.norm();
  if (whole == 0.0 || kept >= scaled.cols()) return 0.0;
  return scaled.rightCols(scaled.cols() - kept).norm() / whole;
}

}  // namespace

RefactoredLayer refactor_key_dim(const LayerParts& layer, std::int64_t key_dim) {
  check_arguments(layer, key_dim);
  const AttentionConfig& old = layer.config;
  RefactoredLayer result{with_key_dim(layer, key_dim), {}};
  const Index head_rows = old.query_features + (old.use_bias ? 1 : 0);
  for (std::int64_t kv_head = 0; kv_head < old.kv_heads(); ++kv_head) {
    const MatrixXd queries = stacked(query_blocks(old, layer.weights, kv_head));
    const MatrixXd keys = stacked(key_blocks(old, layer.weights, kv_head));
    if (!queries.allFinite() || !keys.allFinite()) {
      base::fail("refactor_key_dim", "layer", "finite weights",
                 "NaN or infinity in key head " + std::to_string(kv_head) + " or its queries");
    }
    const ProductSvd svd = analyze::svd_of_product(queries, keys);
    AttentionWeights& weights = result.layer.weights;
    unstack(svd.left, svd.values, query_blocks(result.layer.config, weights, kv_head));
    unstack(svd.right, svd.values, key_blocks(result.layer.config, weights, kv_head));
    for (Index row = 0; row < queries.rows(); row += head_rows) {
      result.errors.push_back(left_out(svd, row, head_rows, key_dim));
    }
  }
  return result;
}

}  // namespace headwise
