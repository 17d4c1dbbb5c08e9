// float32 that rounds up or down at random, the nearer neighbour being the likelier: every run of
// the same loops is another draw of their rounding errors (Monte Carlo arithmetic), with all that
// ties the errors of different elements together. What is exact stays exact. Errors are uniform
// over ±1 unit in the last place, √2 times as wide as those of rounding to nearest.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "support/dice.h"

namespace headwise::oracle {

inline test_support::Dice& jitter_dice() {
  thread_local test_support::Dice dice(0);
  return dice;
}

struct Jittered {
  float value = 0.0F;

  Jittered() = default;
  Jittered(double result) : value(rounded(result)) {}  // NOLINT(google-explicit-constructor)

  static float rounded(double result) {
    const auto nearest = static_cast<float>(result);
    const double missing = result - static_cast<double>(nearest);
    if (missing == 0.0 || !std::isfinite(nearest)) return nearest;
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const float other = std::nextafter(nearest, missing > 0.0 ? infinity : -infinity);
    const double step = static_cast<double>(other) - static_cast<double>(nearest);
    return jitter_dice().chance(missing / step) ? other : nearest;
  }
  [[nodiscard]] double exact() const { return static_cast<double>(value); }
};

// The arguments' float64 results are exact or nearly so, and then rounded.
inline Jittered operator-(Jittered a) { return {-a.exact()}; }
inline Jittered operator+(Jittered a, Jittered b) { return {a.exact() + b.exact()}; }
inline Jittered operator-(Jittered a, Jittered b) { return {a.exact() - b.exact()}; }
inline Jittered operator*(Jittered a, Jittered b) { return {a.exact() * b.exact()}; }
inline Jittered operator/(Jittered a, Jittered b) { return {a.exact() / b.exact()}; }
inline Jittered& operator+=(Jittered& a, Jittered b) { return a = a + b; }
inline Jittered& operator*=(Jittered& a, Jittered b) { return a = a * b; }
inline bool operator<(Jittered a, Jittered b) { return a.value < b.value; }
inline bool operator>(Jittered a, Jittered b) { return a.value > b.value; }
inline Jittered exp(Jittered x) { return {std::exp(x.exact())}; }
inline Jittered log(Jittered x) { return {std::log(x.exact())}; }
inline Jittered sqrt(Jittered x) { return {std::sqrt(x.exact())}; }
inline Jittered tanh(Jittered x) { return {std::tanh(x.exact())}; }

}  // namespace headwise::oracle
