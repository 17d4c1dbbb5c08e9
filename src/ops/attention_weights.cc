#include "ops/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>

#include "base/check.h"

namespace headwise {

WeightsRequest no_weights() { return {}; }

WeightsRequest all_weights() { return {.matrix = WeightsRequest::Matrix::PerHead}; }

WeightsRequest averaged_weights() { return {.matrix = WeightsRequest::Matrix::Averaged}; }

WeightsRequest selected_weights(std::vector<std::int64_t> heads, std::vector<std::int64_t> rows) {
  return {.matrix = WeightsRequest::Matrix::PerHead,
          .heads = std::move(heads),
          .rows = std::move(rows)};
}

WeightsRequest top_k_weights(std::int64_t k) {
  if (k < 1) base::fail("top_k_weights", "k", "a number ≥ 1", std::to_string(k));
  return {.top_k = k};
}

WeightsRequest weight_statistics() { return {.statistics = true}; }

WeightsRequest operator|(WeightsRequest a, const WeightsRequest& b) {
  using Matrix = WeightsRequest::Matrix;
  if (a.matrix != Matrix::None && b.matrix != Matrix::None) {
    base::fail("operator|", "weights", "one matrix of weights in a request", "two");
  }
  if (b.matrix != Matrix::None) {
    a.matrix = b.matrix;
    a.heads = b.heads;
    a.rows = b.rows;
  }
  a.top_k = std::max(a.top_k, b.top_k);
  a.statistics = a.statistics || b.statistics;
  return a;
}

namespace ops {

namespace {

using Matrix = WeightsRequest::Matrix;

// Indices within 0 … count−1; none given means all.
std::vector<std::int64_t> checked_selection(std::string_view function, const char* argument,
                                            std::vector<std::int64_t> selected,
                                            std::int64_t count) {
  for (const std::int64_t index : selected) {
    if (index < 0 || index >= count) {
      base::fail(function, argument, "indices within 0 … " + std::to_string(count - 1),
                 std::to_string(index));
    }
  }
  if (selected.empty()) {
    selected.resize(static_cast<std::size_t>(count));
    std::iota(selected.begin(), selected.end(), 0);
  }
  return selected;
}

WeightsRequest checked_request(std::string_view function, const AttentionPlan& plan,
                               WeightsRequest request) {
  constexpr std::int64_t kMostTop = std::int64_t{1} << 31;  // more than any row has keys
  if (request.top_k < 0 || request.top_k > kMostTop) {
    base::fail(function, "options.weights.top_k", "a number within 0 … 2^31",
               std::to_string(request.top_k));
  }
  request.heads = checked_selection(function, "options.weights.heads", std::move(request.heads),
                                    plan.dims.heads);
  request.rows = checked_selection(function, "options.weights.rows", std::move(request.rows),
                                   plan.dims.queries);
  return request;
}

}  // namespace

AttentionWeightsPass::AttentionWeightsPass(std::string_view function, const AttentionPlan& plan,
                                           const WeightsRequest& request,
                                           runtime::ScratchPlan& scratch, int threads)
    : plan_(plan),
      request_(checked_request(function, plan, request)),
      tiles_(plan, scratch_),
      key_panels_(scratch_.add_floats(kernels::packed_size(plan.dims.key_size, kKeyBlock))) {
  if (wanted()) scratch_.claim(scratch, threads);
}

bool AttentionWeightsPass::wanted() const {
  return request_.matrix != Matrix::None || wants_every_head();
}

bool AttentionWeightsPass::wants_every_head() const {
  return request_.top_k > 0 || request_.statistics;
}

void AttentionWeightsPass::allocate(AttentionResult& result) const {
  const std::int64_t heads = plan_.dims.heads;
  const std::int64_t rows = plan_.dims.queries;
  if (request_.matrix != Matrix::None) {
    const bool averaged = request_.matrix == Matrix::Averaged;
    result.weights = Tensor(
        plan_.row_shape(averaged ? -1 : static_cast<std::int64_t>(request_.heads.size()),
                        static_cast<std::int64_t>(request_.rows.size()), plan_.longest_keys()));
  }
  if (request_.top_k > 0) {
    const Shape shape = plan_.row_shape(heads, rows, request_.top_k);
    result.top = {Tensor(shape), IndexTensor::full(shape, -1)};
  }
  if (request_.statistics) {
    const Shape shape = plan_.row_shape(heads, rows, -1);
    result.statistics = {Tensor(shape), Tensor(shape), Tensor(shape)};
  }
}

void AttentionWeightsPass::run(const runtime::Lease& lease, const AttentionBuffers& buffers,
                               AttentionResult& result) const {
  if (!wanted()) return;
  const auto blocks = static_cast<std::int64_t>(plan_.row_blocks.size());
  lease.parallel_for(blocks, [&](std::int64_t block, int worker) {
    visit_rows(lease, buffers, plan_.row_blocks[static_cast<std::size_t>(block)], worker, result);
  });
}

// All heads of some rows, one after the other: a mean over heads is summed in their order.
void AttentionWeightsPass::visit_rows(const runtime::Lease& lease, const AttentionBuffers& buffers,
                                      const RowBlock& block, int worker,
                                      AttentionResult& result) const {
  const TileBuffers tile_buffers = tiles_.buffers(scratch_, lease, worker);
  auto* key_panels = scratch_.piece<float>(lease, worker, key_panels_);
  for (std::int64_t head = 0; head < plan_.dims.heads; ++head) {
    const bool selected =
        std::find(request_.heads.begin(), request_.heads.end(), head) != request_.heads.end() &&
        any_row_selected(block);
    if (!wants_every_head() && !selected) continue;
    const std::int64_t first = plan_.row_index(block.sequence, head, block.row);
    const masks::TileRange rows{
        .sequence = block.sequence, .head = head, .row = block.row, .row_end = block.row_end};
    for_each_key_block(plan_, rows, [&](const masks::TileRange& range) {
      kernels::ScoreTile tile;
      if (!open_tile(plan_, range, tile_buffers, tile)) return;
      (void)pack_transposed(plan_, buffers.key, range, plan_.dims.key_size, key_panels);
      score_tile(plan_, tile, query_rows(plan_, buffers.query, range), key_panels, nullptr);
      kernels::normalise(tile, buffers.row_reference + first, buffers.row_sum + first);
      if (selected && request_.matrix != Matrix::None) store_matrix(tile, range, result.weights);
      if (request_.top_k > 0) store_top(tile, range, result.top);
      if (request_.statistics) add_statistics(tile, range, result.statistics);
    });
  }
}

bool AttentionWeightsPass::any_row_selected(const RowBlock& block) const {
  const std::int64_t begin =
      plan_.shape.sequences[static_cast<std::size_t>(block.sequence)].query_begin;
  return std::any_of(request_.rows.begin(), request_.rows.end(), [&](std::int64_t row) {
    return row >= begin + block.row && row < begin + block.row_end;
  });
}

void AttentionWeightsPass::store_matrix(const kernels::ScoreTile& tile,
                                        const masks::TileRange& range, Tensor& weights) const {
  const bool averaged = request_.matrix == Matrix::Averaged;
  const auto heads = averaged ? 1 : static_cast<std::int64_t>(request_.heads.size());
  const auto rows = static_cast<std::int64_t>(request_.rows.size());
  const std::int64_t keys = plan_.longest_keys();
  const std::int64_t sequence = plan_.shape.packed ? 0 : range.sequence;
  const std::int64_t row_begin =
      plan_.shape.sequences[static_cast<std::size_t>(range.sequence)].query_begin + range.row;
  const float share = 1.0F / static_cast<float>(request_.heads.size());
  for (std::int64_t head = 0; head < static_cast<std::int64_t>(request_.heads.size()); ++head) {
    if (request_.heads[static_cast<std::size_t>(head)] != range.head) continue;
    for (std::int64_t i = 0; i < rows; ++i) {
      const std::int64_t row = request_.rows[static_cast<std::size_t>(i)] - row_begin;
      if (row < 0 || row >= range.rows()) continue;
      const float* from = tile.values + row * tile.stride;
      float* to = weights.data() + ((sequence * heads + (averaged ? 0 : head)) * rows + i) * keys +
                  range.key;
      for (std::int64_t key = 0; key < tile.keys; ++key) {
        to[key] = averaged ? to[key] + share * from[key] : from[key];
      }
    }
  }
}

// Keeps the k best so far in descending order. A later key must be greater to get ahead, so equal
// weights stand in the order of their keys.
void AttentionWeightsPass::store_top(const kernels::ScoreTile& tile, const masks::TileRange& range,
                                     TopWeights& top) const {
  const std::int64_t k = request_.top_k;
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t place = plan_.row_index(range.sequence, range.head, range.row + row) * k;
    float* values = top.values.data() + place;
    std::int64_t* indices = top.indices.data() + place;
    std::int64_t filled = std::find(indices, indices + k, -1) - indices;
    for (std::int64_t key = 0; key < tile.keys; ++key) {
      if (!tile.kept(row, key)) continue;
      const float weight = tile.values[row * tile.stride + key];
      if (filled == k && !(weight > values[k - 1])) continue;
      const std::int64_t slot =
          std::upper_bound(values, values + filled, weight, std::greater<>()) - values;
      filled = std::min(filled + 1, k);
      std::copy_backward(values + slot, values + filled - 1, values + filled);
      std::copy_backward(indices + slot, indices + filled - 1, indices + filled);
      values[slot] = weight;
      indices[slot] = range.key + key;
    }
  }
}

void AttentionWeightsPass::add_statistics(const kernels::ScoreTile& tile,
                                          const masks::TileRange& range,
                                          WeightStatistics& statistics) const {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const std::int64_t place = plan_.row_index(range.sequence, range.head, range.row + row);
    const std::int64_t position = plan_.mask.offset(range.sequence) + range.row + row;
    const float* weights = tile.values + row * tile.stride;
    float entropy = 0.0F;
    float distance = 0.0F;
    for (std::int64_t key = 0; key < tile.keys; ++key) {
      const float p = weights[key];
      if (p == 0.0F) continue;  // p·ln p → 0
      entropy -= p * std::log(p);
      distance += p * static_cast<float>(std::abs(position - (range.key + key)));
    }
    statistics.entropy.data()[place] += entropy;
    statistics.mean_distance.data()[place] += distance;
    if (range.key == 0) statistics.first_key_mass.data()[place] = weights[0];
  }
}

}  // namespace ops
}  // namespace headwise
