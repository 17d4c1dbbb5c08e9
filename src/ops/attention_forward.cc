#include "ops/attention_forward.h"

#include <algorithm>
#include <limits>

#include "base/check.h"

namespace headwise::ops {

using kernels::kPanelWidth;

namespace {

// Register tiles that share a key block: its panels come from the cache once for all of them.
constexpr std::int64_t kGroupTiles = 4;

// What is known about a key block of the head at hand.
enum class BlockState : std::uint8_t { Unpacked, Finite, NotFinite };

}  // namespace

AttentionResult allocate_result(const AttentionPlan& plan) {
  const Shape rows = plan.row_shape(plan.dims.heads, plan.dims.queries, -1);
  AttentionResult result;
  result.log_sum_exp = Tensor(rows);
  result.row_reference = Tensor(rows);
  result.row_sum = Tensor(rows);
  return result;
}

void fill_log_sum_exp(const runtime::Lease& lease, AttentionResult& result) {
  constexpr std::int64_t kBlock = 1024;
  const std::int64_t count = result.log_sum_exp.size();
  float* logs = result.log_sum_exp.data();
  const float* references = result.row_reference.data();
  const float* sums = result.row_sum.data();
  lease.parallel_for(base::divide_up(count, kBlock), [&](std::int64_t block, int) {
    for (std::int64_t i = block * kBlock; i < std::min(count, (block + 1) * kBlock); ++i) {
      logs[i] = kernels::log_sum_exp(references[i], sums[i]);
    }
  });
}

// One worker's scratch.
struct AttentionForward::Worker {
  ScoreBuffers scores;
  float* key_panels;    // [slots][kKeyBlock / 16][dk][16]
  float* value_panels;  // [slots][dv / 16][keys][16]
  BlockState* states;   // of every key block
  float* query;         // rows gathered from several heads
  float* heads;         // O before it is divided by the sum
  float* output;        // rows to be scattered to several heads
  float* inverse;       // 1 / sum
  kernels::SoftmaxRows rows;
};

AttentionForward::AttentionForward(const AttentionPlan& plan, const runtime::Lease& lease,
                                   runtime::ScratchPlan& scratch)
    : plan_(plan),
      kernels_(lease.kernels()),
      group_rows_(kGroupTiles * kernels_.gemm.tile_rows),
      slots_(1),
      scores_(plan, group_rows_, kKeyBlock, scratch_) {
  for (const RowChunk& chunk : plan.row_chunks) {
    if (chunk.row_end - chunk.row <= group_rows_) continue;  // passes by every block once
    const auto& sequence = plan.shape.sequences[static_cast<std::size_t>(chunk.sequence)];
    slots_ = std::max(slots_, base::divide_up(plan.shape.all_keys(sequence), kKeyBlock));
  }
  const std::int64_t dk = plan.dims.key_size;
  const std::int64_t dv = plan.dims.value_size;
  const std::int64_t rows = group_rows_ + 3;
  key_panels_ = scratch_.add_floats(slots_ * kernels::packed_size(dk, kKeyBlock));
  value_panels_ = scratch_.add_floats(slots_ * kernels::packed_size(kKeyBlock, dv));
  states_ = scratch_.add_bytes(base::divide_up(plan.longest_keys(), kKeyBlock));
  query_ = scratch_.add_floats(rows * dk);
  heads_ = scratch_.add_floats(rows * dv);
  output_ = scratch_.add_floats(rows * dv);
  inverse_ = scratch_.add_floats(rows);
  reference_ = scratch_.add_floats(rows);
  sum_ = scratch_.add_floats(rows);
  rescale_ = scratch_.add_floats(rows);
  scratch_.claim(scratch, lease.threads());
}

AttentionForward::Worker AttentionForward::worker(const runtime::Lease& lease, int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch_.piece<float>(lease, index, offset);
  };
  return {scores_.buffers(scratch_, lease, index),
          floats(key_panels_),
          floats(value_panels_),
          scratch_.piece<BlockState>(lease, index, states_),
          floats(query_),
          floats(heads_),
          floats(output_),
          floats(inverse_),
          {floats(reference_), floats(sum_), floats(rescale_)}};
}

void AttentionForward::run(const runtime::Lease& lease, const AttentionBuffers& buffers) const {
  const auto chunks = static_cast<std::int64_t>(plan_.row_chunks.size());
  // The last rows first: under a causal mask they take longest, and short tasks at the end even out.
  lease.parallel_for(chunks * plan_.dims.kv_heads, [&](std::int64_t task, int index) {
    const std::int64_t chunk = chunks - 1 - task / plan_.dims.kv_heads;
    attend(worker(lease, index), buffers, plan_.row_chunks[static_cast<std::size_t>(chunk)],
           task % plan_.dims.kv_heads);
  });
}

void AttentionForward::attend(const Worker& worker, const AttentionBuffers& buffers,
                              const RowChunk& chunk, std::int64_t kv_head) const {
  const auto& sequence = plan_.shape.sequences[static_cast<std::size_t>(chunk.sequence)];
  std::fill_n(worker.states, base::divide_up(plan_.shape.all_keys(sequence), kKeyBlock),
              BlockState::Unpacked);
  for_each_group(chunk.row, chunk.row_end, kernels_.gemm.tile_rows, kGroupTiles,
                 [&](std::int64_t first, std::int64_t rows) {
                   attend_group(
                       worker, buffers,
                       RowGroup(plan_, kernels_, chunk.sequence, kv_head, first, rows));
                 });
}

std::int64_t AttentionForward::block_end(const RowGroup& group, std::int64_t block) const {
  const auto& sequence = plan_.shape.sequences[static_cast<std::size_t>(group.sequence())];
  return std::min((block + 1) * kKeyBlock, plan_.shape.all_keys(sequence));
}

// Keys become panels of Kᵀ, values panels of V, once for all rows of the chunk.
void AttentionForward::pack_block(const Worker& worker, const AttentionBuffers& buffers,
                                  const RowGroup& group, std::int64_t block) const {
  BlockState& state = worker.states[block];
  if (state != BlockState::Unpacked) return;
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  const std::int64_t slot = slots_ == 1 ? 0 : block;
  const std::int64_t key = block * kKeyBlock;
  const std::int64_t keys = block_end(group, block) - key;
  const auto rows = [&](const ConstHeads& heads) {
    return key_rows(plan_, heads, group.sequence(), group.kv_head(), key);
  };
  (void)kernels_.gemm.pack_panels(dk, keys, rows(buffers.key).transposed(),
                                  worker.key_panels + slot * kernels::packed_size(dk, kKeyBlock));
  const bool finite = kernels_.gemm.pack_panels(
      keys, dv, rows(buffers.value),
      worker.value_panels + slot * kernels::packed_size(kKeyBlock, dv));
  state = finite ? BlockState::Finite : BlockState::NotFinite;
}

void AttentionForward::attend_group(const Worker& worker, const AttentionBuffers& buffers,
                                    const RowGroup& group) const {
  const auto& sequence = plan_.shape.sequences[static_cast<std::size_t>(group.sequence())];
  const std::int64_t blocks = base::divide_up(plan_.shape.all_keys(sequence), kKeyBlock);
  const auto next_attended = [&](std::int64_t block) {
    while (block < blocks && !group.attends(block * kKeyBlock, block_end(group, block))) ++block;
    return block;
  };
  const std::int64_t dv = plan_.dims.value_size;
  const kernels::SoftmaxRows& rows = worker.rows;
  std::fill_n(rows.reference, group.rows(), -std::numeric_limits<float>::infinity());
  std::fill_n(rows.sum, group.rows(), 0.0F);
  const kernels::MatrixView query =
      query_rows(group, buffers.query, plan_.dims.key_size, worker.query);
  const auto in_place = group.in_place(buffers.output);
  const kernels::MutableMatrix output =
      in_place.data != nullptr ? in_place : kernels::MutableMatrix{worker.output, dv, 1};

  const std::int64_t first = next_attended(0);
  for (std::int64_t block = first; block < blocks;) {
    const std::int64_t next = next_attended(block + 1);
    attend_block(worker, buffers, group, {block, query, output, block == first, next >= blocks});
    block = next;
  }
  if (first >= blocks) {  // rows that attend nothing are 0
    for (std::int64_t row = 0; row < group.rows(); ++row) {
      for (std::int64_t i = 0; i < dv; ++i) output(row, i) = 0.0F;
    }
  }
  if (in_place.data == nullptr) group.scatter(worker.output, dv, buffers.output);
  group.store_rows(rows.reference, buffers.row_reference);
  group.store_rows(rows.sum, buffers.row_sum);
}

// Scores, softmax, dropout, and heads = heads · rescale + P · V; at the end, / sum.
void AttentionForward::attend_block(const Worker& worker, const AttentionBuffers& buffers,
                                    const RowGroup& group, const BlockCall& call) const {
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  const std::int64_t slot = slots_ == 1 ? 0 : call.block;
  const kernels::SoftmaxRows& rows = worker.rows;
  pack_block(worker, buffers, group, call.block);
  const ScoreBlock scores =
      group.open(call.block * kKeyBlock, block_end(group, call.block), worker.scores);
  const float* key_panels = worker.key_panels + slot * kernels::packed_size(dk, kKeyBlock);
  group.score(scores, call.query, kernels::packed_panels(key_panels, dk), worker.scores);
  kernels_.tile.online_softmax(scores.tile, plan_.rule.factor, worker.scores.row_max, rows);
  group.drop(scores, scores.tile.values);

  const float* value_panels = worker.value_panels + slot * kernels::packed_size(kKeyBlock, dv);
  kernels::Product product{.rows = group.rows(),
                           .columns = dv,
                           .depth = scores.tile.keys,
                           .a = {scores.tile.values, scores.tile.stride, 1},
                           .b = kernels::packed_panels(value_panels, scores.tile.keys),
                           .c = {worker.heads, dv, 1},
                           .zero_annihilates = worker.states[call.block] == BlockState::NotFinite,
                           .depth_of_tile = scores.tile.spans};
  if (!call.first) {
    product.start = {worker.heads, dv, 1};
    product.row_before = rows.rescale;
  }
  if (call.last) {
    for (std::int64_t row = 0; row < group.rows(); ++row) {
      worker.inverse[row] = rows.sum[row] == 0.0F ? 0.0F : 1.0F / rows.sum[row];
    }
    product.c = call.output;
    product.row_after = worker.inverse;
  }
  kernels_.gemm.multiply(product);
}

}  // namespace headwise::ops
