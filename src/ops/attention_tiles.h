// What the passes over scores have in common: scratch of a worker, and one tile from mask to score.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/attention/tile.h"
#include "masks/score_shape.h"
#include "ops/attention_plan.h"
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

// kRowBlock × kKeyBlock numbers.
inline constexpr std::int64_t kTileSize = kRowBlock * kKeyBlock;

struct TileBuffers {
  float* scores = nullptr;
  float* bias = nullptr;
  std::uint8_t* keep = nullptr;
};

// Offsets of TileBuffers in a worker's scratch.
struct TileLayout {
  TileLayout(const AttentionPlan& plan, WorkerScratch& scratch);
  [[nodiscard]] TileBuffers buffers(const WorkerScratch& scratch, const runtime::Lease& lease,
                                    int worker) const;
  std::size_t scores, bias, keep;
};

// Asks the mask and the biases about a tile. False: nothing in it is attended.
bool open_tile(const AttentionPlan& plan, const masks::TileRange& range, const TileBuffers& buffers,
               kernels::ScoreTile& tile);

// Scores of an opened tile: products, scale, softcap, bias. `slope`: see finish_scores.
void score_tile(const AttentionPlan& plan, const kernels::ScoreTile& tile,
                kernels::MatrixView query_rows, const float* key_panels, float* slope);

// Packs keys [range.key, range.key_end) of a key/value head, transposed, for Q·Kᵀ (or dO·Vᵀ).
bool pack_transposed(const AttentionPlan& plan, const ConstHeads& heads,
                     const masks::TileRange& range, std::int64_t features, float* panels);
// The same keys as rows, for P·V (or dS·K).
bool pack_rows(const AttentionPlan& plan, const ConstHeads& heads, const masks::TileRange& range,
               std::int64_t features, float* panels);

// Rows of a query-side tensor (query, output, its gradient) that a tile covers.
template <typename T>
kernels::StridedMatrix<T> query_rows(const AttentionPlan& plan, const HeadTensor<T>& heads,
                                     const masks::TileRange& range) {
  const auto& sequence = plan.shape.sequences[static_cast<std::size_t>(range.sequence)];
  return heads.head(range.sequence, sequence.query_begin + range.row, range.head);
}
// Rows of a key-side tensor that a tile covers; the head is that of the tile's group.
template <typename T>
kernels::StridedMatrix<T> key_rows(const AttentionPlan& plan, const HeadTensor<T>& heads,
                                   const masks::TileRange& range) {
  const auto& sequence = plan.shape.sequences[static_cast<std::size_t>(range.sequence)];
  return heads.head(range.sequence, sequence.key_begin + range.key, range.head / plan.group());
}

// Calls visit(range) for the key blocks of a sequence, with rows and head as in `range`.
template <typename Visit>
void for_each_key_block(const AttentionPlan& plan, masks::TileRange range, Visit visit) {
  const auto& sequence = plan.shape.sequences[static_cast<std::size_t>(range.sequence)];
  const std::int64_t keys = plan.shape.all_keys(sequence);
  for (range.key = 0; range.key < keys; range.key += kKeyBlock) {
    range.key_end = range.key + kKeyBlock < keys ? range.key + kKeyBlock : keys;
    visit(range);
  }
}

}  // namespace headwise::ops
