// Rows that share a key/value head, and their scores against one block of keys.
//
// The query heads of a group are stacked: row u of the stack is query u % T of the group's head
// u / T. So a group of heads with one query each fills one register tile, and reads K and V once.
#pragma once

#include <cstdint>

#include "kernels/kernels.h"
#include "masks/resolved_mask.h"
#include "ops/attention_plan.h"

namespace headwise::ops {

// Most rows that are worked on at once, and most register tiles: of two rows each, as on the CPUs
// with the fewest registers.
inline constexpr std::int64_t kMostRows = 96;
inline constexpr std::int64_t kMostTiles = kMostRows / 2;

// Rows of a sequence that belong to one head.
struct RowSegment {
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t count = 0;
  std::int64_t offset = 0;  // in the group
};

// One key block of a row group, opened for its scores.
struct ScoreBlock {
  std::int64_t key = 0;  // first key
  kernels::ScoreTile tile = {};
  kernels::ScoreExtras extras = {};
  bool finish = false;  // needs finish_scores
};

// Memory of a worker for one ScoreBlock.
struct ScoreBuffers {
  float* scores = nullptr;  // rows × stride
  float* bias = nullptr;
  std::uint8_t* keep = nullptr;
  float* slope = nullptr;
  float* row_max = nullptr;  // rows × kPanelWidth
  std::int64_t stride = 0;   // from row to row; room for the largest block
};

class RowGroup {
 public:
  // Rows [first, first + rows) of the stack.
  RowGroup(const AttentionPlan& plan, const kernels::Kernels& kernels, std::int64_t sequence,
           std::int64_t kv_head, std::int64_t first, std::int64_t rows);

  [[nodiscard]] std::int64_t kv_head() const { return kv_head_; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }

  // Calls visit(RowSegment) for each head that the rows belong to.
  template <typename Visit>
  void for_each_segment(Visit visit) const {
    for (std::int64_t offset = 0; offset < rows_;) {
      const std::int64_t stacked = first_ + offset;
      const std::int64_t row = stacked % queries_;
      const std::int64_t count = row + rows_ - offset < queries_ ? rows_ - offset : queries_ - row;
      visit(RowSegment{kv_head_ * plan_.group() + stacked / queries_, row, count, offset});
      offset += count;
    }
  }

  // The rows of a query-side tensor as one matrix, if memory allows; data is null if it does not.
  template <typename T>
  [[nodiscard]] kernels::StridedMatrix<T> in_place(const HeadTensor<T>& heads) const;
  // Copies them to `dense` (rows × features), or back.
  void gather(const ConstHeads& heads, std::int64_t features, float* dense) const;
  void scatter(const float* dense, std::int64_t features, const MutableHeads& heads) const;

  // Where the rows' numbers stand in a (B,H,T) array: copies between it and `values` (rows).
  void load_rows(const float* all, float* values) const;
  void store_rows(const float* values, float* all) const;

  // Whether any row attends any of these keys.
  [[nodiscard]] bool attends(std::int64_t key, std::int64_t key_end) const;
  // Asks masks and biases about a block that is attended.
  ScoreBlock open(std::int64_t key, std::int64_t key_end, const ScoreBuffers& buffers) const;
  // Scores of an opened block.
  void score(const ScoreBlock& block, kernels::MatrixView queries, const kernels::Panels& keys,
             const ScoreBuffers& buffers, kernels::RowCursor* ahead = nullptr) const;
  // The same from rows of keys, unpacked, for a few rows of queries.
  void score_unpacked(const ScoreBlock& block, kernels::MatrixView queries,
                      kernels::MatrixView keys, const ScoreBuffers& buffers) const;
  // Zeroes what dropout takes from a tile of the block's shape.
  void drop(const ScoreBlock& block, float* values) const;

 private:
  void finish(const ScoreBlock& block, const ScoreBuffers& buffers) const;
  [[nodiscard]] const masks::Sequence& shape() const {
    return plan_.shape.sequences[static_cast<std::size_t>(sequence_)];
  }
  bool set_spans(std::int64_t key, std::int64_t key_end) const;
  void set_keep(ScoreBlock& block, std::int64_t key_end, const ScoreBuffers& buffers) const;
  void set_bias(ScoreBlock& block, std::int64_t key_end, const ScoreBuffers& buffers) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  std::int64_t sequence_, kv_head_, first_, rows_, queries_;
  kernels::RowTiles tiles_;
  bool limited_;                       // by ranges; else every row attends every key
  masks::KeyRange ranges_[kMostRows];  // own keys of each row
  bool present_[kMostRows];            // sees the tail
  masks::KeyRange all_;                // of all rows together
  bool any_present_ = false;
  mutable kernels::TileSpan spans_[kMostTiles];  // of the block opened last
};

template <typename T>
kernels::StridedMatrix<T> RowGroup::in_place(const HeadTensor<T>& heads) const {
  const std::int64_t head = kv_head_ * plan_.group() + first_ / queries_;
  const auto matrix = heads.head(sequence_, shape().query_begin + first_ % queries_, head);
  if (first_ / queries_ == (first_ + rows_ - 1) / queries_) return matrix;
  if (queries_ == 1) return {matrix.data, heads.head_stride, heads.feature_stride};
  return {};
}

}  // namespace headwise::ops
