// ln x in double, with the same bits on every machine (the C library's differ in the last one).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

namespace headwise::base {

// 2·artanh(z) with z = (m − 1)/(m + 1) for m in [√½, √2], summed to the last bit; plus e·ln 2.
inline double natural_log(double x) {
  if (!(x > 0.0) || std::isinf(x)) return x == 0.0 ? -HUGE_VAL : (x > 0.0 ? x : NAN);
  constexpr std::uint64_t kMantissa = (std::uint64_t{1} << 52U) - 1;
  if (x < std::numeric_limits<double>::min()) return natural_log(x * 0x1p54) - 54.0 * std::numbers::ln2;
  const auto bits = std::bit_cast<std::uint64_t>(x);
  auto exponent = static_cast<std::int64_t>(bits >> 52U) - 1023;
  double m = std::bit_cast<double>((bits & kMantissa) | (std::uint64_t{1023} << 52U));
  if (m > std::numbers::sqrt2) {
    m *= 0.5;
    ++exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double s = z * z;
  const double s2 = s * s;
  const double s4 = s2 * s2;
  // Pairs first: four short chains instead of one long one.
  const double a = 1.0 / 3 + s * (1.0 / 5) + s2 * (1.0 / 7 + s * (1.0 / 9));
  const double b = 1.0 / 11 + s * (1.0 / 13) + s2 * (1.0 / 15 + s * (1.0 / 17));
  const double c = 1.0 / 19 + s * (1.0 / 21);
  const double sum = s * (a + s4 * (b + s4 * c));
  return 2.0 * z * (1.0 + sum) + static_cast<double>(exponent) * std::numbers::ln2;
}

}  // namespace headwise::base
