// Random numbers that are the same on every machine and standard library.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>
#include <vector>

namespace headwise::test_support {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {  // SplitMix64
    std::uint64_t z = (state_ += 0x9E3779B97F4A7C15U);
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31U);
  }
  // Both ends included.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(high - low + 1));
  }
  double unit() { return std::ldexp(static_cast<double>(bits() >> 11U), -53); }  // [0, 1)
  bool chance(double probability) { return unit() < probability; }
  float normal(float deviation) {  // Box and Muller
    const double radius = std::sqrt(-2.0 * std::log(1.0 - unit()));
    return deviation * static_cast<float>(radius * std::cos(2.0 * std::numbers::pi * unit()));
  }
  template <typename T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1],
                items[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(i) - 1))]);
    }
  }

 private:
  std::uint64_t state_;
};

}  // namespace headwise::test_support
