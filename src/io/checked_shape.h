// A shape that a file claims.
#pragma once

#include <cstdint>
#include <span>

#include "headwise/tensor.h"

namespace headwise::io {

// Throws Malformed for a rank above kMaxRank, extents that are no int64 or whose product is none.
Shape checked_shape(std::span<const std::uint64_t> extents);

// The bytes of a tensor; throws Malformed if their number does not fit an int64.
std::uint64_t checked_bytes(const Shape& shape, std::uint64_t bits_per_element);

}  // namespace headwise::io
