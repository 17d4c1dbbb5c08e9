// Packing into panels, for one CPU target. Included once per target.
#include "kernels/gemm/gemm.h"

#if defined(HEADWISE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_PANELS_INL_H_
#undef HEADWISE_PANELS_INL_H_
#else
#define HEADWISE_PANELS_INL_H_
#endif

#include <algorithm>
#include <cstdint>

#include <hwy/highway.h>

#include "kernels/math/vector_math-inl.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

HWY_INLINE void prefetch_to_l2(const float* p) { __builtin_prefetch(p, 0, 2); }

// Notes whether everything that passes by is finite.
class FiniteCheck {
 public:
  FiniteCheck() : spoilt_(hn::Zero(kTag)) {}
  // x·0 is 0 for finite x and NaN otherwise: cheaper to collect than a test each.
  HWY_INLINE void note(FloatVector v) { spoilt_ = hn::MulAdd(v, hn::Zero(kTag), spoilt_); }
  HWY_INLINE bool passed() const { return hn::AllTrue(kTag, hn::Eq(spoilt_, hn::Zero(kTag))); }

 private:
  FloatVector spoilt_;
};

// Four numbers each of as many rows as there are lanes: block i of vector r is row 4·i + r.
template <int Blocks>
HWY_INLINE auto load_blocks(const float* from, std::int64_t stride) {
  if constexpr (Blocks == 1) {
    return hn::LoadU(hn::FixedTag<float, 4>(), from);
  } else {
    const hn::FixedTag<float, extent(4 * std::int64_t{Blocks})> tag;
    return hn::Combine(tag, load_blocks<Blocks / 2>(from + stride * 2 * Blocks, stride),
                       load_blocks<Blocks / 2>(from, stride));
  }
}

// kLanes rows × 4 columns → 4 vectors, each a column.
struct Columns {
  FloatVector column[4];
};
HWY_INLINE Columns load_columns(const float* from, std::int64_t stride) {
  const hn::RepartitionToWide<FloatTag> wide;
  FloatVector rows[4];
#pragma GCC unroll 4
  for (int r = 0; r < 4; ++r) rows[r] = load_blocks<kLanes / 4>(from + r * stride, stride);
  const auto lo01 = hn::BitCast(wide, hn::InterleaveLower(kTag, rows[0], rows[1]));
  const auto lo23 = hn::BitCast(wide, hn::InterleaveLower(kTag, rows[2], rows[3]));
  const auto hi01 = hn::BitCast(wide, hn::InterleaveUpper(kTag, rows[0], rows[1]));
  const auto hi23 = hn::BitCast(wide, hn::InterleaveUpper(kTag, rows[2], rows[3]));
  return {{hn::BitCast(kTag, hn::InterleaveLower(wide, lo01, lo23)),
           hn::BitCast(kTag, hn::InterleaveUpper(wide, lo01, lo23)),
           hn::BitCast(kTag, hn::InterleaveLower(wide, hi01, hi23)),
           hn::BitCast(kTag, hn::InterleaveUpper(wide, hi01, hi23))}};
}

// One panel, or the end of one, from any strides.
HWY_INLINE void pack_slowly(std::int64_t depth, std::int64_t width, MatrixView b, float* panel,
                            FiniteCheck& check) {
  for (std::int64_t k = 0; k < depth; ++k, panel += kPanelWidth) {
    for (std::int64_t j = 0; j < kPanelWidth; ++j) panel[j] = j < width ? b(k, j) : 0.0F;
    for (int j = 0; j < kPanelVectors; ++j) check.note(hn::LoadU(kTag, panel + j * kLanes));
  }
}

// Rows of unit stride are copied by vectors, and columns of unit stride (K, to become Kᵀ) are
// transposed in registers.
bool pack_panels(std::int64_t depth, std::int64_t columns, MatrixView b, float* panels) {
  FiniteCheck check;
  for (std::int64_t column = 0; column < columns;
       column += kPanelWidth, panels += depth * kPanelWidth) {
    const std::int64_t width = std::min(kPanelWidth, columns - column);
    const float* from = b.data + column * b.column_stride;
    std::int64_t k = 0;
    if (width == kPanelWidth && b.column_stride == 1) {
      for (; k < depth; ++k) {
#pragma GCC unroll 4
        for (int j = 0; j < kPanelVectors; ++j) {
          const FloatVector v = hn::LoadU(kTag, from + k * b.row_stride + j * kLanes);
          check.note(v);
          hn::Store(v, kTag, panels + k * kPanelWidth + j * kLanes);
        }
      }
    } else if (width == kPanelWidth && b.row_stride == 1) {
      for (; k + 4 <= depth; k += 4) {
#pragma GCC unroll 4
        for (int j = 0; j < kPanelVectors; ++j) {
          const Columns four =
              load_columns(from + k + j * kLanes * b.column_stride, b.column_stride);
#pragma GCC unroll 4
          for (int i = 0; i < 4; ++i) {
            check.note(four.column[i]);
            hn::Store(four.column[i], kTag, panels + (k + i) * kPanelWidth + j * kLanes);
          }
        }
      }
    }
    pack_slowly(depth - k, width, b.from(k, column), panels + k * kPanelWidth, check);
  }
  return check.passed();
}

}  // namespace headwise::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_SCALAR

#endif
