// A few queries against unpacked keys, for one CPU target. Included once per target.
#include "kernels/gemm/gemm.h"

#if defined(HEADWISE_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_FEW_ROWS_INL_H_
#undef HEADWISE_FEW_ROWS_INL_H_
#else
#define HEADWISE_FEW_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "kernels/gemm/panels-inl.h"
#include "kernels/math/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <int Rows, int Vectors>
using KeySums = FloatVector[extent(Rows)][extent(Vectors)];

// The numbers steps.begin … steps.end of every key, a multiple of four of them.
template <int Rows, int Vectors>
HWY_INLINE void add_by_registers(const FewRowsProduct& p, const float* a, const float* keys,
                                 TileSpan steps, KeySums<Rows, Vectors>& sums) {
#pragma GCC unroll 8
  for (int j = 0; j < Vectors; ++j) {
    const float* rows = keys + j * kLanes * p.b.row_stride;
    for (std::int64_t step = steps.begin; step < steps.end; step += 4) {
      const Columns four = load_columns(rows + step, p.b.row_stride);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
          const float factor = a[i * p.a.row_stride + (step + c) * p.a.column_stride];
          sums[i][j] = hn::MulAdd(hn::Set(kTag, factor), four.column[c], sums[i][j]);
        }
      }
    }
  }
}

// The same where columns, kept in registers, would leave too few of those for the sums: they go
// through memory that stays in the first cache.
template <int Rows, int Vectors>
HWY_INLINE void add_by_memory(const FewRowsProduct& p, const float* a, const float* keys,
                              TileSpan steps, KeySums<Rows, Vectors>& sums) {
  HWY_ALIGN float columns[kPanelWidth][extent(Vectors * kLanes)];
#pragma GCC unroll 8
  for (int j = 0; j < Vectors; ++j) {
    const float* rows = keys + j * kLanes * p.b.row_stride;
    for (std::int64_t step = steps.begin; step < steps.end; step += 4) {
      const Columns four = load_columns(rows + step, p.b.row_stride);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
        hn::Store(four.column[c], kTag, columns[step - steps.begin + c] + j * kLanes);
      }
    }
  }
  for (std::int64_t step = steps.begin; step < steps.end; ++step) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const FloatVector factor = hn::Set(kTag, a[i * p.a.row_stride + step * p.a.column_stride]);
#pragma GCC unroll 8
      for (int j = 0; j < Vectors; ++j) {
        const FloatVector column = hn::Load(kTag, columns[step - steps.begin] + j * kLanes);
        sums[i][j] = hn::MulAdd(factor, column, sums[i][j]);
      }
    }
  }
}

// Vectors × kLanes keys against Rows queries.
template <int Rows, int Vectors>
HWY_INLINE void score_keys(const FewRowsProduct& p, std::int64_t row, std::int64_t key) {
  const float* a = p.a.data + row * p.a.row_stride;
  const float* keys = p.b.data + key * p.b.row_stride;
  constexpr std::int64_t kKeys = Vectors * kLanes;
  const std::int64_t lines = panel_count(p.depth / 4 * 4);  // that the loop below takes
  KeySums<Rows, Vectors> sums;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) sums[i][j] = hn::Zero(kTag);
  }
  std::int64_t k = 0;
  while (k + 4 <= p.depth) {
    // A cache line of each key at a time: rows a power of two apart compete for the same few places
    // of the first cache, and would push each other out before all of the line is used.
    const std::int64_t line_end = std::min(k + kPanelWidth, p.depth / 4 * 4);
    // The next keys are fetched one whole row after the other: from memory, that is a fifth faster
    // than line by line in the order of use.
    const std::int64_t line = k / kPanelWidth;
    for (std::int64_t i = line * kKeys / lines; i < (line + 1) * kKeys / lines; ++i) {
      const float* ahead = keys + (kKeys + i) * p.b.row_stride;
      for (std::int64_t f = 0; f < p.depth; f += kPanelWidth) prefetch_to_l2(ahead + f);
    }
    if constexpr (kRegisters >= 32) {
      add_by_registers<Rows, Vectors>(p, a, keys, {k, line_end}, sums);
    } else {
      add_by_memory<Rows, Vectors>(p, a, keys, {k, line_end}, sums);
    }
    k = line_end;
  }
  for (; k < p.depth; ++k) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      HWY_ALIGN float column[extent(kLanes)];
      for (int lane = 0; lane < kLanes; ++lane) {
        column[lane] = keys[(j * kLanes + lane) * p.b.row_stride + k];
      }
      const FloatVector values = hn::Load(kTag, column);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
        const float factor = a[i * p.a.row_stride + k * p.a.column_stride];
        sums[i][j] = hn::MulAdd(hn::Set(kTag, factor), values, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < Vectors; ++j) {
      float* lanes = p.row_max + (row + i) * kPanelWidth + j % kPanelVectors * kLanes;
      hn::StoreU(sums[i][j], kTag, p.scores + (row + i) * p.score_stride + key + j * kLanes);
      hn::StoreU(hn::Max(sums[i][j], hn::LoadU(kTag, lanes)), kTag, lanes);
    }
  }
}

template <int Rows>
void score_rows(const FewRowsProduct& p, std::int64_t row) {
  // Two panels of keys where one has fewer than four sums: chains of multiply-adds have a latency
  // to hide. With four panels too much is fetched ahead at once: on AVX-512 that takes 1.2 times as
  // long from memory.
  constexpr int kVectors = (Rows * kPanelVectors >= 4 ? 1 : 2) * int{kPanelVectors};
  constexpr std::int64_t kKeys = kVectors * kLanes;
  std::int64_t key = 0;
  for (; key + kKeys <= p.columns; key += kKeys) score_keys<Rows, kVectors>(p, row, key);
  for (; key + kPanelWidth <= p.columns; key += kPanelWidth) {
    score_keys<Rows, kPanelVectors>(p, row, key);
  }
  for (; key < panel_count(p.columns) * kPanelWidth; ++key) {
    for (std::int64_t i = row; i < row + Rows; ++i) {
      float& score = p.scores[i * p.score_stride + key];
      score = -std::numeric_limits<float>::infinity();
      if (key >= p.columns) continue;
      // One lane of a vector: a fused multiply-add exactly where the others have one.
      FloatVector sum = hn::Zero(kTag);
      for (std::int64_t k = 0; k < p.depth; ++k) {
        sum = hn::MulAdd(hn::Set(kTag, p.a(i, k)), hn::Set(kTag, p.b(key, k)), sum);
      }
      score = hn::GetLane(sum);
      float& largest = p.row_max[i * kPanelWidth + key % kPanelWidth];
      if (score > largest) largest = score;
    }
  }
}

void multiply_few_rows(const FewRowsProduct& p) {
  static_assert(kFewRows == 4);
  std::int64_t row = 0;
  for (; row + 4 <= p.rows; row += 4) score_rows<4>(p, row);
  if (p.rows - row == 3) score_rows<3>(p, row);
  if (p.rows - row == 2) score_rows<2>(p, row);
  if (p.rows - row == 1) score_rows<1>(p, row);
}

}  // namespace headwise::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_SCALAR

#endif
