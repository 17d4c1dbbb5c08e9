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
  constexpr double kInverseOdd[] = {1.0 / 3,  1.0 / 5,  1.0 / 7,  1.0 / 9,  1.0 / 11,
                                    1.0 / 13, 1.0 / 15, 1.0 / 17, 1.0 / 19, 1.0 / 21};
  double sum = 0.0;
  for (int i = 9; i >= 0; --i) sum = (sum + kInverseOdd[i]) * square;
  return 2.0 * z * (1.0 + sum) + exponent * std::numbers::ln2;
}

}  // namespace headwise::base
