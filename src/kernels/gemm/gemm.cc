#include "kernels/gemm/gemm.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

namespace headwise::kernels {

namespace {

// A tile of C held in registers: rows ≤ kTileRows, all columns of one panel.
struct Accumulator {
  float values[kTileRows][kPanelWidth] = {};

  void load(MutableMatrix c, std::int64_t rows, std::int64_t columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) values[i][j] = c(i, j);
    }
  }
  void store(MutableMatrix c, std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) c(i, j) = values[i][j];
    }
  }
  void add_to_rows(const float* bias, std::int64_t columns) {
    for (auto& row : values) {
      for (std::int64_t j = 0; j < columns; ++j) row[j] += bias[j];
    }
  }
};

// Four numbers in the compiler's own vector type, which every 64-bit CPU holds in one register.
// Plain arrays ran at a quarter of the speed (GCC 12 kept them in memory), eight numbers at 40%.
using Lanes [[gnu::vector_size(16)]] = float;
constexpr int kLanesPerRow = kPanelWidth / 4;

// The inner loop. Rows is a template parameter so that the accumulators stay in registers.
template <std::size_t Rows>
void multiply_add(MatrixView a, const float* panel, std::int64_t depth, Accumulator& sums) {
  Lanes local[Rows][kLanesPerRow];
  std::memcpy(local, sums.values, sizeof local);
  for (std::int64_t k = 0; k < depth; ++k) {
    Lanes b[kLanesPerRow];
    std::memcpy(b, panel + k * kPanelWidth, sizeof b);
    for (std::size_t i = 0; i < Rows; ++i) {
      const float factor = a(static_cast<std::int64_t>(i), k);
      for (int j = 0; j < kLanesPerRow; ++j) local[i][j] += factor * b[j];
    }
  }
  std::memcpy(sums.values, local, sizeof local);
}

void multiply_add(std::int64_t rows, MatrixView a, const float* panel, std::int64_t depth,
                  Accumulator& sums) {
  static_assert(kTileRows == 4);
  switch (rows) {
    case 1:
      return multiply_add<1>(a, panel, depth, sums);
    case 2:
      return multiply_add<2>(a, panel, depth, sums);
    case 3:
      return multiply_add<3>(a, panel, depth, sums);
    default:
      return multiply_add<4>(a, panel, depth, sums);
  }
}

// Walks the tiles of C; `add(row, rows, panel, sums)` brings in the products of one.
template <typename Add>
void for_each_tile(const Product& product, Add add) {
  for (std::int64_t column = 0; column < product.columns; column += kPanelWidth) {
    const std::int64_t columns = std::min(kPanelWidth, product.columns - column);
    const float* panel = product.panels + column * product.depth;
    for (std::int64_t row = 0; row < product.rows; row += kTileRows) {
      const std::int64_t rows = std::min(kTileRows, product.rows - row);
      const MutableMatrix c = product.c.from(row, column);
      Accumulator sums;
      if (product.accumulate) sums.load(c, rows, columns);
      add(row, rows, panel, sums);
      if (product.bias != nullptr) sums.add_to_rows(product.bias + column, columns);
      sums.store(c, rows, columns);
    }
  }
}

}  // namespace

bool pack_panels(std::int64_t depth, std::int64_t columns, MatrixView b, float* panels) {
  bool finite = true;
  for (std::int64_t column = 0; column < columns; column += kPanelWidth) {
    const std::int64_t width = std::min(kPanelWidth, columns - column);
    for (std::int64_t k = 0; k < depth; ++k, panels += kPanelWidth) {
      for (std::int64_t j = 0; j < width; ++j) {
        panels[j] = b(k, column + j);
        finite = finite && std::isfinite(panels[j]);
      }
      std::fill(panels + width, panels + kPanelWidth, 0.0F);
    }
  }
  return finite;
}

void multiply(const Product& product) {
  for_each_tile(product,
                [&](std::int64_t row, std::int64_t rows, const float* panel, Accumulator& sums) {
                  multiply_add(rows, product.a.from(row, 0), panel, product.depth, sums);
                });
}

void multiply_selected(const Product& product, ByteMatrix keep) {
  for_each_tile(product,
                [&](std::int64_t row, std::int64_t rows, const float* panel, Accumulator& sums) {
                  for (std::int64_t k = 0; k < product.depth; ++k) {
                    for (std::int64_t i = 0; i < rows; ++i) {
                      if (keep(row + i, k) == 0) continue;
                      const float factor = product.a(row + i, k);
                      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
                        sums.values[i][j] += factor * panel[k * kPanelWidth + j];
                      }
                    }
                  }
                });
}

}  // namespace headwise::kernels
