// Matrix products on one thread: C = A·B [+ bias], or C += A·B.
//
// One register tile serves the projections, Q·Kᵀ, P·V and every product of the backward pass.
// A is read in place with any strides. B is packed once into panels of kPanelWidth columns,
// [columns / kPanelWidth][depth][kPanelWidth], the last panel padded with zeros.
//
// Every element of C is one chain of multiply-adds over the depth, in order; so its bits depend on
// its own row and column alone, never on how many rows share the call.
#pragma once

#include <cstdint>

namespace headwise::kernels {

inline constexpr std::int64_t kPanelWidth = 8;
inline constexpr std::int64_t kTileRows = 4;

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
using ByteMatrix = StridedMatrix<const std::uint8_t>;

// Numbers that packing (depth × columns) takes.
constexpr std::int64_t panel_count(std::int64_t columns) {
  return (columns + kPanelWidth - 1) / kPanelWidth;
}
constexpr std::int64_t packed_size(std::int64_t depth, std::int64_t columns) {
  return depth * panel_count(columns) * kPanelWidth;
}

// Packs B (depth × columns). Returns whether all of it is finite: zero times that is zero.
bool pack_panels(std::int64_t depth, std::int64_t columns, MatrixView b, float* panels);

struct Product {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  MatrixView a;                   // (rows, depth)
  const float* panels = nullptr;  // packed (depth, columns)
  MutableMatrix c;                // (rows, columns)
  const float* bias = nullptr;    // (columns), added at the end; null: none
  bool accumulate = false;        // start from C instead of zero
};

void multiply(const Product& product);

// The same, but a term whose `keep` (rows × depth) is 0 does not take part, even where B is not
// finite and zero times it would be NaN. Slow; for tiles that are partly masked over such data.
void multiply_selected(const Product& product, ByteMatrix keep);

}  // namespace headwise::kernels
