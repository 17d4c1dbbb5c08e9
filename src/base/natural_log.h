// ln x in double, with the same bits on every machine (the C library's differ in the last one).
#pragma once

#include <cmath>
#include <numbers>

namespace headwise::base {

// 2·artanh(z) with z = (m − 1)/(m + 1) for m in [√½, √2], summed to the last bit; plus e·ln 2.
inline double natural_log(double x) {
  if (!(x > 0.0) || std::isinf(x)) return x == 0.0 ? -HUGE_VAL : (x > 0.0 ? x : NAN);
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.5 * std::numbers::sqrt2) {
    m *= 2.0;
    --exponent;
  }
  const double z = (m - 1.0) / (m + 1.0);
  const double square = z * z;
  double sum = 0.0;
  for (int k = 21; k >= 3; k -= 2) sum = (sum + 1.0 / k) * square;
  return 2.0 * z * (1.0 + sum) + exponent * std::numbers::ln2;
}

}  // namespace headwise::base
