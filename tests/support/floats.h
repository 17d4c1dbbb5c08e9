// Plain numbers for tests of kernels: aligned as the library's scratch is, random, compared by bits.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <span>
#include <vector>

#include "support/dice.h"

namespace headwise::test_support {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
// In places that a kernel must not touch. No test computes it.
inline constexpr float kUntouched = -12345.5F;

template <typename T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};
  CacheLineAllocator() = default;
  template <typename U>
  explicit CacheLineAllocator(const CacheLineAllocator<U>& /*other*/) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kLine));
  }
  void deallocate(T* memory, std::size_t /*count*/) { ::operator delete(memory, kLine); }
  bool operator==(const CacheLineAllocator& /*other*/) const { return true; }
};
using Floats = std::vector<float, CacheLineAllocator<float>>;

inline Floats filled(std::int64_t count, float value) {
  return Floats(static_cast<std::size_t>(count), value);
}
inline Floats random_floats(Dice& dice, std::int64_t count, float deviation = 1.0F) {
  Floats numbers = filled(count, 0.0F);
  for (float& number : numbers) number = dice.normal(deviation);
  return numbers;
}

// Equal bits; but any NaN equals any other, because CPUs differ in which operand's payload survives.
inline bool same_float(float a, float b) {
  return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
}
inline ::testing::AssertionResult same_floats(std::span<const float> ours,
                                              std::span<const float> expected) {
  if (ours.size() != expected.size()) return ::testing::AssertionFailure() << "sizes differ";
  for (std::size_t i = 0; i < ours.size(); ++i) {
    if (!same_float(ours[i], expected[i])) {
      return ::testing::AssertionFailure() << "number " << i << " is " << ours[i] << ", not "
                                           << expected[i] << "; apart: " << ours[i] - expected[i];
    }
  }
  return ::testing::AssertionSuccess();
}

// Equal numbers, where the sign of a zero is nobody's promise: maxima of 0 and −0 are either.
inline ::testing::AssertionResult same_numbers(std::span<const float> ours,
                                               std::span<const float> expected) {
  Floats x(ours.begin(), ours.end());
  Floats y(expected.begin(), expected.end());
  for (float& number : x) number += 0.0F;
  for (float& number : y) number += 0.0F;
  return same_floats(x, y);
}

// No further apart than `tolerance`; what is not finite must be the same.
inline bool near(float ours, double expected, double tolerance) {
  if (std::isnan(expected)) return std::isnan(ours);
  const auto x = static_cast<double>(ours);
  return x == expected || std::abs(x - expected) <= tolerance;
}

// Error in units of the last place that a float of the exact value's size has.
inline double ulps_apart(float ours, double exact) {
  const double size = std::abs(exact) < 0x1p-126 ? 0x1p-126 : std::abs(exact);
  return std::abs(static_cast<double>(ours) - exact) / std::ldexp(1.0, std::ilogb(size) - 23);
}

}  // namespace headwise::test_support
