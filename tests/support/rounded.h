// A number that knows how far off a float32 computation of it would probably be.
//
// `value` is plain float64 arithmetic. `variance` is that of the float32 rounding error under the
// usual model: every operation adds an independent error, uniform in ±½ unit in the last place, and
// passes on its operands' errors to first order. The oracle run with this type gives at once the
// reference and the typical error of the naive float32 run of the same loops, which a single such
// run (one draw) only samples: for a tensor of one element it may well be exactly right by luck.
#pragma once

#include <cmath>

namespace headwise::oracle {

struct Rounded {
  double value = 0.0;
  double variance = 0.0;

  Rounded() = default;
  Rounded(double exact) : value(exact) {}  // NOLINT(google-explicit-constructor): inputs are exact
  Rounded(double result, double inherited)
      : value(result), variance(inherited + of_one_rounding(result)) {}

  [[nodiscard]] double deviation() const { return std::sqrt(variance); }

  static double of_one_rounding(double result) {
    int exponent = 0;
    if (std::frexp(result, &exponent) == 0.0) return 0.0;
    const double half_unit = std::ldexp(1.0, exponent - 25);  // float32 has 24 bits of mantissa
    return half_unit * half_unit / 3.0;
  }
};

inline double square(double x) { return x * x; }

inline Rounded operator-(const Rounded& a) {
  Rounded negated = a;
  negated.value = -a.value;
  return negated;
}
inline Rounded operator+(const Rounded& a, const Rounded& b) {
  return {a.value + b.value, a.variance + b.variance};
}
inline Rounded operator-(const Rounded& a, const Rounded& b) {
  return {a.value - b.value, a.variance + b.variance};
}
inline Rounded operator*(const Rounded& a, const Rounded& b) {
  return {a.value * b.value, square(b.value) * a.variance + square(a.value) * b.variance};
}
inline Rounded operator/(const Rounded& a, const Rounded& b) {
  const double quotient = a.value / b.value;
  return {quotient, (a.variance + square(quotient) * b.variance) / square(b.value)};
}
inline Rounded& operator+=(Rounded& a, const Rounded& b) { return a = a + b; }
inline Rounded& operator*=(Rounded& a, const Rounded& b) { return a = a * b; }
inline bool operator<(const Rounded& a, const Rounded& b) { return a.value < b.value; }
inline bool operator>(const Rounded& a, const Rounded& b) { return b < a; }
inline bool operator==(const Rounded& a, const Rounded& b) { return a.value == b.value; }

// f(x) with an error of |f'(x)|·error(x).
inline Rounded exp(const Rounded& x) {
  const double y = std::exp(x.value);
  return {y, square(y) * x.variance};
}
inline Rounded log(const Rounded& x) { return {std::log(x.value), x.variance / square(x.value)}; }
inline Rounded sqrt(const Rounded& x) {
  const double y = std::sqrt(x.value);
  return {y, x.variance / (4.0 * x.value)};
}
inline Rounded tanh(const Rounded& x) {
  const double y = std::tanh(x.value);
  return {y, square(1.0 - y * y) * x.variance};
}

// Where treating errors as independent would be far off:
// - a softmax does not depend on the number that is subtracted from all scores, so that number has
//   no error of its own;
template <typename Scalar>
Scalar reference_score(const Scalar& x) {
  return x;
}
inline Rounded reference_score(const Rounded& x) { return {x.value}; }
// - a part of a whole is in the whole too: for p = part/whole, dp = p·((1−p)·dpart/part − drest/whole).
template <typename Scalar>
Scalar share(const Scalar& part, const Scalar& whole) {
  return part / whole;
}
inline Rounded share(const Rounded& part, const Rounded& whole) {
  const double p = part.value / whole.value;
  const double rest = std::fmax(whole.variance - part.variance, 0.0);
  if (part.value == 0.0) return {p};
  return {p, square((1.0 - p) / whole.value) * part.variance + square(p / whole.value) * rest};
}

}  // namespace headwise::oracle
