// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): four random
// words that are a pure function of a counter and a key, so any thread can make any of them.
#pragma once

#include <array>
#include <cstdint>

namespace headwise::base {

using PhiloxBlock = std::array<std::uint32_t, 4>;

inline PhiloxBlock philox(PhiloxBlock counter, std::uint64_t key) {
  auto key_low = static_cast<std::uint32_t>(key);
  auto key_high = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key_low,
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key_high,
               static_cast<std::uint32_t>(product0)};
    key_low += 0x9E3779B9U;
    key_high += 0xBB67AE85U;
  }
  return counter;
}

// [0, 1) with 24 bits: every value is a float32.
inline float unit_interval(std::uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24F; }

}  // namespace headwise::base
