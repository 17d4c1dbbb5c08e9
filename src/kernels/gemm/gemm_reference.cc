// Matrix products as they read on paper. Slow, and the definition of every bit: the SIMD kernels
// are compared with these by memcmp.
#include "kernels/gemm/gemm_reference.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace headwise::kernels::reference {

namespace {

constexpr std::int64_t kTileRows = 4;

float element(const Panels& b, std::int64_t k, std::int64_t column) {
  return b.data[column / kPanelWidth * b.panel_stride + k * b.row_stride + column % kPanelWidth];
}

// Number of the row tile that a row belongs to.
std::int64_t tile_of(std::int64_t row, std::int64_t rows) {
  const RowTiles tiles(rows, kTileRows);
  std::int64_t tile = 0;
  while (tiles.row(tile + 1) <= row) ++tile;
  return tile;
}

bool pack_panels(std::int64_t depth, std::int64_t columns, MatrixView b, float* panels) {
  bool finite = true;
  for (std::int64_t column = 0; column < columns; column += kPanelWidth) {
    for (std::int64_t k = 0; k < depth; ++k, panels += kPanelWidth) {
      for (std::int64_t j = 0; j < kPanelWidth; ++j) {
        panels[j] = column + j < columns ? b(k, column + j) : 0.0F;
        finite = finite && std::isfinite(panels[j]);
      }
    }
  }
  return finite;
}

void multiply(const Product& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    const TileSpan depth =
        p.depth_of_tile == nullptr ? TileSpan{0, p.depth} : p.depth_of_tile[tile_of(i, p.rows)];
    for (std::int64_t j = 0; j < p.columns; ++j) {
      float sum = p.start.data == nullptr ? 0.0F : p.start(i, j);
      if (p.start.data != nullptr && p.row_before != nullptr) sum *= p.row_before[i];
      for (std::int64_t k = depth.begin; k < std::min(depth.end, p.depth); ++k) {
        const float x = p.a(i, k);
        const float y = element(p.b, k, j);
        if (p.zero_annihilates && (x == 0.0F || y == 0.0F)) continue;
        sum = std::fma(x, y, sum);
      }
      if (p.bias != nullptr) sum += p.bias[j];
      if (p.row_after != nullptr) sum *= p.row_after[i];
      p.c(i, j) = sum + 0.0F;  // never −0, which would tell how many terms vanished
      if (p.not_finite != nullptr && !std::isfinite(sum)) *p.not_finite = true;
    }
  }
}

void multiply_scores(const ScoreProduct& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    TileSpan span{0, p.columns};
    if (p.columns_of_tile != nullptr) span = p.columns_of_tile[tile_of(i, p.rows)];
    span.end = panel_count(std::min(span.end, p.columns)) * kPanelWidth;
    for (std::int64_t j = span.begin; j < span.end; ++j) {
      float sum = 0.0F;
      for (std::int64_t k = 0; k < p.depth; ++k) sum = std::fma(p.a(i, k), element(p.b, k, j), sum);
      if (j >= p.columns) sum = -std::numeric_limits<float>::infinity();
      p.scores[i * p.score_stride + j] = sum;
      if (p.row_max == nullptr) continue;
      float& largest = p.row_max[i * kPanelWidth + j % kPanelWidth];
      if (sum > largest) largest = sum;
    }
  }
}

void multiply_few_rows(const FewRowsProduct& p) {
  for (std::int64_t i = 0; i < p.rows; ++i) {
    for (std::int64_t j = 0; j < panel_count(p.columns) * kPanelWidth; ++j) {
      float sum = j < p.columns ? 0.0F : -std::numeric_limits<float>::infinity();
      for (std::int64_t k = 0; j < p.columns && k < p.depth; ++k) {
        sum = std::fma(p.a(i, k), p.b(j, k), sum);
      }
      p.scores[i * p.score_stride + j] = sum;
      float& largest = p.row_max[i * kPanelWidth + j % kPanelWidth];
      if (sum > largest) largest = sum;
    }
  }
}

}  // namespace

const GemmKernels kGemmKernels{kTileRows,        1, pack_panels, multiply, multiply_scores,
                               multiply_few_rows};

}  // namespace headwise::kernels::reference
