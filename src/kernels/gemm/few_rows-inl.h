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

// Of one panel of keys.
template <int Rows>
using KeySums = FloatVector[extent(Rows)][kPanelVectors];

// The numbers steps.begin … steps.end of every key, a multiple of four of them.
template <int Rows>
HWY_INLINE void add_by_registers(const FewRowsProduct& p, const float* a, const float* keys,
                                 TileSpan steps, KeySums<Rows>& sums) {
#pragma GCC unroll 8
  for (int j = 0; j < kPanelVectors; ++j) {
    const float* rows = keys + j * kLanes * p.b.row_stride;
#pragma GCC unroll 4
    for (std::int64_t step = steps.begin; step < steps.end; step += 4) {
      const Columns four = load_columns(rows + step, p.b.row_stride);
#pragma GCC unroll 4
      for (int c = 0; c < 4; ++c) {
#pragma GCC unroll 16
        for (int i = 0; i < Rows; ++i) {
          const float factor = a[i * p.a.row_stride + step + c];
          sums[i][j] = hn::MulAdd(hn::Set(kTag, factor), four.column[c], sums[i][j]);
        }
      }
    }
  }
}

// The same where columns, kept in registers, would leave too few of those for the sums: they go
// through memory that stays in the first cache.
template <int Rows>
HWY_INLINE void add_by_memory(const FewRowsProduct& p, const float* a, const float* keys,
                              TileSpan steps, KeySums<Rows>& sums) {
  HWY_ALIGN float columns[kPanelWidth][kPanelWidth];
#pragma GCC unroll 8
  for (int j = 0; j < kPanelVectors; ++j) {
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
      const FloatVector factor = hn::Set(kTag, a[i * p.a.row_stride + step]);
#pragma GCC unroll 8
      for (int j = 0; j < kPanelVectors; ++j) {
        const FloatVector column = hn::Load(kTag, columns[step - steps.begin] + j * kLanes);
        sums[i][j] = hn::MulAdd(factor, column, sums[i][j]);
      }
    }
  }
}

template <int Rows>
HWY_INLINE void add_steps(const FewRowsProduct& p, const float* a, const float* keys,
                          TileSpan steps, KeySums<Rows>& sums) {
  if constexpr (kRegisters >= 32) {
    add_by_registers<Rows>(p, a, keys, steps, sums);
  } else {
    add_by_memory<Rows>(p, a, keys, steps, sums);
  }
}

// A panel of keys against Rows queries. (Two panels of keys at a time have more chains of
// multiply-adds to hide the latency of one, but the CPU looks far enough ahead to begin with the next
// panel by itself; on AVX-512 they take 1.05 times as long.)
template <int Rows>
HWY_INLINE void score_panel(const FewRowsProduct& p, std::int64_t row, std::int64_t key) {
  const float* a = p.a.data + row * p.a.row_stride;
  const float* keys = p.b.data + key * p.b.row_stride;
  // From memory, a quarter as far takes 1.1 times as long.
  const float* ahead = keys + 4 * kPanelWidth * p.b.row_stride;
  const std::int64_t even_depth = p.depth / 4 * 4;
  KeySums<Rows> sums;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kPanelVectors; ++j) sums[i][j] = hn::Zero(kTag);
  }
  // Keys are fetched ahead one whole row after the other: from memory, that is a fifth faster than
  // line by line in the order of use.
  const std::int64_t fetched_per_line =
      (kPanelWidth + panel_count(p.depth) - 1) / panel_count(p.depth);
  std::int64_t fetched = 0;
  std::int64_t k = 0;
  // A cache line of each key at a time: rows a power of two apart compete for the same few places
  // of the first cache, and would push each other out before all of the line is used.
  while (k < even_depth) {
    const std::int64_t line_end = std::min(k + kPanelWidth, even_depth);
    for (std::int64_t i = 0; i < fetched_per_line && fetched < kPanelWidth; ++i, ++fetched) {
      for (std::int64_t f = 0; f < p.depth; f += kPanelWidth) prefetch_to_l2(ahead + f);
      ahead += p.b.row_stride;
    }
    if (line_end - k == kPanelWidth) {  // so many, known to the compiler, need no loop
      add_steps<Rows>(p, a, keys, {k, k + kPanelWidth}, sums);
    } else {
      add_steps<Rows>(p, a, keys, {k, line_end}, sums);
    }
    k = line_end;
  }
  for (; k < p.depth; ++k) {
#pragma GCC unroll 8
    for (int j = 0; j < kPanelVectors; ++j) {
      HWY_ALIGN float column[extent(kLanes)];
      for (int lane = 0; lane < kLanes; ++lane) {
        column[lane] = keys[(j * kLanes + lane) * p.b.row_stride + k];
      }
      const FloatVector values = hn::Load(kTag, column);
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) {
        const float factor = a[i * p.a.row_stride + k];
        sums[i][j] = hn::MulAdd(hn::Set(kTag, factor), values, sums[i][j]);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kPanelVectors; ++j) {
      hn::StoreU(sums[i][j], kTag, p.scores + (row + i) * p.score_stride + key + j * kLanes);
    }
  }
}

// Fewer keys than a panel has.
template <int Rows>
HWY_INLINE void score_single_keys(const FewRowsProduct& p, std::int64_t row) {
  for (std::int64_t i = row; i < row + Rows; ++i) {
    for (std::int64_t key = 0; key < p.columns; ++key) {
      // One lane of a vector: a fused multiply-add exactly where the others have one.
      FloatVector sum = hn::Zero(kTag);
      for (std::int64_t k = 0; k < p.depth; ++k) {
        sum = hn::MulAdd(hn::Set(kTag, p.a(i, k)), hn::Set(kTag, p.b(key, k)), sum);
      }
      p.scores[i * p.score_stride + key] = hn::GetLane(sum);
    }
  }
}

template <int Rows>
HWY_INLINE void raise_maxima(const FewRowsProduct& p, std::int64_t row, std::int64_t panel) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kPanelVectors; ++j) {
      float* lanes = p.row_max + (row + i) * kPanelWidth + j * kLanes;
      const float* scores = p.scores + (row + i) * p.score_stride + panel + j * kLanes;
      hn::StoreU(hn::Max(hn::LoadU(kTag, scores), hn::LoadU(kTag, lanes)), kTag, lanes);
    }
  }
}

template <int Rows>
void score_rows(const FewRowsProduct& p, std::int64_t row) {
  std::int64_t key = 0;
  for (; key + kPanelWidth <= p.columns; key += kPanelWidth) {
    score_panel<Rows>(p, row, key);
    raise_maxima<Rows>(p, row, key);
  }
  if (key == p.columns) return;
  if (key > 0) {  // as many keys as a panel has, some of them once more: the same scores
    score_panel<Rows>(p, row, p.columns - kPanelWidth);
  } else {
    score_single_keys<Rows>(p, row);
  }
  for (std::int64_t i = row; i < row + Rows; ++i) {
    float* scores = p.scores + i * p.score_stride;
    std::fill(scores + p.columns, scores + key + kPanelWidth,
              -std::numeric_limits<float>::infinity());
  }
  raise_maxima<Rows>(p, row, key);
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
