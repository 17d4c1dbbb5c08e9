// Matrix products on one thread: C = A·B [+ bias], or C += A·B.
//
// One register tile serves the projections, Q·Kᵀ, P·V and every product of the backward pass.
// A is read in place with any strides. B comes in panels of kPanelWidth columns,
// [columns / kPanelWidth][depth][kPanelWidth], the last panel padded with zeros. The layout is the
// same for every CPU, so a matrix packed once serves all of them.
//
// Every element of C is one chain of fused multiply-adds over the depth, in order; so its bits
// depend on its own row and column alone, never on how many rows share the call, nor on the tile.
#pragma once

#include <cstdint>

#include "base/saturating.h"

namespace headwise::kernels {

inline constexpr std::int64_t kPanelWidth = 16;

template <typename T>
struct StridedMatrix {
  T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 1;

  [[nodiscard]] T& operator()(std::int64_t row, std::int64_t column) const {
    return data[row * row_stride + column * column_stride];
  }
  [[nodiscard]] StridedMatrix transposed() const { return {data, column_stride, row_stride}; }
  [[nodiscard]] StridedMatrix from(std::int64_t row, std::int64_t column) const {
    return {data + row * row_stride + column * column_stride, row_stride, column_stride};
  }
};
using MatrixView = StridedMatrix<const float>;
using MutableMatrix = StridedMatrix<float>;

// Numbers that packing (depth × columns) takes.
constexpr std::int64_t panel_count(std::int64_t columns) {
  return columns / kPanelWidth + (columns % kPanelWidth == 0 ? 0 : 1);
}
constexpr std::int64_t packed_size(std::int64_t depth, std::int64_t columns) {
  return base::saturating_product(depth,
                                  base::saturating_product(panel_count(columns), kPanelWidth));
}

// How rows are cut into register tiles: as few as possible, and all about equally high, because a
// low tile at the end would run at a fraction of the speed.
struct RowTiles {
  std::int64_t count = 0;
  std::int64_t height = 0;  // of the last ones; the first `higher` have one row more
  std::int64_t higher = 0;

  RowTiles(std::int64_t rows, std::int64_t highest)
      : count((rows + highest - 1) / highest),
        height(count == 0 ? 0 : rows / count),
        higher(count == 0 ? 0 : rows % count) {}
  [[nodiscard]] std::int64_t row(std::int64_t tile) const {
    return tile * height + (tile < higher ? tile : higher);
  }
};

// What part of a product's columns or depth a row tile needs: multiples of kPanelWidth, but for the
// end of everything.
struct TileSpan {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// B of a product: panels one after the other, or side by side in a row-major matrix used in place.
struct Panels {
  const float* data = nullptr;
  std::int64_t panel_stride = 0;
  std::int64_t row_stride = kPanelWidth;
};
inline Panels packed_panels(const float* data, std::int64_t depth) {
  return {data, depth * kPanelWidth, kPanelWidth};
}
// Rows of unit stride whose columns fill whole panels need no packing.
inline Panels panels_in_place(MatrixView b) { return {b.data, kPanelWidth, b.row_stride}; }

// Rows that will be needed soon, by other products: each register tile that is handed a cursor
// fetches pieces of them into the second cache on the way, some numbers per step of its loop. (All
// at once they would stand in the way of what is needed now.)
class RowCursor {
 public:
  static constexpr std::int64_t kSteps = 64;  // of a piece

  explicit RowCursor(std::int64_t numbers_per_step = 1) : numbers_per_step_(numbers_per_step) {}
  [[nodiscard]] std::int64_t numbers_per_step() const { return numbers_per_step_; }

  // Rows of unit stride.
  void add(MatrixView rows, std::int64_t count, std::int64_t features) {
    if (count > 0) parts_[parts_added_++] = {rows, count, features};
  }
  // The next piece; at the end, the last one again and again.
  const float* next() {
    Part& part = parts_[part_];
    const float* piece = part.rows.data + column_;
    column_ += kSteps * numbers_per_step_;
    if (column_ >= part.features) {
      column_ = 0;
      if (--part.count > 0) {
        part.rows.data += part.rows.row_stride;
      } else {
        part.count = 1;
        if (part_ + 1 < parts_added_) ++part_;
      }
    }
    return piece;
  }

 private:
  struct Part {
    MatrixView rows;
    std::int64_t count = 0, features = 0;
  };
  static constexpr int kMostParts = 3;
  Part parts_[kMostParts];
  int parts_added_ = 0, part_ = 0;
  std::int64_t numbers_per_step_;
  std::int64_t column_ = 0;
};

struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a;                       // (rows, depth)
  Panels b;                           // (depth, columns)
  MutableMatrix c;                    // (rows, columns)
  MatrixView start = {};              // what C starts from, perhaps C itself; null: zero
  const float* row_before = nullptr;  // (rows): the start is multiplied by this; null: 1
  const float* bias = nullptr;        // (columns), added at the end; null: none
  const float* row_after = nullptr;   // (rows): the result is multiplied by this; null: 1
  // A factor of exactly 0 makes a term 0 even if the other one is not finite. Slow; for data that
  // is hidden behind zeros and may be NaN.
  bool zero_annihilates = false;
  bool* not_finite = nullptr;               // set if the result is not; null: not asked
  const TileSpan* depth_of_tile = nullptr;  // for each of RowTiles; null: all
  RowCursor* ahead = nullptr;               // null: fetches its own B ahead
};

// Q·Kᵀ. Scores are written by whole panels, the columns beyond `columns` as −∞; and row_max
// (rows × kPanelWidth) becomes the larger of itself and the scores, lane by lane.
struct ScoreProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a;  // (rows, depth)
  Panels b;      // (depth, columns)
  float* scores = nullptr;
  std::int64_t score_stride = 0;
  float* row_max = nullptr;                   // null: not wanted
  const TileSpan* columns_of_tile = nullptr;  // for each of RowTiles; null: all
  RowCursor* ahead = nullptr;
};

// Few queries against keys as they lie in memory: the same scores, bit for bit, without packing.
// For a row or a few that pass by every key once, packing would cost more than the product.
struct FewRowsProduct {
  std::int64_t rows = 0;  // any number, but they take kFewRows at a time
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a;  // (rows, depth); rows of unit stride, as those of b
  MatrixView b;  // (columns, depth)
  float* scores = nullptr;
  std::int64_t score_stride = 0;
  float* row_max = nullptr;
};
inline constexpr std::int64_t kFewRows = 4;

struct GemmKernels {
  std::int64_t tile_rows = 0;     // of the highest register tile
  std::int64_t tile_columns = 0;  // beside it
  // Packs B (depth × columns). Returns whether all of it is finite: zero times that is zero.
  bool (*pack_panels)(std::int64_t depth, std::int64_t columns, MatrixView b, float* panels);
  void (*multiply)(const Product& product);
  void (*multiply_scores)(const ScoreProduct& product);
  void (*multiply_few_rows)(const FewRowsProduct& product);
};

}  // namespace headwise::kernels
