// ln x in double, with the same bits on every machine (the C library's differ in the last one).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace headwise::base {

// For a positive number that is neither subnormal nor infinite: 2·artanh(z) with z = (m − 1)/(m + 1)
// for m in [√½, √2], summed to the last bit; plus e·ln 2. Without branches, for
// vector_math-inl.h takes the same steps.
inline double natural_log_of_normal(double x) {
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto scaled = std::bit_cast<double>((bits & kMantissa) | (std::uint64_t{1023} << 52U));
  const bool high = scaled > std::numbers::sqrt2;
  const double m = high ? 0.5 * scaled : scaled;
  // The biased exponent as the low bits of 2^52 + it: a conversion that vectors have.
  const auto biased = std::bit_cast<double>((bits >> 52U) | (std::uint64_t{1075} << 52U));
  const double exponent = biased - (0x1p52 + 1023.0) + (high ? 1.0 : 0.0);
  const double z = (m - 1.0) / (m + 1.0);
  const double s = z * z;
  const double s2 = s * s;
  const double s4 = s2 * s2;
  // Pairs first: four short chains instead of one long one.
  const double a = 1.0 / 3 + s * (1.0 / 5) + s2 * (1.0 / 7 + s * (1.0 / 9));
  const double b = 1.0 / 11 + s * (1.0 / 13) + s2 * (1.0 / 15 + s * (1.0 / 17));
  const double c = 1.0 / 19 + s * (1.0 / 21);
  const double sum = s * (a + s4 * (b + s4 * c));
  return 2.0 * z * (1.0 + sum) + exponent * std::numbers::ln2;
}

inline double natural_log(double x) {
  if (!(x > 0.0) || std::isinf(x)) return x == 0.0 ? -HUGE_VAL : (x > 0.0 ? x : NAN);
  if (x < std::numeric_limits<double>::min()) {
    return natural_log_of_normal(x * 0x1p54) - 54.0 * std::numbers::ln2;
  }
  return natural_log_of_normal(x);
}

}  // namespace headwise::base
