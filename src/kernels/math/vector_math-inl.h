// scalar_math.h for vectors of one CPU target: the same steps in the same order, the same bits.
#include "kernels/math/scalar_math.h"

#if defined(HEADWISE_VECTOR_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_VECTOR_MATH_INL_H_
#undef HEADWISE_VECTOR_MATH_INL_H_
#else
#define HEADWISE_VECTOR_MATH_INL_H_
#endif

#include <cstddef>
#include <cstdint>
#include <numbers>

#include <hwy/highway.h>

#include "kernels/gemm/gemm.h"

#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// Never more lanes than a panel has columns.
using FloatTag = hn::CappedTag<float, kPanelWidth>;
using FloatVector = hn::Vec<FloatTag>;
using IntTag = hn::RebindToSigned<FloatTag>;
constexpr FloatTag kTag;
constexpr std::int64_t kLanes = hn::MaxLanes(kTag);
constexpr int kRegisters = HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON ? 32 : 16;
constexpr std::int64_t kPanelVectors = kPanelWidth / kLanes;

// Of an array.
constexpr std::size_t extent(std::int64_t count) { return static_cast<std::size_t>(count); }

HWY_INLINE FloatVector power_of_two(FloatVector rounded) {
  return hn::BitCast(kTag, hn::ShiftLeft<23>(hn::BitCast(IntTag(), rounded)));
}

template <std::size_t Count>
HWY_INLINE FloatVector polynomial(const float (&coefficients)[Count], FloatVector r) {
  FloatVector sum = hn::Set(kTag, coefficients[Count - 1]);
#pragma GCC unroll 8
  for (std::size_t i = 1; i < Count; ++i) {
    sum = hn::MulAdd(sum, r, hn::Set(kTag, coefficients[Count - 1 - i]));
  }
  return sum;
}

struct VectorWeightRule {
  explicit VectorWeightRule(const WeightRule& rule)
      : factor(hn::Set(kTag, rule.factor)),
        floor(hn::Set(kTag, rule.floor)),
        rounder(hn::Set(kTag, rule.rounder)) {}
  FloatVector factor, floor, rounder;
};

// weight(score) · times, and exactly 0 below the floor even if `times` is NaN.
HWY_INLINE FloatVector weight(const VectorWeightRule& rule, FloatVector score, FloatVector times) {
  const FloatVector rounded = hn::MulAdd(score, rule.factor, rule.rounder);
  const FloatVector r = hn::MulSub(score, rule.factor, hn::Sub(rounded, rule.rounder));
  const FloatVector p = hn::MulAdd(polynomial(kExp2, r), r, hn::Set(kTag, 1.0F));
  const FloatVector product = hn::Mul(hn::Mul(p, power_of_two(rounded)), times);
  return hn::IfThenZeroElse(hn::Lt(score, rule.floor), product);
}
HWY_INLINE FloatVector weight(const VectorWeightRule& rule, FloatVector score) {
  const FloatVector rounded = hn::MulAdd(score, rule.factor, rule.rounder);
  const FloatVector r = hn::MulSub(score, rule.factor, hn::Sub(rounded, rule.rounder));
  const FloatVector p = hn::MulAdd(polynomial(kExp2, r), r, hn::Set(kTag, 1.0F));
  return hn::IfThenZeroElse(hn::Lt(score, rule.floor), hn::Mul(p, power_of_two(rounded)));
}

HWY_INLINE FloatVector exp2_minus_1(FloatVector x, float factor) {
  const FloatVector rounder = hn::Set(kTag, kRounder);
  const FloatVector slope = hn::Set(kTag, factor);
  const FloatVector rounded = hn::MulAdd(x, slope, rounder);
  const FloatVector r = hn::MulSub(x, slope, hn::Sub(rounded, rounder));
  const FloatVector power = power_of_two(rounded);
  return hn::MulAdd(hn::Mul(polynomial(kExp2Fine, r), r), power,
                    hn::Sub(power, hn::Set(kTag, 1.0F)));
}

HWY_INLINE FloatVector tanh(FloatVector x) {
  const FloatVector limit = hn::Set(kTag, 10.0F);
  const FloatVector size = hn::IfThenElse(hn::Gt(hn::Abs(x), limit), limit, hn::Abs(x));
  const FloatVector e = exp2_minus_1(size, 2.0F * kLog2E);
  return hn::CopySign(hn::Div(e, hn::Add(e, hn::Set(kTag, 2.0F))), x);
}

HWY_INLINE FloatVector sigmoid(FloatVector x) {
  const FloatVector low = hn::Set(kTag, -80.0F);
  const FloatVector high = hn::Set(kTag, 80.0F);
  const FloatVector one = hn::Set(kTag, 1.0F);
  FloatVector size = hn::IfThenElse(hn::Lt(x, low), low, x);
  size = hn::IfThenElse(hn::Gt(size, high), high, size);
  const FloatVector slope = hn::Set(kTag, -kLog2E);
  const FloatVector rounder = hn::Set(kTag, kRounder);
  const FloatVector rounded = hn::MulAdd(size, slope, rounder);
  FloatVector r = hn::MulSub(size, slope, hn::Sub(rounded, rounder));
  r = hn::MulAdd(size, hn::Set(kTag, -kLog2ERest), r);
  const FloatVector e =
      hn::Mul(hn::MulAdd(polynomial(kExp2Fine, r), r, one), power_of_two(rounded));
  return hn::Div(one, hn::Add(one, e));
}

// base/natural_log.h.
using DoubleTag = hn::Repartition<double, FloatTag>;
using DoubleVector = hn::Vec<DoubleTag>;
HWY_INLINE DoubleVector natural_log_of_normal(DoubleVector x) {
  const DoubleTag tag;
  const hn::RebindToUnsigned<DoubleTag> words;
  const auto number = [&](double value) HWY_ATTR { return hn::Set(tag, value); };
  const auto exponent_bits = [&](std::uint64_t biased)
                                 HWY_ATTR { return hn::Set(words, biased << 52U); };
  const auto bits = hn::BitCast(words, x);
  const auto mantissa = hn::And(bits, hn::Set(words, (std::uint64_t{1} << 52U) - 1));
  const DoubleVector scaled = hn::BitCast(tag, hn::Or(mantissa, exponent_bits(1023)));
  const auto high = hn::Gt(scaled, number(std::numbers::sqrt2));
  const DoubleVector m = hn::IfThenElse(high, hn::Mul(number(0.5), scaled), scaled);
  const DoubleVector biased =
      hn::BitCast(tag, hn::Or(hn::ShiftRight<52>(bits), exponent_bits(1075)));
  const DoubleVector exponent =
      hn::Add(hn::Sub(biased, number(0x1p52 + 1023.0)), hn::IfThenElseZero(high, number(1.0)));
  const DoubleVector z = hn::Div(hn::Sub(m, number(1.0)), hn::Add(m, number(1.0)));
  const DoubleVector s = hn::Mul(z, z);
  const DoubleVector s2 = hn::Mul(s, s);
  const DoubleVector s4 = hn::Mul(s2, s2);
  const auto pair = [&](double first, double second)
                        HWY_ATTR { return hn::Add(number(first), hn::Mul(s, number(second))); };
  const DoubleVector a = hn::Add(pair(1.0 / 3, 1.0 / 5), hn::Mul(s2, pair(1.0 / 7, 1.0 / 9)));
  const DoubleVector b = hn::Add(pair(1.0 / 11, 1.0 / 13), hn::Mul(s2, pair(1.0 / 15, 1.0 / 17)));
  const DoubleVector c = pair(1.0 / 19, 1.0 / 21);
  const DoubleVector sum = hn::Mul(s, hn::Add(a, hn::Mul(s4, hn::Add(b, hn::Mul(s4, c)))));
  return hn::Add(hn::Mul(hn::Mul(number(2.0), z), hn::Add(number(1.0), sum)),
                 hn::Mul(exponent, number(std::numbers::ln2)));
}

}  // namespace headwise::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_SCALAR

#endif
