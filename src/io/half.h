// 16-bit floating-point numbers, which float32 holds exactly.
#pragma once

#include <bit>
#include <cstdint>

namespace headwise::io {

// bfloat16 is the upper half of a float32.
inline float float_from_bfloat(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

// IEEE 754 binary16. The payload of a NaN is kept. No step meets a subnormal float32, which a thread
// may be set to take for zero.
inline float float_from_half(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000U) << 16U;
  const std::uint32_t exponent = bits & 0x7C00U;
  const std::uint32_t mantissa = bits & 0x03FFU;
  if (exponent == 0) {  // zero and subnormal: a multiple of the smallest
    const float value = static_cast<float>(mantissa) * 0x1p-24F;
    return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
  }
  constexpr std::uint32_t kOffset = (127 - 15) << 23U;  // of the exponents
  const std::uint32_t moved = (exponent | mantissa) << 13U;
  const bool is_finite = exponent != 0x7C00U;
  return std::bit_cast<float>(sign | (is_finite ? moved + kOffset : moved | 0x7F800000U));
}

}  // namespace headwise::io
