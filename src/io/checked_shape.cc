#include "io/checked_shape.h"

#include <array>
#include <limits>
#include <string>

#include "base/check.h"
#include "io/malformed.h"

namespace headwise::io {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

std::string listed(std::span<const std::uint64_t> extents) {
  std::string text = "(";
  for (const std::uint64_t extent : extents) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + (extents.size() == 1 ? ",)" : ")");
}

}  // namespace

Shape checked_shape(std::span<const std::uint64_t> extents) {
  if (extents.size() > kMaxRank) {
    malformed("has more than " + std::to_string(kMaxRank) + " dimensions");
  }
  std::array<std::int64_t, kMaxRank> signed_extents{};
  std::int64_t product = 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    signed_extents[axis] = static_cast<std::int64_t>(extents[axis]);
    // A zero must not hide extents that cannot be: views of the tensor count them.
    const auto next = extents[axis] > kMost ? std::nullopt
                      : extents[axis] == 0  ? product
                                            : base::checked_multiply(product, signed_extents[axis]);
    if (!next) malformed("shape " + listed(extents) + " has more elements than 64 bits can count");
    product = *next;
  }
  return Shape(std::span<const std::int64_t>(signed_extents.data(), extents.size()));
}

std::uint64_t checked_bytes(const Shape& shape, std::uint64_t bits_per_element) {
  const auto bits =
      base::checked_multiply(shape.element_count(), static_cast<std::int64_t>(bits_per_element));
  if (!bits) malformed("shape " + shape.to_string() + " has more bytes than 64 bits can count");
  if (*bits % 8 != 0) malformed("shape " + shape.to_string() + " ends within a byte");
  return static_cast<std::uint64_t>(*bits) / 8;
}

}  // namespace headwise::io
