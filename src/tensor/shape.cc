#include <string>

#include "base/check.h"
#include "headwise/tensor.h"

namespace headwise {

Shape::Shape(std::initializer_list<std::int64_t> extents)
    : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const std::int64_t> extents) {
  if (extents.size() > kMaxRank) {
    base::fail("Shape", "rank", "at most " + std::to_string(kMaxRank),
               std::to_string(extents.size()));
  }
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t extent : extents) {
    if (extent < 0) base::fail("Shape", "extent", "a number ≥ 0", std::to_string(extent));
    empty = empty || extent == 0;
    extents_[static_cast<std::size_t>(rank_++)] = extent;
    const auto product = base::checked_multiply(element_count_, extent == 0 ? 1 : extent);
    overflow = overflow || !product;
    element_count_ = product.value_or(1);
  }
  // Even a shape with a zero in it must not hide extents whose product cannot be addressed.
  if (overflow) {
    base::fail("Shape", "extents", "a product that fits 64 bits", to_string());
  }
  if (empty) element_count_ = 0;
}

std::string Shape::to_string() const {
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string((*this)[axis]);
  }
  return text + (rank_ == 1 ? ",)" : ")");
}

Strides row_major_strides(const Shape& shape) noexcept {
  Strides strides{};
  std::int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[static_cast<std::size_t>(axis)] = step;
    if (shape[axis] != 0) step *= shape[axis];  // cannot overflow: the shape was checked
  }
  return strides;
}

}  // namespace headwise
