// Checks at the boundary. Everything behind it may assume sound arguments.
#pragma once

#include <cstdint>
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
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace headwise::base
