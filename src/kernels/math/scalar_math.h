// The functions behind softmax, softcap and gate, one number at a time. What is written here defines
// their bits: the SIMD versions (vector_math-inl.h) do the same steps in the same order. The C
// library's own differ from machine to machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace headwise::kernels {

inline constexpr float kLog2E = 0x1.715476p+0F;
inline constexpr float kLog2ERest = 0x1.4ae0bep-26F;  // log₂e − kLog2E
// 1.5·2^23 + 127. Adding it rounds to an integer n and leaves n + 127 in the low bits, from where a
// shift by 23 makes 2^n.
inline constexpr float kRounder = 12583039.0F;
// (2^r − 1) / r on [−½, ½]: smallest largest error of 2^r with p(0) = 1, 9e−8 and 2e−9.
inline constexpr float kExp2[] = {0x1.62e42ap-1F, 0x1.ebf9bcp-3F, 0x1.c6b752p-5F, 0x1.3cea88p-7F,
                                  0x1.5bba14p-10F};
inline constexpr float kExp2Fine[] = {0x1.62e430p-1F, 0x1.ebfbdcp-3F,  0x1.c6aee8p-5F,
                                      0x1.3b2d4cp-7F, 0x1.5f3e54p-10F, 0x1.41fbbcp-13F};

// 2^n for the n that kRounder + n carries.
inline float power_of_two(float rounded) {
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(rounded) << 23U);
}
// 2^exponent for an integer of at most 127; 0 below the smallest normal number. Exact.
inline float exact_power(float exponent) {
  return exponent < -126.0F ? 0.0F : power_of_two(kRounder + exponent);
}

template <std::size_t Count>
float polynomial(const float (&coefficients)[Count], float r) {
  float sum = coefficients[Count - 1];
  for (std::size_t i = Count - 1; i-- > 0;) sum = std::fma(sum, r, coefficients[i]);
  return sum;
}

// What a row's scores are turned into weights with: 2^(score·factor − reference).
struct WeightRule {
  float factor = 1.0F;
  float floor = 0.0F;    // scores below weigh nothing: they are 100 octaves below the reference
  float rounder = 0.0F;  // kRounder − reference

  WeightRule(float factor_, float reference)
      : factor(factor_), floor((reference - 100.0F) / factor_), rounder(kRounder - reference) {}
};

// References beyond this leave no bits for the fraction; such rows take the careful way.
inline constexpr float kLargestReference = 0x1p21F;

inline float weight(const WeightRule& rule, float score) {
  if (score < rule.floor) return 0.0F;
  const float rounded = std::fma(score, rule.factor, rule.rounder);
  const float r = std::fma(score, rule.factor, -(rounded - rule.rounder));
  return std::fma(polynomial(kExp2, r), r, 1.0F) * power_of_two(rounded);
}

// From here on a float's steps are so wide that a reference may lie 100 octaves above the very score
// it was made of.
inline constexpr float kCoarseReference = 0x1p30F;

// The same for references of any size, infinite ones included: in double, and never above 1. Scores
// under a coarse reference are rounded as it was, so that the largest one weighs 1.
inline float careful_weight(float factor, float reference, float score) {
  if (std::isnan(score) || (std::isinf(score) && score > 0.0F)) return score - score;
  if (std::isinf(score)) return 0.0F;
  double product = static_cast<double>(score) * static_cast<double>(factor);
  if (!(std::abs(reference) < kCoarseReference)) {
    const float rounded = score * factor;
    if (rounded == reference) return 1.0F;  // perhaps both infinite
    product = static_cast<double>(rounded);
  }
  const double exponent = product - static_cast<double>(reference);
  if (exponent < -100.0) return 0.0F;
  return weight(WeightRule(1.0F, 0.0F), static_cast<float>(exponent < 0.0 ? exponent : 0.0));
}

// 2^(x·factor) − 1 for 0 ≤ x·factor < 100, exact to a rounding or two even where it is small.
inline float exp2_minus_1(float x, float factor) {
  const float rounded = std::fma(x, factor, kRounder);
  const float r = std::fma(x, factor, -(rounded - kRounder));
  const float power = power_of_two(rounded);
  return std::fma(polynomial(kExp2Fine, r) * r, power, power - 1.0F);
}

inline float tanh(float x) {
  const float size = std::abs(x) > 10.0F ? 10.0F : std::abs(x);
  const float e = exp2_minus_1(size, 2.0F * kLog2E);
  return std::copysign(e / (e + 2.0F), x);
}

// 1 / (1 + e^−x).
inline float sigmoid(float x) {
  float size = x < -80.0F ? -80.0F : x;
  size = size > 80.0F ? 80.0F : size;
  const float rounded = std::fma(size, -kLog2E, kRounder);
  float r = std::fma(size, -kLog2E, -(rounded - kRounder));
  r = std::fma(size, -kLog2ERest, r);
  const float power = power_of_two(rounded);
  const float e = std::fma(polynomial(kExp2Fine, r), r, 1.0F) * power;
  return 1.0F / (1.0F + e);
}

}  // namespace headwise::kernels
