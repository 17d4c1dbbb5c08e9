#include "ops/attention_backward.h"

#include <algorithm>
#include <limits>
#include <thread>

#include "base/check.h"
#include "ops/copy_row.h"

namespace headwise::ops {

using kernels::kPanelWidth;
using kernels::packed_size;

namespace {

// Sums over a group's rows are as deep as it is high: it should not be low.
constexpr std::int64_t kGroupRows = kMostRows;
constexpr std::int64_t kChunkBlocks = 2;
constexpr std::int64_t kChunkKeys = kChunkBlocks * kBackwardKeys;

}  // namespace

GradientTiles::GradientTiles(const AttentionPlan& plan, const kernels::Kernels& kernels,
                             WorkerScratch& scratch)
    : plan_(plan),
      kernels_(kernels),
      group_tiles_(kGroupRows / kernels.gemm.tile_rows),
      group_rows_(group_tiles_ * kernels.gemm.tile_rows),
      scores_(plan, group_rows_, kBackwardKeys, scratch),
      gradient_(scratch.add_floats(group_rows_ * scores_.stride())),
      query_(scratch.add_floats(group_rows_ * plan.dims.key_size)),
      output_gradient_(scratch.add_floats(group_rows_ * plan.dims.value_size)),
      reference_(scratch.add_floats(group_rows_)),
      inverse_sum_(scratch.add_floats(group_rows_)),
      delta_(scratch.add_floats(group_rows_)) {}

GradientTiles::Worker GradientTiles::worker(const WorkerScratch& scratch,
                                            const runtime::Lease& lease, int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch.piece<float>(lease, index, offset);
  };
  return {scores_.buffers(scratch, lease, index),
          floats(gradient_),
          floats(query_),
          floats(output_gradient_),
          floats(reference_),
          floats(inverse_sum_),
          floats(delta_)};
}

GradientTiles::Rows GradientTiles::open_rows(const Worker& worker, const BackwardBuffers& buffers,
                                             const RowGroup& group, const float* delta) const {
  group.load_rows(buffers.row_reference, worker.reference);
  group.load_rows(buffers.row_sum, worker.inverse_sum);
  group.load_rows(delta, worker.delta);
  for (std::int64_t row = 0; row < group.rows(); ++row) {
    float& sum = worker.inverse_sum[row];
    sum = sum == 0.0F ? 0.0F : 1.0F / sum;
  }
  return {
      query_rows(group, buffers.query, plan_.dims.key_size, worker.query),
      query_rows(group, buffers.output_gradient, plan_.dims.value_size, worker.output_gradient)};
}

ScoreBlock GradientTiles::compute(const Worker& worker, const RowGroup& group, const Rows& rows,
                                  const Keys& keys, bool of_products) const {
  const ScoreBlock block = group.open(keys.key, keys.key_end, worker.scores);
  group.score(block, rows.query, keys.key_panels, worker.scores);
  kernels_.tile.probabilities(block.tile, plan_.rule.factor, worker.reference, worker.inverse_sum);

  kernels::ScoreTile gradient = block.tile;
  gradient.values = worker.gradient;
  kernels_.gemm.multiply_scores({.rows = gradient.rows,
                                 .columns = gradient.keys,
                                 .depth = plan_.dims.value_size,
                                 .a = rows.output_gradient,
                                 .b = keys.value_panels,
                                 .scores = gradient.values,
                                 .score_stride = gradient.stride,
                                 .columns_of_tile = gradient.spans});
  group.drop(block, gradient.values);
  kernels_.tile.score_gradient(gradient, block.tile.values,
                               of_products ? block.extras.slope : nullptr, worker.delta,
                               of_products ? plan_.rule.scale : 1.0F);
  return block;
}

// The keys of one task.
struct AttentionBackward::Chunk {
  std::int64_t sequence, kv_head;
  std::int64_t key, key_end;
};

struct AttentionBackward::Worker {
  GradientTiles::Worker tiles;
  float* key_columns;    // Kᵀ of the chunk's blocks
  float* value_columns;  // Vᵀ
  float* key_rows;       // K, for dS·K
  float* query_rows;     // Q of a row group, for dSᵀ·Q
  float* output_rows;    // dO, for P̃ᵀ·dO
  float* key_gradient;   // of the chunk
  float* value_gradient;
  float* query_gradient;  // gathered rows
  const float* delta;
  bool keys_finite = true;
  bool begun[kChunkBlocks] = {};  // blocks whose gradients hold something
};

AttentionBackward::AttentionBackward(const AttentionPlan& plan, const runtime::Lease& lease,
                                     runtime::ScratchPlan& scratch)
    : plan_(plan),
      kernels_(lease.kernels()),
      chunks_(base::divide_up(plan.longest_keys(), kChunkKeys)),
      tiles_(plan, kernels_, scratch_),
      delta_(scratch.add<float>(plan.row_count())),
      progress_(scratch.add<Progress>(chunks_ * plan.shape.batch() * plan.dims.kv_heads)) {
  const std::int64_t dk = plan.dims.key_size;
  const std::int64_t dv = plan.dims.value_size;
  const std::int64_t rows = tiles_.group_rows();
  key_columns_ = scratch_.add_floats(kChunkBlocks * packed_size(dk, kBackwardKeys));
  value_columns_ = scratch_.add_floats(kChunkBlocks * packed_size(dv, kBackwardKeys));
  key_rows_ = scratch_.add_floats(kChunkBlocks * packed_size(kBackwardKeys, dk));
  query_rows_ = scratch_.add_floats(packed_size(rows, dk));
  output_rows_ = scratch_.add_floats(packed_size(rows, dv));
  key_gradient_ = scratch_.add_floats(kChunkKeys * dk);
  value_gradient_ = scratch_.add_floats(kChunkKeys * dv);
  query_gradient_ = scratch_.add_floats(rows * dk);
  scratch_.claim(scratch, lease.threads());
}

void AttentionBackward::run(const runtime::Lease& lease, const BackwardBuffers& buffers) const {
  if (plan_.group() == 0) return;
  compute_delta(lease, buffers);
  const std::int64_t tasks = chunks_ * plan_.shape.batch() * plan_.dims.kv_heads;
  auto* progress = lease.scratch<Progress>(progress_);
  for (std::int64_t task = 0; task < tasks; ++task) new (progress + task) Progress(0);
  lease.parallel_for(
      tasks, [&](std::int64_t task, int index) { differentiate(lease, buffers, task, index); });
}

void AttentionBackward::compute_delta(const runtime::Lease& lease,
                                      const BackwardBuffers& buffers) const {
  auto* delta = lease.scratch<float>(delta_);
  const auto chunks = static_cast<std::int64_t>(plan_.row_chunks.size());
  lease.parallel_for(chunks * plan_.dims.kv_heads, [&](std::int64_t task, int) {
    const RowChunk& chunk = plan_.row_chunks[static_cast<std::size_t>(task / plan_.dims.kv_heads)];
    for_each_group(
        chunk.row, chunk.row_end, kMostRows, 1, [&](std::int64_t first, std::int64_t rows) {
          const RowGroup group =
              tiles_.group(chunk.sequence, task % plan_.dims.kv_heads, first, rows);
          group.for_each_segment([&](const RowSegment& segment) {
            const std::int64_t begin =
                plan_.shape.sequences[static_cast<std::size_t>(chunk.sequence)].query_begin;
            const auto rows_of = [&](const ConstHeads& heads) {
              return heads.head(chunk.sequence, begin + segment.row, segment.head);
            };
            kernels_.tile.row_dots(
                segment.count, plan_.dims.value_size, rows_of(buffers.output),
                rows_of(buffers.output_gradient),
                delta + plan_.row_index(chunk.sequence, segment.head, segment.row));
          });
        });
  });
}

void AttentionBackward::differentiate(const runtime::Lease& lease, const BackwardBuffers& buffers,
                                      std::int64_t task, int index) const {
  auto* progress = lease.scratch<Progress>(progress_) + task;
  // All heads' first keys, then all heads' next: the task before is nearly always done.
  const std::int64_t units = plan_.shape.batch() * plan_.dims.kv_heads;
  const std::int64_t unit = task % units;
  const std::int64_t key = task / units * kChunkKeys;
  const std::int64_t sequence = unit / plan_.dims.kv_heads;
  const auto& shape = plan_.shape.sequences[static_cast<std::size_t>(sequence)];
  const std::int64_t key_end = std::min(key + kChunkKeys, plan_.shape.all_keys(shape));
  if (key >= key_end) return;  // a shorter sequence than others
  const Chunk chunk{sequence, unit % plan_.dims.kv_heads, key, key_end};

  const auto floats = [&](std::size_t offset) {
    return scratch_.piece<float>(lease, index, offset);
  };
  Worker worker{tiles_.worker(scratch_, lease, index),
                floats(key_columns_),
                floats(value_columns_),
                floats(key_rows_),
                floats(query_rows_),
                floats(output_rows_),
                floats(key_gradient_),
                floats(value_gradient_),
                floats(query_gradient_),
                lease.scratch<float>(delta_)};
  worker.keys_finite = pack_keys(worker, buffers, chunk);
  const std::int64_t rows = shape.queries * plan_.group();
  for_each_group(0, rows, tiles_.tile_rows(), tiles_.group_tiles(),
                 [&](std::int64_t first, std::int64_t count) {
                   const RowGroup group = tiles_.group(sequence, chunk.kv_head, first, count);
                   // The wave: keys before these have been added to the rows.
                   const auto wait = [&] {
                     if (key == 0) return;
                     while (progress[-units].load(std::memory_order_acquire) < first + count) {
                       std::this_thread::yield();
                     }
                   };
                   if (group.attends(key, key_end)) {
                     visit_rows(worker, buffers, chunk, group, wait);
                   } else {
                     wait();
                   }
                   progress->store(first + count, std::memory_order_release);
                 });
  store_keys(worker, buffers, chunk);
}

bool AttentionBackward::pack_keys(const Worker& worker, const BackwardBuffers& buffers,
                                  const Chunk& chunk) const {
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  bool finite = true;
  for (std::int64_t i = 0; chunk.key + i * kBackwardKeys < chunk.key_end; ++i) {
    const std::int64_t key = chunk.key + i * kBackwardKeys;
    const std::int64_t keys = std::min(kBackwardKeys, chunk.key_end - key);
    const auto k = key_rows(plan_, buffers.key, chunk.sequence, chunk.kv_head, key);
    const auto v = key_rows(plan_, buffers.value, chunk.sequence, chunk.kv_head, key);
    const auto& pack = kernels_.gemm.pack_panels;
    (void)pack(dk, keys, k.transposed(), worker.key_columns + i * packed_size(dk, kBackwardKeys));
    (void)pack(dv, keys, v.transposed(), worker.value_columns + i * packed_size(dv, kBackwardKeys));
    finite = pack(keys, dk, k, worker.key_rows + i * packed_size(kBackwardKeys, dk)) && finite;
  }
  return finite;
}

template <typename Wait>
void AttentionBackward::visit_rows(Worker& worker, const BackwardBuffers& buffers,
                                   const Chunk& chunk, const RowGroup& group, Wait wait) const {
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  const GradientTiles::Rows rows = tiles_.open_rows(worker.tiles, buffers, group, worker.delta);
  const auto& pack = kernels_.gemm.pack_panels;
  const bool query_finite = pack(group.rows(), dk, rows.query, worker.query_rows);
  const bool output_finite = pack(group.rows(), dv, rows.output_gradient, worker.output_rows);
  auto query_gradient = group.in_place(buffers.query_gradient);
  const bool gathered = query_gradient.data == nullptr;
  if (gathered) query_gradient = {worker.query_gradient, dk, 1};

  bool waited = false;
  for (std::int64_t i = 0; chunk.key + i * kBackwardKeys < chunk.key_end; ++i) {
    const std::int64_t key = chunk.key + i * kBackwardKeys;
    const std::int64_t key_end = std::min(key + kBackwardKeys, chunk.key_end);
    if (!group.attends(key, key_end)) continue;
    const ScoreBlock block = tiles_.compute(
        worker.tiles, group, rows,
        {key, key_end,
         kernels::packed_panels(worker.key_columns + i * packed_size(dk, kBackwardKeys), dk),
         kernels::packed_panels(worker.value_columns + i * packed_size(dv, kBackwardKeys), dv)},
        true);
    float* p = block.tile.values;
    float* ds = worker.tiles.gradient;
    group.drop(block, p);
    clear_outside_spans(block.tile, kernels_.gemm.tile_rows, p, 0.0F);
    clear_outside_spans(block.tile, kernels_.gemm.tile_rows, ds, 0.0F);
    const std::int64_t keys = key_end - key;
    const std::int64_t first_key = i * kBackwardKeys;
    const kernels::MutableMatrix dv_rows{worker.value_gradient + first_key * dv, dv, 1};
    kernels_.gemm.multiply({.rows = keys,
                            .columns = dv,
                            .depth = group.rows(),
                            .a = {p, 1, block.tile.stride},
                            .b = kernels::packed_panels(worker.output_rows, group.rows()),
                            .c = dv_rows,
                            .start = {worker.begun[i] ? dv_rows.data : nullptr, dv, 1},
                            .zero_annihilates = !output_finite});
    const kernels::MutableMatrix dk_rows{worker.key_gradient + first_key * dk, dk, 1};
    kernels_.gemm.multiply({.rows = keys,
                            .columns = dk,
                            .depth = group.rows(),
                            .a = {ds, 1, block.tile.stride},
                            .b = kernels::packed_panels(worker.query_rows, group.rows()),
                            .c = dk_rows,
                            .start = {worker.begun[i] ? dk_rows.data : nullptr, dk, 1},
                            .zero_annihilates = !query_finite});
    worker.begun[i] = true;
    if (!waited) {
      wait();
      if (gathered) group.gather(buffers.query_gradient, dk, worker.query_gradient);
      waited = true;
    }
    const float* k = worker.key_rows + i * packed_size(kBackwardKeys, dk);
    kernels_.gemm.multiply(
        {.rows = group.rows(),
         .columns = dk,
         .depth = keys,
         .a = {ds, block.tile.stride, 1},
         .b = kernels::packed_panels(k, keys),
         .c = query_gradient,
         .start = {query_gradient.data, query_gradient.row_stride, query_gradient.column_stride},
         .zero_annihilates = !worker.keys_finite});
  }
  if (!waited) wait();
  if (gathered && waited) group.scatter(worker.query_gradient, dk, buffers.query_gradient);
}

void AttentionBackward::store_keys(const Worker& worker, const BackwardBuffers& buffers,
                                   const Chunk& chunk) const {
  const auto& shape = plan_.shape.sequences[static_cast<std::size_t>(chunk.sequence)];
  for (std::int64_t i = 0; chunk.key + i * kBackwardKeys < chunk.key_end; ++i) {
    const std::int64_t key = chunk.key + i * kBackwardKeys;
    const std::int64_t keys = std::min(kBackwardKeys, chunk.key_end - key);
    const auto store = [&](float* gradient, std::int64_t features, const MutableHeads& heads) {
      const auto to = heads.head(chunk.sequence, shape.key_begin + key, chunk.kv_head);
      float* from = gradient + i * kBackwardKeys * features;
      if (!worker.begun[i]) std::fill_n(from, keys * features, 0.0F);  // no row attends these keys
      for (std::int64_t row = 0; row < keys; ++row) {
        copy_row({from + row * features}, features, to.from(row, 0));
      }
    };
    store(worker.key_gradient, plan_.dims.key_size, buffers.key_gradient);
    store(worker.value_gradient, plan_.dims.value_size, buffers.value_gradient);
  }
}

}  // namespace headwise::ops
