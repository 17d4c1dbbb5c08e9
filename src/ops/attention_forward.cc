#include "ops/attention_forward.h"

#include <algorithm>
#include <limits>

namespace headwise::ops {

AttentionResult allocate_result(const AttentionPlan& plan) {
  const Shape rows = plan.row_shape(plan.dims.heads, plan.dims.queries, -1);
  AttentionResult result;
  result.log_sum_exp = Tensor(rows);
  result.row_reference = Tensor(rows);
  result.row_sum = Tensor(rows);
  return result;
}

void fill_log_sum_exp(AttentionResult& result) {
  for (std::int64_t i = 0; i < result.log_sum_exp.size(); ++i) {
    result.log_sum_exp.data()[i] =
        kernels::log_sum_exp(result.row_reference.data()[i], result.row_sum.data()[i]);
  }
}

// One worker's scratch. Everything per row is kept for all query heads of a group, which share
// the packed keys and values.
struct AttentionForward::Worker {
  TileBuffers tile;
  float* key_panels;
  float* value_panels;
  float* heads;               // [group][kRowBlock][value_size], not yet divided by the sum
  kernels::SoftmaxRows rows;  // [group][kRowBlock]

  [[nodiscard]] kernels::SoftmaxRows rows_of(std::int64_t member) const {
    const std::int64_t offset = member * kRowBlock;
    return {rows.reference + offset, rows.sum + offset, rows.rescale + offset};
  }
};

AttentionForward::AttentionForward(const AttentionPlan& plan, runtime::ScratchPlan& scratch,
                                   int threads)
    : plan_(plan),
      tiles_(plan, scratch_),
      key_panels_(scratch_.add_floats(kernels::packed_size(plan.dims.key_size, kKeyBlock))),
      value_panels_(scratch_.add_floats(kernels::packed_size(kKeyBlock, plan.dims.value_size))),
      heads_(scratch_.add_floats(plan.group() * kRowBlock * plan.dims.value_size)),
      reference_(scratch_.add_floats(plan.group() * kRowBlock)),
      sum_(scratch_.add_floats(plan.group() * kRowBlock)),
      rescale_(scratch_.add_floats(plan.group() * kRowBlock)) {
  scratch_.claim(scratch, threads);
}

AttentionForward::Worker AttentionForward::worker(const runtime::Lease& lease, int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch_.piece<float>(lease, index, offset);
  };
  return {tiles_.buffers(scratch_, lease, index),
          floats(key_panels_),
          floats(value_panels_),
          floats(heads_),
          {floats(reference_), floats(sum_), floats(rescale_)}};
}

void AttentionForward::run(const runtime::Lease& lease, const AttentionBuffers& buffers) const {
  const auto blocks = static_cast<std::int64_t>(plan_.row_blocks.size());
  lease.parallel_for(blocks * plan_.dims.kv_heads, [&](std::int64_t task, int index) {
    attend(worker(lease, index), buffers, plan_.row_blocks[static_cast<std::size_t>(task % blocks)],
           task / blocks);
  });
}

// All query heads of one group, for the rows of one block.
void AttentionForward::attend(const Worker& worker, const AttentionBuffers& buffers,
                              const RowBlock& block, std::int64_t kv_head) const {
  const std::int64_t group = plan_.group();
  const std::int64_t rows = group * kRowBlock;
  std::fill_n(worker.heads, rows * plan_.dims.value_size, 0.0F);
  std::fill_n(worker.rows.reference, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(worker.rows.sum, rows, 0.0F);

  masks::TileRange range{.sequence = block.sequence, .row = block.row, .row_end = block.row_end};
  range.head = kv_head * group;
  for_each_key_block(plan_, range, [&](masks::TileRange tile_range) {
    bool packed = false;
    bool values_finite = true;
    for (std::int64_t member = 0; member < group; ++member) {
      tile_range.head = kv_head * group + member;
      kernels::ScoreTile tile;
      if (!open_tile(plan_, tile_range, worker.tile, tile)) continue;
      if (!packed) {
        (void)pack_transposed(plan_, buffers.key, tile_range, plan_.dims.key_size,
                              worker.key_panels);
        values_finite =
            pack_rows(plan_, buffers.value, tile_range, plan_.dims.value_size, worker.value_panels);
        packed = true;
      }
      score_tile(plan_, tile, query_rows(plan_, buffers.query, tile_range), worker.key_panels,
                 nullptr);
      attend_tile(worker, tile, tile_range, values_finite);
    }
  });
  for (std::int64_t member = 0; member < group; ++member) {
    range.head = kv_head * group + member;
    finish(worker, buffers, range);
  }
}

// Softmax, dropout, and heads = heads · rescale + P · V.
void AttentionForward::attend_tile(const Worker& worker, const kernels::ScoreTile& tile,
                                   const masks::TileRange& range, bool values_finite) const {
  const std::int64_t member = range.head % plan_.group();
  const std::int64_t width = plan_.dims.value_size;
  const kernels::SoftmaxRows rows = worker.rows_of(member);
  float* heads = worker.heads + member * kRowBlock * width;
  kernels::online_softmax(tile, rows);
  kernels::drop(tile, plan_.dropout_tile(range));
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    if (rows.rescale[row] == 1.0F) continue;
    for (std::int64_t i = 0; i < width; ++i) heads[row * width + i] *= rows.rescale[row];
  }
  const kernels::Product product{.rows = tile.rows,
                                 .columns = width,
                                 .depth = tile.keys,
                                 .a = {tile.values, tile.stride, 1},
                                 .panels = worker.value_panels,
                                 .c = {heads, width, 1},
                                 .accumulate = true};
  // Zero times a masked NaN is NaN: where that can happen, select instead of multiplying.
  if (tile.keep == nullptr || values_finite) {
    kernels::multiply(product);
  } else {
    kernels::multiply_selected(product, {tile.keep, tile.stride, 1});
  }
}

void AttentionForward::finish(const Worker& worker, const AttentionBuffers& buffers,
                              const masks::TileRange& range) const {
  const std::int64_t member = range.head % plan_.group();
  const std::int64_t width = plan_.dims.value_size;
  const kernels::SoftmaxRows rows = worker.rows_of(member);
  const float* heads = worker.heads + member * kRowBlock * width;
  const auto output = query_rows(plan_, buffers.output, range);
  const std::int64_t first = plan_.row_index(range.sequence, range.head, range.row);
  for (std::int64_t row = 0; row < range.rows(); ++row) {
    const float sum = rows.sum[row];
    buffers.row_reference[first + row] = rows.reference[row];
    buffers.row_sum[first + row] = sum;
    for (std::int64_t i = 0; i < width; ++i) {
      output(row, i) = sum == 0.0F ? 0.0F : heads[row * width + i] / sum;
    }
  }
}

}  // namespace headwise::ops
