// Checks at the boundary. Everything behind it may assume sound arguments.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace headwise::base {

// Throws ArgumentError: "[function] argument: expected …, got …".
[[noreturn]] void fail(std::string_view function, std::string_view argument,
                       std::string_view expected, std::string_view got);

// A number as a user would write it: "0.1", not "0.100000".
std::string to_string(double value);

// Products and sums of sizes that came from outside; nullopt when they do not fit.
inline std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}
inline std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) return std::nullopt;
  return sum;
}
// The largest number there is in place of a product that does not fit; no memory has room for it.
inline std::int64_t saturating_product(std::int64_t a, std::int64_t b) {
  return checked_multiply(a, b).value_or(std::numeric_limits<std::int64_t>::max());
}

inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
inline std::int64_t round_up(std::int64_t a, std::int64_t b) { return divide_up(a, b) * b; }

}  // namespace headwise::base
