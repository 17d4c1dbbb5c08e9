#include "ops/attention_weights.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/natural_log.h"

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

constexpr std::int64_t kTaskRows = 16;  // that every target can take as one group

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
  if (request.matrix == Matrix::None) return request;
  request.heads = checked_selection(function, "options.weights.heads", std::move(request.heads),
                                    plan.dims.heads);
  request.rows = checked_selection(function, "options.weights.rows", std::move(request.rows),
                                   plan.dims.queries);
  return request;
}

}  // namespace

struct AttentionWeightsPass::Worker {
  ScoreBuffers scores;
  float* key_panels;
  float* reference;
  float* inverse_sum;
};

AttentionWeightsPass::AttentionWeightsPass(std::string_view function, const AttentionPlan& plan,
                                           const WeightsRequest& request,
                                           const runtime::Lease& lease,
                                           runtime::ScratchPlan& scratch)
    : plan_(plan),
      kernels_(lease.kernels()),
      request_(checked_request(function, plan, request)),
      scores_(plan, kTaskRows, kKeyBlock, scratch_),
      key_panels_(scratch_.add_floats(kernels::packed_size(plan.dims.key_size, kKeyBlock))),
      reference_(scratch_.add_floats(kTaskRows)),
      inverse_sum_(scratch_.add_floats(kTaskRows)) {
  if (wanted()) scratch_.claim(scratch, lease.threads());
}

bool AttentionWeightsPass::wanted() const {
  return request_.matrix != Matrix::None || wants_every_head();
}

bool AttentionWeightsPass::wants_every_head() const {
  return request_.top_k > 0 || request_.statistics;
}

void AttentionWeightsPass::allocate(const runtime::Lease& lease, AttentionResult& result) const {
  const std::int64_t heads = plan_.dims.heads;
  const std::int64_t rows = plan_.dims.queries;
  if (request_.matrix != Matrix::None) {
    const bool averaged = request_.matrix == Matrix::Averaged;
    result.weights = lease.zeros(
        plan_.row_shape(averaged ? -1 : static_cast<std::int64_t>(request_.heads.size()),
                        static_cast<std::int64_t>(request_.rows.size()), plan_.longest_keys()));
  }
  if (request_.top_k > 0) {
    const Shape shape = plan_.row_shape(heads, rows, request_.top_k);
    result.top = {lease.zeros(shape), IndexTensor::full(shape, -1)};
  }
  if (request_.statistics) {
    const Shape shape = plan_.row_shape(heads, rows, -1);
    result.statistics = {lease.zeros(shape), lease.zeros(shape), lease.zeros(shape)};
  }
}

void AttentionWeightsPass::run(const runtime::Lease& lease, const AttentionBuffers& buffers,
                               AttentionResult& result) const {
  if (!wanted()) return;
  const std::int64_t blocks = base::divide_up(plan_.dims.queries, kTaskRows);
  // A mean over heads is summed in their order: by one task for all of them.
  const std::int64_t heads_apart = request_.matrix == Matrix::Averaged ? 1 : plan_.dims.heads;
  const std::int64_t heads_together = plan_.dims.heads / std::max<std::int64_t>(heads_apart, 1);
  lease.parallel_for(plan_.shape.batch() * blocks * heads_apart, [&](std::int64_t task, int index) {
    const Worker worker{scores_.buffers(scratch_, lease, index),
                        scratch_.piece<float>(lease, index, key_panels_),
                        scratch_.piece<float>(lease, index, reference_),
                        scratch_.piece<float>(lease, index, inverse_sum_)};
    const std::int64_t sequence = task / heads_apart / blocks;
    const std::int64_t row = task / heads_apart % blocks * kTaskRows;
    const std::int64_t queries = plan_.shape.sequences[static_cast<std::size_t>(sequence)].queries;
    if (row >= queries) return;
    for (std::int64_t i = 0; i < heads_together; ++i) {
      visit_rows(worker, buffers,
                 {.sequence = sequence,
                  .head = task % heads_apart + i,
                  .row = row,
                  .row_end = std::min(queries, row + kTaskRows)},
                 result);
    }
  });
}

bool AttentionWeightsPass::selected(const masks::TileRange& rows) const {
  const auto& heads = request_.heads;
  if (std::find(heads.begin(), heads.end(), rows.head) == heads.end()) return false;
  const std::int64_t begin =
      plan_.shape.sequences[static_cast<std::size_t>(rows.sequence)].query_begin;
  return std::any_of(request_.rows.begin(), request_.rows.end(), [&](std::int64_t row) {
    return row >= begin + rows.row && row < begin + rows.row_end;
  });
}

void AttentionWeightsPass::visit_rows(const Worker& worker, const AttentionBuffers& buffers,
                                      const masks::TileRange& rows, AttentionResult& result) const {
  if (!wants_every_head() && !selected(rows)) return;
  const std::int64_t queries =
      plan_.shape.sequences[static_cast<std::size_t>(rows.sequence)].queries;
  const std::int64_t stacked = rows.head % plan_.group() * queries;
  const RowGroup group(plan_, kernels_, rows.sequence, rows.head / plan_.group(),
                       stacked + rows.row, rows.rows());
  visit_group(worker, buffers, group, rows, result);
}

void AttentionWeightsPass::visit_group(const Worker& worker, const AttentionBuffers& buffers,
                                       const RowGroup& group, masks::TileRange range,
                                       AttentionResult& result) const {
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t keys =
      plan_.shape.all_keys(plan_.shape.sequences[static_cast<std::size_t>(range.sequence)]);
  group.load_rows(buffers.row_reference, worker.reference);
  group.load_rows(buffers.row_sum, worker.inverse_sum);
  for (std::int64_t row = 0; row < group.rows(); ++row) {
    float& sum = worker.inverse_sum[row];
    sum = sum == 0.0F ? 0.0F : 1.0F / sum;
  }
  const bool in_matrix = request_.matrix != Matrix::None && selected(range);
  for (range.key = 0; range.key < keys; range.key += kKeyBlock) {
    range.key_end = std::min(range.key + kKeyBlock, keys);
    if (!group.attends(range.key, range.key_end)) continue;
    const ScoreBlock block = group.open(range.key, range.key_end, worker.scores);
    const auto matrix =
        key_rows(plan_, buffers.key, range.sequence, group.kv_head(), range.key).transposed();
    (void)kernels_.gemm.pack_panels(dk, range.keys(), matrix, worker.key_panels);
    group.score(block, group.in_place(buffers.query), kernels::packed_panels(worker.key_panels, dk),
                worker.scores);
    note_masked(block, worker.scores.keep);
    kernels_.tile.probabilities(block.tile, plan_.rule.factor, worker.reference,
                                worker.inverse_sum);
    clear_outside_spans(block.tile, kernels_.gemm.tile_rows, block.tile.values, 0.0F);
    const Tile tile{range, block.tile.values, worker.scores.keep, block.tile.stride};
    if (in_matrix) store_matrix(tile, result.weights);
    if (request_.top_k > 0) store_top(tile, result.top);
    if (request_.statistics) add_statistics(tile, result.statistics);
  }
}

// Which keys are attended, for those whose weight vanishes: among the largest, they have an index.
void AttentionWeightsPass::note_masked(const ScoreBlock& block, std::uint8_t* attended) const {
  if (request_.top_k == 0) return;
  clear_outside_spans(block.tile, kernels_.gemm.tile_rows, block.tile.values,
                      -std::numeric_limits<float>::infinity());
  for (std::int64_t row = 0; row < block.tile.rows; ++row) {
    for (std::int64_t key = 0; key < block.tile.keys; ++key) {
      const std::int64_t at = row * block.tile.stride + key;
      attended[at] = block.tile.values[at] == -std::numeric_limits<float>::infinity() ? 0 : 1;
    }
  }
}

void AttentionWeightsPass::store_matrix(const Tile& tile, Tensor& weights) const {
  const masks::TileRange& range = tile.range;
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
      const float* from = tile.row(row);
      float* to = weights.data() + ((sequence * heads + (averaged ? 0 : head)) * rows + i) * keys +
                  range.key;
      for (std::int64_t key = 0; key < range.keys(); ++key) {
        to[key] = averaged ? to[key] + share * from[key] : from[key];
      }
    }
  }
}

// Keeps the k best so far in descending order. A later key must be greater to get ahead, so equal
// weights stand in the order of their keys.
void AttentionWeightsPass::store_top(const Tile& tile, TopWeights& top) const {
  const masks::TileRange& range = tile.range;
  const std::int64_t k = request_.top_k;
  for (std::int64_t row = 0; row < range.rows(); ++row) {
    const std::int64_t place = plan_.row_index(range.sequence, range.head, range.row + row) * k;
    float* values = top.values.data() + place;
    std::int64_t* indices = top.indices.data() + place;
    std::int64_t filled = std::find(indices, indices + k, -1) - indices;
    for (std::int64_t key = 0; key < range.keys(); ++key) {
      if (tile.attended[row * tile.stride + key] == 0) continue;
      const float weight = tile.row(row)[key];
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

void AttentionWeightsPass::add_statistics(const Tile& tile, WeightStatistics& statistics) const {
  const masks::TileRange& range = tile.range;
  for (std::int64_t row = 0; row < range.rows(); ++row) {
    const std::int64_t place = plan_.row_index(range.sequence, range.head, range.row + row);
    const std::int64_t position = plan_.mask.offset(range.sequence) + range.row + row;
    const float* weights = tile.row(row);
    double entropy = 0.0;
    double distance = 0.0;
    for (std::int64_t key = 0; key < range.keys(); ++key) {
      const auto p = static_cast<double>(weights[key]);
      if (p == 0.0) continue;  // p·ln p → 0
      entropy -= p * base::natural_log(p);
      distance += p * static_cast<double>(std::abs(position - (range.key + key)));
    }
    statistics.entropy.data()[place] += static_cast<float>(entropy);
    statistics.mean_distance.data()[place] += static_cast<float>(distance);
    if (range.key == 0) statistics.first_key_mass.data()[place] = weights[0];
  }
}

}  // namespace ops
}  // namespace headwise
