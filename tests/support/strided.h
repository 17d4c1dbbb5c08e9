// Memory with views of awkward strides into it.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <memory>
#include <type_traits>
#include <vector>

#include "headwise/tensor.h"
#include "support/dice.h"

namespace headwise::test_support {

// Keeps what views point to alive for as long as a case lives.
using Memory = std::vector<std::shared_ptr<void>>;

enum class StrideStyle {
  RowMajor,
  Odd,            // axes in any order in memory, gaps between all of them, some backwards
  OddOrRepeated,  // the same, and some axes with stride 0: for what is only read
};

namespace detail {

struct Placement {
  Strides strides{};
  std::int64_t origin = 0;  // of the element with all indices 0
  std::int64_t size = 0;    // elements of memory
};

inline Placement place(const Shape& shape, StrideStyle style, Dice& dice) {
  Placement placement;
  if (style == StrideStyle::RowMajor) {
    placement.strides = row_major_strides(shape);
    placement.size = shape.element_count();
    return placement;
  }
  std::vector<int> order;  // innermost first
  for (int axis = 0; axis < shape.rank(); ++axis) order.push_back(axis);
  dice.shuffle(order);
  placement.origin = dice.between(0, 3);  // not aligned to anything but the element
  std::int64_t step = dice.between(1, 2);
  for (const int axis : order) {
    const std::int64_t extent = std::max<std::int64_t>(shape[axis], 1);
    auto& stride = placement.strides[static_cast<std::size_t>(axis)];
    if (style == StrideStyle::OddOrRepeated && dice.chance(0.05)) {
      stride = 0;
      continue;
    }
    const bool backwards = dice.chance(0.3);
    stride = backwards ? -step : step;
    if (backwards) placement.origin += (extent - 1) * step;
    step *= extent + dice.between(0, 2);
  }
  placement.size = step + 8;
  return placement;
}

template <typename T>
T poison() {  // whoever reads a gap shall notice
  if constexpr (std::is_same_v<T, float>) return std::numeric_limits<float>::quiet_NaN();
  if constexpr (std::is_same_v<T, std::int64_t>) return std::int64_t{-77};
  return T{};
}

}  // namespace detail

// Visits the offset of every element, in row-major order of the indices.
template <typename T>
void for_each_offset(const TensorView<T>& view, const std::function<void(std::int64_t)>& visit) {
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t n = 0; n < view.size(); ++n) {
    std::int64_t offset = 0;
    for (int axis = 0; axis < view.rank(); ++axis)
      offset += index[static_cast<std::size_t>(axis)] * view.stride(axis);
    visit(offset);
    for (int axis = view.rank() - 1; axis >= 0; --axis) {
      if (++index[static_cast<std::size_t>(axis)] < view.extent(axis)) break;
      index[static_cast<std::size_t>(axis)] = 0;
    }
  }
}

template <typename T>
struct Strided {
  TensorView<T> view;
  std::shared_ptr<T[]> storage;
  std::int64_t storage_size = 0;
};

template <typename T>
Strided<T> make_strided(const Shape& shape, StrideStyle style, Dice& dice, Memory& memory) {
  const detail::Placement placement = detail::place(shape, style, dice);
  Strided<T> result;
  result.storage_size = std::max<std::int64_t>(placement.size, 1);
  result.storage = std::shared_ptr<T[]>(new T[static_cast<std::size_t>(result.storage_size)]);
  std::fill_n(result.storage.get(), result.storage_size, detail::poison<T>());
  memory.push_back(std::shared_ptr<void>(result.storage, result.storage.get()));
  result.view = TensorView<T>(result.storage.get() + placement.origin, shape, placement.strides);
  return result;
}

// The same, each element drawn.
template <typename T, typename Draw>
TensorView<T> make_filled(const Shape& shape, StrideStyle style, Dice& dice, Memory& memory,
                          const Draw& draw) {
  const Strided<T> made = make_strided<T>(shape, style, dice, memory);
  for_each_offset(made.view, [&](std::int64_t offset) { made.view.data()[offset] = draw(); });
  return made.view;
}

}  // namespace headwise::test_support
