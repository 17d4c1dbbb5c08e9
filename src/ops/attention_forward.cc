#include "ops/attention_forward.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/saturating.h"

namespace headwise::ops {

using kernels::kPanelWidth;

namespace {

// Register tiles that share a key block: its panels come from the cache once for all of them.
constexpr std::int64_t kGroupTiles = 4;
constexpr std::int64_t kMostUnpackedRows = kernels::kFewRows + 2;

bool all_finite(kernels::MatrixView rows, std::int64_t count, std::int64_t features) {
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < features; ++i) {
      if (!std::isfinite(rows(row, i))) return false;
    }
  }
  return true;
}

void prefetch_for_writing(kernels::MutableMatrix rows, std::int64_t count, std::int64_t features) {
  for (std::int64_t row = 0; row < count; ++row) {
    for (std::int64_t i = 0; i < features; i += kPanelWidth) {
      __builtin_prefetch(rows.data + row * rows.row_stride + i * rows.column_stride, 1);
    }
  }
}

}  // namespace

AttentionResult allocate_result(const AttentionPlan& plan, const runtime::Lease& lease) {
  const Shape rows = plan.row_shape(plan.dims.heads, plan.dims.queries, -1);
  AttentionResult result;
  result.log_sum_exp = lease.zeros(rows);
  result.row_reference = lease.zeros(rows);
  result.row_sum = lease.zeros(rows);
  return result;
}

void fill_log_sum_exp(const runtime::Lease& lease, AttentionResult& result) {
  constexpr std::int64_t kBlock = 1024;
  const std::int64_t count = result.log_sum_exp.size();
  float* logs = result.log_sum_exp.data();
  const float* references = result.row_reference.data();
  const float* sums = result.row_sum.data();
  lease.parallel_for(base::divide_up(count, kBlock), [&](std::int64_t block, int) {
    const std::int64_t first = block * kBlock;
    lease.kernels().tile.log_sum_exp(std::min(kBlock, count - first), references + first,
                                     sums + first, logs + first);
  });
}

// One worker's scratch.
struct AttentionForward::Worker {
  ScoreBuffers scores;
  float* query;    // rows gathered from several heads
  float* heads;    // O before it is divided by the sum
  float* output;   // rows to be scattered to several heads
  float* inverse;  // 1 / sum
  kernels::SoftmaxRows rows;
};

// Keys and values of one head, packed block by block.
struct AttentionForward::Head {
  std::int64_t sequence = 0, kv_head = 0;
  std::int64_t keys = 0;  // beyond these, no row attends any
  std::int64_t first_block = 0, end_block = 0;
  float* key_panels = nullptr;                // [slots][kKeyBlock / 16][dk][16]
  float* value_panels = nullptr;              // [slots][dv / 16][keys of the block][16]
  std::int64_t key_slot = 0, value_slot = 0;  // numbers from block to block; 0: they share one
  bool* packed = nullptr;                     // which blocks are; null: all
  bool unpacked = false;                      // few rows: keys and values are read where they are
  kernels::RowCursor* ahead = nullptr;        // keys and values of the next head

  [[nodiscard]] std::int64_t block_end(std::int64_t block) const {
    return std::min((block + 1) * kKeyBlock, keys);
  }
  [[nodiscard]] float* keys_of(std::int64_t block) const {
    return key_panels + (block - first_block) * key_slot;
  }
  [[nodiscard]] float* values_of(std::int64_t block) const {
    return value_panels + (block - first_block) * value_slot;
  }
};

// One key block of a row group.
struct AttentionForward::BlockCall {
  const Head& head;
  std::int64_t block;
  kernels::MatrixView query;
  kernels::MutableMatrix output;
  bool first, last;
  bool careful;
  bool& not_finite;  // set by the last block if the output is not
};

AttentionForward::AttentionForward(const AttentionPlan& plan, const runtime::Lease& lease,
                                   runtime::ScratchPlan& scratch)
    : plan_(plan),
      kernels_(lease.kernels()),
      group_rows_(kGroupTiles * kernels_.gemm.tile_rows),
      scores_(plan, group_rows_, kKeyBlock, scratch_) {
  const std::int64_t dk = plan.dims.key_size;
  const std::int64_t dv = plan.dims.value_size;
  const std::int64_t rows = group_rows_ + 3;
  query_ = scratch_.add_floats(base::saturating_product(rows, dk));
  heads_ = scratch_.add_floats(base::saturating_product(rows, dv));
  output_ = scratch_.add_floats(base::saturating_product(rows, dv));
  inverse_ = scratch_.add_floats(rows);
  reference_ = scratch_.add_floats(rows);
  sum_ = scratch_.add_floats(rows);
  rescale_ = scratch_.add_floats(rows);

  plan_sequences();
  const std::int64_t keys = kernels::packed_size(dk, kKeyBlock);
  const std::int64_t values = kernels::packed_size(kKeyBlock, dv);
  key_panels_ = scratch_.add_floats(base::saturating_product(slots_, keys));
  value_panels_ = scratch_.add_floats(base::saturating_product(slots_, values));
  packed_ = scratch_.add_bytes(slots_);
  const std::int64_t shared = base::saturating_product(shared_blocks_, plan.dims.kv_heads);
  shared_keys_ = scratch.add<float>(base::saturating_product(shared, keys));
  shared_values_ = scratch.add<float>(base::saturating_product(shared, values));
  scratch_.claim(scratch, lease.threads());
}

void AttentionForward::plan_sequences() {
  sequences_.assign(plan_.shape.sequences.size(), {});
  for (const RowChunk& chunk : plan_.row_chunks) {
    SequencePlan& sequence = sequences_[static_cast<std::size_t>(chunk.sequence)];
    sequence.shared = sequence.blocks++ > 0;  // counts its chunks for the moment
  }
  for (std::int64_t b = 0; b < plan_.shape.batch(); ++b) {
    SequencePlan& sequence = sequences_[static_cast<std::size_t>(b)];
    masks::KeyRange range{0,
                          plan_.shape.all_keys(plan_.shape.sequences[static_cast<std::size_t>(b)])};
    if (plan_.shape.tail == 0 && !plan_.mask.unlimited()) range = plan_.mask.sequence_range(b);
    sequence.keys = range.end;
    sequence.first_block = range.begin / kKeyBlock;
    sequence.blocks = base::divide_up(range.end, kKeyBlock) - sequence.first_block;
    sequence.shared_before = shared_blocks_;
    if (sequence.shared) shared_blocks_ += sequence.blocks;
  }
  // A chunk of one row group passes by every block once: they can share one place.
  for (const RowChunk& chunk : plan_.row_chunks) {
    const SequencePlan& sequence = sequences_[static_cast<std::size_t>(chunk.sequence)];
    const bool once = chunk.row_end - chunk.row <= group_rows_;
    if (!sequence.shared && !once) slots_ = std::max(slots_, sequence.blocks);
  }
}

AttentionForward::Worker AttentionForward::worker(const runtime::Lease& lease, int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch_.piece<float>(lease, index, offset);
  };
  return {scores_.buffers(scratch_, lease, index),
          floats(query_),
          floats(heads_),
          floats(output_),
          floats(inverse_),
          {floats(reference_), floats(sum_), floats(rescale_)}};
}

AttentionForward::Head AttentionForward::head(std::int64_t sequence, std::int64_t kv_head) const {
  const SequencePlan& plan = sequences_[static_cast<std::size_t>(sequence)];
  Head head;
  head.sequence = sequence;
  head.kv_head = kv_head;
  head.keys = plan.keys;
  head.first_block = plan.first_block;
  head.end_block = plan.first_block + plan.blocks;
  head.key_slot = kernels::packed_size(plan_.dims.key_size, kKeyBlock);
  head.value_slot = kernels::packed_size(kKeyBlock, plan_.dims.value_size);
  return head;
}

AttentionForward::Head AttentionForward::own_head(const runtime::Lease& lease, int index,
                                                  std::int64_t sequence,
                                                  std::int64_t kv_head) const {
  Head own = head(sequence, kv_head);
  own.key_panels = scratch_.piece<float>(lease, index, key_panels_);
  own.value_panels = scratch_.piece<float>(lease, index, value_panels_);
  own.packed = scratch_.piece<bool>(lease, index, packed_);
  if (own.end_block - own.first_block > slots_) {
    own.key_slot = 0;
    own.value_slot = 0;
  }
  std::fill_n(own.packed, slots_, false);
  return own;
}

AttentionForward::Head AttentionForward::shared_head(const runtime::Lease& lease,
                                                     std::int64_t sequence,
                                                     std::int64_t kv_head) const {
  const SequencePlan& plan = sequences_[static_cast<std::size_t>(sequence)];
  Head shared = head(sequence, kv_head);
  const std::int64_t before = plan.shared_before * plan_.dims.kv_heads + kv_head * plan.blocks;
  shared.key_panels = lease.scratch<float>(shared_keys_) + before * shared.key_slot;
  shared.value_panels = lease.scratch<float>(shared_values_) + before * shared.value_slot;
  return shared;
}

void AttentionForward::run(const runtime::Lease& lease, const AttentionBuffers& buffers) const {
  const std::int64_t kv_heads = plan_.dims.kv_heads;
  report(lease, buffers);
  lease.parallel_for(shared_blocks_ * kv_heads, [&](std::int64_t task, int) {
    const std::int64_t block = task / kv_heads;
    // The last sequence that begins at or before the block and has any.
    const auto* after = std::upper_bound(
        sequences_.begin(), sequences_.end(), block,
        [](std::int64_t b, const SequencePlan& sequence) { return b < sequence.shared_before; });
    const auto* found = after - 1;
    while (!found->shared || found->blocks == 0) --found;
    const Head shared = shared_head(lease, found - sequences_.begin(), task % kv_heads);
    pack_block(buffers, shared, found->first_block + block - found->shared_before);
  });
  const auto chunks = static_cast<std::int64_t>(plan_.row_chunks.size());
  // The last rows first: under a causal mask they take longest, and short tasks at the end even out.
  lease.parallel_for(chunks * kv_heads, [&](std::int64_t task, int index) {
    const RowChunk& chunk =
        plan_.row_chunks[static_cast<std::size_t>(chunks - 1 - task / kv_heads)];
    const std::int64_t kv_head = task % kv_heads;
    if (sequences_[static_cast<std::size_t>(chunk.sequence)].shared) {
      attend(worker(lease, index), buffers, chunk, shared_head(lease, chunk.sequence, kv_head));
      return;
    }
    Head own = own_head(lease, index, chunk.sequence, kv_head);
    own.unpacked = reads_unpacked(buffers, chunk);
    const std::int64_t next = task + lease.threads_in_use();
    kernels::RowCursor ahead = rows_ahead(buffers, next);
    if (next < chunks * kv_heads) own.ahead = &ahead;
    attend(worker(lease, index), buffers, chunk, own);
  });
}

void AttentionForward::report(const runtime::Lease& lease, const AttentionBuffers& buffers) const {
  if (shared_blocks_ > 0) {
    lease.report_attention("keys and values packed before",
                           "the rows of a head make several tasks, which share them");
  } else if (!plan_.row_chunks.empty() && reads_unpacked(buffers, plan_.row_chunks.front())) {
    lease.report_attention("keys and values read where they lie",
                           "so few rows pass by them that packing would cost more");
  } else {
    lease.report_attention("keys and values packed block by block",
                           "one task has all rows of a head");
  }
}

// What the task with this number will read, in its order.
kernels::RowCursor AttentionForward::rows_ahead(const AttentionBuffers& buffers,
                                                std::int64_t task) const {
  kernels::RowCursor rows;
  const auto chunks = static_cast<std::int64_t>(plan_.row_chunks.size());
  const std::int64_t number = chunks - 1 - task / plan_.dims.kv_heads;
  if (number < 0) return rows;
  const std::int64_t sequence = plan_.row_chunks[static_cast<std::size_t>(number)].sequence;
  const std::int64_t kv_head = task % plan_.dims.kv_heads;
  const auto& shape = plan_.shape.sequences[static_cast<std::size_t>(sequence)];
  const std::int64_t keys = plan_.shape.all_keys(shape);
  rows.add(key_rows(plan_, buffers.key, sequence, kv_head, 0), keys, plan_.dims.key_size);
  rows.add(buffers.query.head(sequence, shape.query_begin, kv_head * plan_.group()), shape.queries,
           plan_.dims.key_size);
  rows.add(key_rows(plan_, buffers.value, sequence, kv_head, 0), keys, plan_.dims.value_size);
  return rows;
}

// A few rows pass by every key once: packing would cost more than the products. The kernels for
// that want features side by side, and values that fill whole panels.
bool AttentionForward::reads_unpacked(const AttentionBuffers& buffers,
                                      const RowChunk& chunk) const {
  return chunk.row_end - chunk.row <= kMostUnpackedRows && buffers.query.feature_stride == 1 &&
         buffers.key.feature_stride == 1 && buffers.value.feature_stride == 1 &&
         plan_.dims.value_size % kPanelWidth == 0;
}

// Keys become panels of Kᵀ, values panels of V.
void AttentionForward::pack_block(const AttentionBuffers& buffers, const Head& head,
                                  std::int64_t block) const {
  const std::int64_t key = block * kKeyBlock;
  const std::int64_t keys = head.block_end(block) - key;
  const auto rows = [&](const ConstHeads& heads) {
    return key_rows(plan_, heads, head.sequence, head.kv_head, key);
  };
  (void)kernels_.gemm.pack_panels(plan_.dims.key_size, keys, rows(buffers.key).transposed(),
                                  head.keys_of(block));
  if (!values_in_place(buffers)) {
    (void)kernels_.gemm.pack_panels(keys, plan_.dims.value_size, rows(buffers.value),
                                    head.values_of(block));
  }
}

void AttentionForward::pack_if_needed(const AttentionBuffers& buffers, const Head& head,
                                      std::int64_t block) const {
  if (head.packed == nullptr) return;
  const bool alone = head.key_slot == 0;  // in its place: the block before was another
  if (!alone && head.packed[block - head.first_block]) return;
  pack_block(buffers, head, block);
  if (!alone) head.packed[block - head.first_block] = true;
}

// Rows without gaps that are short enough for the cache are as good as packed.
bool AttentionForward::values_in_place(const AttentionBuffers& buffers) const {
  const std::int64_t dv = plan_.dims.value_size;
  return buffers.value.feature_stride == 1 && buffers.value.row_stride == dv &&
         dv % kPanelWidth == 0 && dv <= 64;
}

void AttentionForward::attend(const Worker& worker, const AttentionBuffers& buffers,
                              const RowChunk& chunk, const Head& head) const {
  for_each_group(chunk.row, chunk.row_end, kernels_.gemm.tile_rows, kGroupTiles,
                 [&](std::int64_t first, std::int64_t rows) {
                   const RowGroup group(plan_, kernels_, chunk.sequence, head.kv_head, first, rows);
                   attend_group(worker, buffers, head, group, false);
                 });
}

void AttentionForward::attend_group(const Worker& worker, const AttentionBuffers& buffers,
                                    const Head& head, const RowGroup& group, bool careful) const {
  const auto next_attended = [&](std::int64_t block) {
    while (block < head.end_block && !group.attends(block * kKeyBlock, head.block_end(block))) {
      ++block;
    }
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

  prefetch_for_writing(output, group.rows(), dv);
  const std::int64_t first = next_attended(head.first_block);
  bool not_finite = false;
  for (std::int64_t block = first; block < head.end_block;) {
    const std::int64_t next = next_attended(block + 1);
    attend_block(
        worker, buffers, group,
        {head, block, query, output, block == first, next >= head.end_block, careful, not_finite});
    block = next;
  }
  if (first >= head.end_block) {  // rows that attend nothing are 0
    for (std::int64_t row = 0; row < group.rows(); ++row) {
      for (std::int64_t i = 0; i < dv; ++i) output(row, i) = 0.0F;
    }
  }
  if (not_finite && !careful) {
    attend_group(worker, buffers, head, group, true);
    return;
  }
  if (in_place.data == nullptr) group.scatter(worker.output, dv, buffers.output);
  group.store_rows(rows.reference, buffers.row_reference);
  group.store_rows(rows.sum, buffers.row_sum);
}

// Scores, softmax, dropout, and heads = heads · rescale + P · V; at the end, / sum.
void AttentionForward::attend_block(const Worker& worker, const AttentionBuffers& buffers,
                                    const RowGroup& group, const BlockCall& call) const {
  const std::int64_t dk = plan_.dims.key_size;
  const Head& head = call.head;
  const std::int64_t key = call.block * kKeyBlock;
  const ScoreBlock scores = group.open(key, head.block_end(call.block), worker.scores);
  if (head.unpacked) {
    group.score_unpacked(scores, call.query,
                         key_rows(plan_, buffers.key, head.sequence, head.kv_head, key),
                         worker.scores);
  } else {
    pack_if_needed(buffers, head, call.block);
    group.score(scores, call.query, kernels::packed_panels(head.keys_of(call.block), dk),
                worker.scores, head.ahead);
  }
  const kernels::SoftmaxRows& rows = worker.rows;
  kernels_.tile.online_softmax(scores.tile, plan_.rule.factor, worker.scores.row_max, rows);
  group.drop(scores, scores.tile.values);
  if (call.last) {
    for (std::int64_t row = 0; row < group.rows(); ++row) {
      worker.inverse[row] = rows.sum[row] == 0.0F ? 0.0F : 1.0F / rows.sum[row];
    }
  }
  if (head.unpacked) {
    clear_outside_spans(scores.tile, kernels_.gemm.tile_rows, scores.tile.values, 0.0F);
    add_unpacked_values(worker, buffers, scores, call);
  } else {
    add_values(worker, buffers, scores, call);
  }
}

// Where they are, the ordinary product is right, and faster.
bool AttentionForward::values_finite(const AttentionBuffers& buffers, const ScoreBlock& scores,
                                     const BlockCall& call) const {
  const auto values =
      key_rows(plan_, buffers.value, call.head.sequence, call.head.kv_head, scores.key);
  return all_finite(values, scores.tile.keys, plan_.dims.value_size);
}

void AttentionForward::add_values(const Worker& worker, const AttentionBuffers& buffers,
                                  const ScoreBlock& scores, const BlockCall& call) const {
  const Head& head = call.head;
  const std::int64_t dv = plan_.dims.value_size;
  kernels::Panels values = kernels::packed_panels(head.values_of(call.block), scores.tile.keys);
  if (values_in_place(buffers)) {
    values = kernels::panels_in_place(
        key_rows(plan_, buffers.value, head.sequence, head.kv_head, scores.key));
  }
  kernels::Product product{
      .rows = scores.tile.rows,
      .columns = dv,
      .depth = scores.tile.keys,
      .a = {scores.tile.values, scores.tile.stride, 1},
      .b = values,
      .c = {worker.heads, dv, 1},
      .zero_annihilates = call.careful && !values_finite(buffers, scores, call),
      .depth_of_tile = scores.tile.spans,
      .ahead = head.ahead};
  if (!call.first) {
    product.start = {worker.heads, dv, 1};
    product.row_before = worker.rows.rescale;
  }
  if (call.last) {
    product.c = call.output;
    product.row_after = worker.inverse;
    product.not_finite = &call.not_finite;
  }
  kernels_.gemm.multiply(product);
}

// V as it lies in memory, some keys at a time so that their rows are in the cache for all columns; a
// register tile of one row spans a narrow head at once.
void AttentionForward::add_unpacked_values(const Worker& worker, const AttentionBuffers& buffers,
                                           const ScoreBlock& scores, const BlockCall& call) const {
  const Head& head = call.head;
  const std::int64_t dv = plan_.dims.value_size;
  const std::int64_t keys = scores.tile.rows == 1 && dv <= 64 ? kKeyBlock : 32;
  const kernels::MatrixView values =
      key_rows(plan_, buffers.value, head.sequence, head.kv_head, scores.key);
  const bool careful = call.careful && !values_finite(buffers, scores, call);
  for (std::int64_t key = 0; key < scores.tile.keys; key += keys) {
    const bool whole_start = key == 0 && call.first;
    kernels::Product product{
        .rows = scores.tile.rows,
        .columns = dv,
        .depth = std::min(keys, scores.tile.keys - key),
        .a = {scores.tile.values + key, scores.tile.stride, 1},
        .b = kernels::panels_in_place(values.from(key, 0)),
        .c = {worker.heads, dv, 1},
        .start = whole_start ? kernels::MatrixView{} : kernels::MatrixView{worker.heads, dv, 1},
        .row_before = key == 0 && !call.first ? worker.rows.rescale : nullptr,
        .zero_annihilates = careful};
    if (call.last && key + keys >= scores.tile.keys) {
      product.c = call.output;
      product.row_after = worker.inverse;
      product.not_finite = &call.not_finite;
    }
    kernels_.gemm.multiply(product);
  }
}

}  // namespace headwise::ops
