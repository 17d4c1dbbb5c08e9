// Sizes that come from outside, multiplied and added up without ever wrapping around.
#pragma once

#include <cstdint>

#include "base/check.h"

namespace headwise::analyze {

// A number ≥ 0. Throws ArgumentError on behalf of layer_cost where a result does not fit.
class Count {
 public:
  Count() = default;
  Count(std::int64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor)

  [[nodiscard]] std::int64_t value() const { return value_; }

  friend Count operator*(Count a, Count b) {
    return fitting(base::checked_multiply(a.value_, b.value_));
  }
  friend Count operator+(Count a, Count b) {
    return fitting(base::checked_add(a.value_, b.value_));
  }
  Count& operator+=(Count other) { return *this = *this + other; }

 private:
  static Count fitting(std::optional<std::int64_t> result) {
    if (!result) {
      base::fail("layer_cost", "config and call", "sizes whose products fit 64 bits",
                 "larger ones");
    }
    return *result;
  }

  std::int64_t value_ = 0;
};

}  // namespace headwise::analyze
