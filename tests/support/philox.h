// Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3), written
// from the paper so that the tests do not inherit a mistake of the library's own.
#pragma once

#include <array>
#include <cstdint>

namespace headwise::oracle {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

inline PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53U} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57U} * counter[2];
    const auto high0 = static_cast<std::uint32_t>(product0 >> 32U);
    const auto high1 = static_cast<std::uint32_t>(product1 >> 32U);
    counter = {high1 ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               high0 ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9U;
    key[1] += 0xBB67AE85U;
  }
  return counter;
}

}  // namespace headwise::oracle
