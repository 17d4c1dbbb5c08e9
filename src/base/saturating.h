// Products of sizes that came from outside.
#pragma once

#include <cstdint>
#include <limits>

namespace headwise::base {

// The largest number there is in place of a product that does not fit; no memory has room for it.
constexpr std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<std::int64_t>::max()
                                                : product;
}

}  // namespace headwise::base
