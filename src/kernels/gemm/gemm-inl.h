// The register tile and what drives it, for one CPU target. Included once per target.
#include "kernels/gemm/gemm.h"

#if defined(HEADWISE_GEMM_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_GEMM_INL_H_
#undef HEADWISE_GEMM_INL_H_
#else
#define HEADWISE_GEMM_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include <hwy/highway.h>

#include "kernels/gemm/few_rows-inl.h"
#include "kernels/gemm/panels-inl.h"
#include "kernels/math/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The highest tile that leaves registers for B and one broadcast. AVX-512 spans two panels: with
// one, its 32 registers would be fed by more broadcasts than its ports can load.
#if HWY_TARGET == HWY_AVX3
constexpr int kTileRows = 14;
constexpr int kWidePanels = 2;
#elif HWY_TARGET == HWY_AVX2
constexpr int kTileRows = 6;
constexpr int kWidePanels = 1;
#elif HWY_TARGET == HWY_NEON
constexpr int kTileRows = 6;
constexpr int kWidePanels = 1;
#else
constexpr int kTileRows = 2;
constexpr int kWidePanels = 1;
#endif

// Panels side by side that a tile of this height spans. Low tiles span more of them: eight chains
// of multiply-adds are needed to hide the latency of one.
constexpr int panels_beside(int rows) {
  int panels = kWidePanels;
  const auto sums = [&] { return kPanelVectors * rows * panels; };
  // Of twice as many panels: sums, B's vectors (a single row takes them from memory), a broadcast.
  const auto registers = [&] {
    return 2 * sums() + (rows > 1 ? 2 * kPanelVectors * panels : 0) + 1;
  };
  while (panels < 4 && sums() < 8 && registers() <= kRegisters) panels *= 2;
  return panels;
}

struct TileOperands {
  const float* a;
  std::int64_t a_row, a_column;  // strides
  const float* b;
  std::int64_t b_panel, b_row;  // strides
  RowCursor* ahead;             // null: B's own rows are fetched ahead
  std::int64_t depth;
};

template <int Rows, int Panels>
using Accumulators = FloatVector[extent(Rows)][extent(Panels * kPanelVectors)];

// One step of the inner loop.
template <int Rows, int Panels>
HWY_INLINE void multiply_add_step(const float* HWY_RESTRICT a, std::int64_t a_row,
                                  const float* HWY_RESTRICT b, std::int64_t b_panel,
                                  Accumulators<Rows, Panels>& sums) {
  FloatVector columns[extent(Panels * kPanelVectors)];
#pragma GCC unroll 16
  for (int j = 0; j < Panels * kPanelVectors; ++j) {
    columns[j] = hn::LoadU(kTag, b + (j / kPanelVectors) * b_panel + (j % kPanelVectors) * kLanes);
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    const FloatVector factor = hn::Set(kTag, a[i * a_row]);
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) {
      sums[i][j] = hn::MulAdd(factor, columns[j], sums[i][j]);
    }
  }
}

// The inner loop: sums += A·B. UnitStride: the rows of A lie along the depth. Fetched: lines side by
// side that are fetched ahead in every step.
template <int Rows, int Panels, bool UnitStride, int Fetched = 1>
HWY_INLINE void multiply_add(const TileOperands& o, Accumulators<Rows, Panels>& sums) {
  const float* HWY_RESTRICT a = o.a;
  const float* HWY_RESTRICT b = o.b;
  const std::int64_t a_row = o.a_row;
  const std::int64_t b_panel = o.b_panel;
  const std::int64_t b_row = o.b_row;
  constexpr std::int64_t kStepsAhead = 32;
  const std::int64_t ahead_step = o.ahead == nullptr ? o.b_row : o.ahead->numbers_per_step();
  const std::int64_t a_column = UnitStride ? 1 : o.a_column;
  // Named copies: GCC keeps an array in registers only as long as nobody takes its address.
  Accumulators<Rows, Panels> local;
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) local[i][j] = sums[i][j];
  }
  // Unrolled by GCC's last unroller, which works on registers that are named already (+1 to 2
  // points of the peak at a depth of 64). Written out four times, GCC 12 permutes the accumulators
  // between steps and spills: 65% of the peak instead of 97% for 6 × 16 on AVX2.
  for (std::int64_t left = o.depth; left > 0; left -= RowCursor::kSteps) {
    const float* ahead = o.ahead == nullptr ? b + kStepsAhead * b_row : o.ahead->next();
#pragma GCC unroll 4
    for (std::int64_t k = std::min(left, RowCursor::kSteps); k > 0; --k) {
#pragma GCC unroll 4
      for (int j = 0; j < Fetched; ++j) prefetch_to_l2(ahead + j * kPanelWidth);
      ahead += ahead_step;
      multiply_add_step<Rows, Panels>(a, a_row, b, b_panel, local);
      a += a_column;
      b += b_row;
      // Without this GCC precomputes an address for every row, and spills them.
      asm volatile("" : "+r"(a));
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) sums[i][j] = local[i][j];
  }
}

// Terms with a factor of exactly 0 are left out. The order of the others is that of multiply_add.
template <int Rows, int Panels>
HWY_INLINE void multiply_add_nonzero(const TileOperands& o, Accumulators<Rows, Panels>& sums) {
  const FloatVector zero = hn::Zero(kTag);
  for (std::int64_t k = 0; k < o.depth; ++k) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
      const float value = o.a[i * o.a_row + k * o.a_column];
      if (value == 0.0F) continue;
#pragma GCC unroll 16
      for (int j = 0; j < Panels * kPanelVectors; ++j) {
        const FloatVector column = hn::LoadU(kTag, o.b + (j / kPanelVectors) * o.b_panel +
                                                       k * o.b_row + (j % kPanelVectors) * kLanes);
        const FloatVector sum = hn::MulAdd(hn::Set(kTag, value), column, sums[i][j]);
        sums[i][j] = hn::IfThenElse(hn::Eq(column, zero), sums[i][j], sum);
      }
    }
  }
}

// Some row tiles of one height against some panels side by side.
struct TileColumn {
  std::int64_t tile;    // the first one's number among RowTiles
  std::int64_t row;     // and its first row
  std::int64_t tiles;   // how many
  std::int64_t column;  // first column
};

// The span of a row tile, or everything.
HWY_INLINE TileSpan span_of(const TileSpan* spans, std::int64_t tile, std::int64_t all) {
  if (spans == nullptr) return {0, all};
  return {spans[tile].begin, std::min(spans[tile].end, all)};
}
HWY_INLINE bool wanted(const TileSpan* spans, std::int64_t tile, const TileColumn& at,
                       std::int64_t width) {
  return spans == nullptr || (at.column < spans[tile].end && at.column + width > spans[tile].begin);
}

// Moves a tile between registers and C, of which it may cover `columns` only.
template <int Rows, int Panels>
HWY_INLINE void load_tile(const MatrixView& c, std::int64_t columns,
                          Accumulators<Rows, Panels>& sums) {
  constexpr std::int64_t kWidth = Panels * kPanelWidth;
  if (columns >= kWidth && c.column_stride == 1) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < Panels * kPanelVectors; ++j) {
        sums[i][j] = hn::LoadU(kTag, c.data + i * c.row_stride + j * kLanes);
      }
    }
    return;
  }
  HWY_ALIGN float buffer[extent(Rows * kWidth)] = {};
  for (int i = 0; i < Rows; ++i) {
    for (std::int64_t j = 0; j < std::min(columns, kWidth); ++j) buffer[i * kWidth + j] = c(i, j);
  }
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) {
      sums[i][j] = hn::Load(kTag, buffer + i * kWidth + j * kLanes);
    }
  }
}

template <int Rows, int Panels>
HWY_INLINE void store_tile(const MutableMatrix& c, std::int64_t columns,
                           const Accumulators<Rows, Panels>& sums) {
  constexpr std::int64_t kWidth = Panels * kPanelWidth;
  if (columns >= kWidth && c.column_stride == 1) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
      for (int j = 0; j < Panels * kPanelVectors; ++j) {
        hn::StoreU(sums[i][j], kTag, c.data + i * c.row_stride + j * kLanes);
      }
    }
    return;
  }
  HWY_ALIGN float buffer[extent(Rows * kWidth)];
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) {
      hn::Store(sums[i][j], kTag, buffer + i * kWidth + j * kLanes);
    }
  }
  for (int i = 0; i < Rows; ++i) {
    for (std::int64_t j = 0; j < std::min(columns, kWidth); ++j) c(i, j) = buffer[i * kWidth + j];
  }
}

template <int Rows, int Panels>
HWY_INLINE void scale_rows(const float* factors, Accumulators<Rows, Panels>& sums) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
    const FloatVector factor = hn::Set(kTag, factors[i]);
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) sums[i][j] = hn::Mul(sums[i][j], factor);
  }
}

template <int Rows, int Panels>
HWY_INLINE void add_bias(const float* bias, std::int64_t columns,
                         Accumulators<Rows, Panels>& sums) {
  constexpr std::int64_t kWidth = Panels * kPanelWidth;
  HWY_ALIGN float padded[extent(kWidth)] = {};
  if (columns < kWidth) bias = std::copy_n(bias, columns, padded) - columns;
#pragma GCC unroll 16
  for (int j = 0; j < Panels * kPanelVectors; ++j) {
    const FloatVector addend = hn::LoadU(kTag, bias + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) sums[i][j] = hn::Add(sums[i][j], addend);
  }
}

// −0 + 0 is 0. Whether a sum of terms that vanish is 0 or −0 depends on how many of them there are,
// and hidden ones must not show.
template <int Rows, int Panels>
HWY_INLINE void clear_signs_of_zeros(Accumulators<Rows, Panels>& sums) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j)
      sums[i][j] = hn::Add(sums[i][j], hn::Zero(kTag));
  }
}

// x − x is 0 or NaN. (Additions, because those have ports of their own on many CPUs.)
template <int Rows, int Panels>
HWY_INLINE bool all_finite(const Accumulators<Rows, Panels>& sums) {
  FloatVector spoilt = hn::Zero(kTag);
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) {
      spoilt = hn::Add(spoilt, hn::Sub(sums[i][j], sums[i][j]));
    }
  }
  return hn::AllTrue(kTag, hn::Eq(spoilt, hn::Zero(kTag)));
}

template <int Rows, int Panels>
HWY_INLINE void clear(Accumulators<Rows, Panels>& sums) {
#pragma GCC unroll 16
  for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) sums[i][j] = hn::Zero(kTag);
  }
}

template <int Rows, int Panels>
struct ProductTiles {
  static void run(const Product& p, const TileColumn& at) {
    const float* panel = p.b.data + at.column / kPanelWidth * p.b.panel_stride;
    const std::int64_t columns = p.columns - at.column;
    std::int64_t row = at.row;
    for (std::int64_t tile = at.tile; tile < at.tile + at.tiles; ++tile, row += Rows) {
      const TileSpan depth = span_of(p.depth_of_tile, tile, p.depth);
      const MutableMatrix c = p.c.from(row, at.column);
      Accumulators<Rows, Panels> sums;
      if (p.start.data != nullptr) {
        load_tile<Rows, Panels>(p.start.from(row, at.column), columns, sums);
        if (p.row_before != nullptr) scale_rows<Rows, Panels>(p.row_before + row, sums);
      } else {
        clear<Rows, Panels>(sums);
      }
      const MatrixView a = p.a.from(row, depth.begin);
      const TileOperands operands{
          a.data,           a.row_stride,   a.column_stride, panel + depth.begin * p.b.row_stride,
          p.b.panel_stride, p.b.row_stride, p.ahead,         depth.end - depth.begin};
      // Where few rows pass by B as it lies in memory, nobody else fetches its other panels.
      constexpr int kFetched = Rows <= kFewRows ? Panels : 1;
      if (HWY_UNLIKELY(p.zero_annihilates)) {
        multiply_add_nonzero<Rows, Panels>(operands, sums);
      } else if (kFetched > 1 && p.ahead == nullptr && p.b.panel_stride == kPanelWidth) {
        multiply_add<Rows, Panels, false, kFetched>(operands, sums);
      } else if (a.column_stride == 1) {
        multiply_add<Rows, Panels, true>(operands, sums);
      } else {
        multiply_add<Rows, Panels, false>(operands, sums);
      }
      if (p.bias != nullptr) add_bias<Rows, Panels>(p.bias + at.column, columns, sums);
      if (p.row_after != nullptr) scale_rows<Rows, Panels>(p.row_after + row, sums);
      clear_signs_of_zeros<Rows, Panels>(sums);
      if (p.not_finite != nullptr && !all_finite<Rows, Panels>(sums)) *p.not_finite = true;
      store_tile<Rows, Panels>(c, columns, sums);
    }
  }
};

template <int Rows, int Panels>
struct ScoreTiles {
  static void run(const ScoreProduct& p, const TileColumn& at) {
    const float* panel = p.b.data + at.column / kPanelWidth * p.b.panel_stride;
    const std::int64_t columns = p.columns - at.column;
    std::int64_t row = at.row;
    for (std::int64_t tile = at.tile; tile < at.tile + at.tiles; ++tile, row += Rows) {
      if (!wanted(p.columns_of_tile, tile, at, Panels * kPanelWidth)) continue;
      const MatrixView a = p.a.from(row, 0);
      const TileOperands operands{a.data,           a.row_stride,   a.column_stride, panel,
                                  p.b.panel_stride, p.b.row_stride, p.ahead,         p.depth};
      Accumulators<Rows, Panels> sums;
      clear<Rows, Panels>(sums);
      if (a.column_stride == 1) {
        multiply_add<Rows, Panels, true>(operands, sums);
      } else {
        multiply_add<Rows, Panels, false>(operands, sums);
      }
      if (HWY_UNLIKELY(columns < Panels * kPanelWidth)) hide_padding(columns, sums);
      const MutableMatrix scores{p.scores + row * p.score_stride + at.column, p.score_stride, 1};
      store_tile<Rows, Panels>(scores, Panels * kPanelWidth, sums);
      if (p.row_max == nullptr) continue;
      const TileSpan span = span_of(p.columns_of_tile, tile, p.columns);
      raise_maxima(p.row_max + row * kPanelWidth, {span.begin - at.column, span.end - at.column},
                   sums);
    }
  }

 private:
  static HWY_INLINE void hide_padding(std::int64_t columns, Accumulators<Rows, Panels>& sums) {
    const FloatVector hidden = hn::Set(kTag, -std::numeric_limits<float>::infinity());
#pragma GCC unroll 16
    for (int j = 0; j < Panels * kPanelVectors; ++j) {
      const std::int64_t left = std::clamp<std::int64_t>(columns - j * kLanes, 0, kLanes);
      const auto kept = hn::FirstN(kTag, static_cast<std::size_t>(left));
#pragma GCC unroll 16
      for (int i = 0; i < Rows; ++i) sums[i][j] = hn::IfThenElse(kept, sums[i][j], hidden);
    }
  }
  // While the scores are still in registers. `span`: the columns that count, from the tile's first.
  static HWY_INLINE void raise_maxima(float* row_max, const TileSpan& span,
                                      const Accumulators<Rows, Panels>& sums) {
#pragma GCC unroll 16
    for (int i = 0; i < Rows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kPanelVectors; ++j) {
        float* lanes = row_max + i * kPanelWidth + j * kLanes;
        FloatVector largest = hn::Load(kTag, lanes);
#pragma GCC unroll 4
        for (int panel = 0; panel < Panels; ++panel) {
          if (Panels > 1 && (panel * kPanelWidth < span.begin || panel * kPanelWidth >= span.end)) {
            continue;
          }
          largest = hn::Max(sums[i][panel * kPanelVectors + j], largest);
        }
        hn::Store(largest, kTag, lanes);
      }
    }
  }
};

// Runs Tiles<Rows, Panels> for the height that is known only now.
template <template <int, int> class Tiles, typename Call, int Rows = kTileRows>
HWY_INLINE void run_height(std::int64_t rows, bool beside, const Call& call, const TileColumn& at) {
  if constexpr (Rows > 0) {
    if (rows != Rows) return run_height<Tiles, Call, Rows - 1>(rows, beside, call, at);
    if (beside) return Tiles<Rows, panels_beside(Rows)>::run(call, at);
    Tiles<Rows, 1>::run(call, at);
  }
}

// Rows of A that lie a multiple of 4 KB apart (1024, 2048, … features) have the same place in the
// first cache, which has room for eight such lines: 14 of them push each other out. (81 to 85% of
// the peak for 512 rows on Zen 4, with tiles of 8 rows 94 to 96%.)
inline std::int64_t highest_tile(const MatrixView& a, const TileSpan* spans) {
  constexpr std::int64_t kSamePlace = 1024;
  constexpr std::int64_t kRoom = 8;
  const bool crowded = a.column_stride == 1 && a.row_stride % kSamePlace == 0;
  // Spans are those of the callers' tiles, which are as high as can be.
  return crowded && spans == nullptr ? std::min<std::int64_t>(kTileRows, kRoom) : kTileRows;
}
inline std::int64_t highest_tile(const Product& p) { return highest_tile(p.a, p.depth_of_tile); }
inline std::int64_t highest_tile(const ScoreProduct& p) {
  return highest_tile(p.a, p.columns_of_tile);
}

// All tiles of a product: panels outside, so that one stays in the cache for all rows.
template <template <int, int> class Tiles, typename Call>
HWY_INLINE void run_tiles(const Call& call) {
  const RowTiles rows(call.rows, highest_tile(call));
  if (rows.count == 0) return;
  const std::int64_t low_begin = rows.row(rows.higher);
  const int wide = panels_beside(static_cast<int>(rows.height));
  const bool same = rows.higher == 0 || wide == panels_beside(static_cast<int>(rows.height) + 1);
  const std::int64_t panels = panel_count(call.columns);
  for (std::int64_t panel = 0; panel < panels;) {
    const bool beside = same && panels - panel >= wide;
    TileColumn at{0, 0, rows.higher, panel * kPanelWidth};
    if (rows.higher > 0) run_height<Tiles>(rows.height + 1, beside, call, at);
    at = {rows.higher, low_begin, rows.count - rows.higher, panel * kPanelWidth};
    run_height<Tiles>(rows.height, beside, call, at);
    panel += beside ? wide : 1;
  }
}

void multiply(const Product& product) { run_tiles<ProductTiles>(product); }
void multiply_scores(const ScoreProduct& product) { run_tiles<ScoreTiles>(product); }

constexpr GemmKernels kGemmKernels{kTileRows, kWidePanels* kPanelWidth, pack_panels,
                                   multiply,  multiply_scores,          multiply_few_rows};

}  // namespace headwise::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_SCALAR

#endif
