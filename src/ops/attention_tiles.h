// What the passes over scores have in common: tensors of a call and scratch of a worker.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/attention_plan.h"
#include "ops/row_group.h"
#include "runtime/context_state.h"

namespace headwise::ops {

// Tensors of a call. Row numbers are in the order of AttentionPlan::row_index.
struct AttentionBuffers {
  ConstHeads query;
  ConstHeads key;
  ConstHeads value;
  MutableHeads output;
  float* row_reference = nullptr;
  float* row_sum = nullptr;
};

// A region of scratch for every worker, all laid out alike.
class WorkerScratch {
 public:
  std::size_t add_floats(std::int64_t count) { return layout_.add<float>(count); }
  std::size_t add_bytes(std::int64_t count) { return layout_.add<std::uint8_t>(count); }
  // Call once after all pieces were added.
  void claim(runtime::ScratchPlan& plan, int threads) {
    begin_ = plan.add_bytes(threads, layout_.bytes());
  }
  template <typename T>
  [[nodiscard]] T* piece(const runtime::Lease& lease, int worker, std::size_t offset) const {
    return lease.scratch<T>(begin_ + static_cast<std::size_t>(worker) * layout_.bytes() + offset);
  }

 private:
  runtime::ScratchPlan layout_;
  std::size_t begin_ = 0;
};

// Offsets of ScoreBuffers in a worker's scratch.
class ScoreLayout {
 public:
  // Room for `rows` rows and blocks of `keys` keys.
  ScoreLayout(const AttentionPlan& plan, std::int64_t rows, std::int64_t keys,
              WorkerScratch& scratch);
  [[nodiscard]] ScoreBuffers buffers(const WorkerScratch& scratch, const runtime::Lease& lease,
                                     int worker) const;
  [[nodiscard]] std::int64_t stride() const { return stride_; }

 private:
  // Rows a power of two apart would compete for the same few places of the first cache.
  std::int64_t stride_;
  std::size_t scores_, bias_, keep_, slope_, row_max_;
};

// Scores that no span covers were never written; what reads whole rows needs zeros or −∞ there.
void clear_outside_spans(const kernels::ScoreTile& tile, std::int64_t tile_rows, float* values,
                         float with);

// Keys [key, key_end) of a key/value head, as rows.
kernels::MatrixView key_rows(const AttentionPlan& plan, const ConstHeads& heads,
                             std::int64_t sequence, std::int64_t kv_head, std::int64_t key);

// The rows of a group: in place, or copied to `dense`.
kernels::MatrixView query_rows(const RowGroup& group, const ConstHeads& heads,
                               std::int64_t features, float* dense);

// Calls visit(first, rows) for groups of at most `tiles` register tiles that cover [row, row_end),
// all about equally high.
template <typename Visit>
void for_each_group(std::int64_t row, std::int64_t row_end, std::int64_t tile_rows,
                    std::int64_t tiles, Visit visit) {
  const kernels::RowTiles all(row_end - row, tile_rows);
  for (std::int64_t tile = 0; tile < all.count; tile += tiles) {
    const std::int64_t last = tile + tiles < all.count ? tile + tiles : all.count;
    visit(row + all.row(tile), all.row(last) - all.row(tile));
  }
}

}  // namespace headwise::ops
