#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "headwise/tensor.h"

namespace headwise {

namespace detail {

void check_view(const void* data, std::size_t element_bytes, std::size_t alignment,
                const Shape& shape, const Strides& strides) {
  if (shape.element_count() == 0) return;  // no element, so no address
  if (data == nullptr) {
    base::fail("TensorView", "data", "a pointer to " + shape.to_string(), "a null pointer");
  }
  if (reinterpret_cast<std::uintptr_t>(data) % alignment != 0) {
    base::fail("TensorView", "data",
               "an address that is a multiple of " + std::to_string(alignment), "one that is not");
  }
  // Offsets of the first and last element in memory, in bytes, must be numbers at all.
  std::int64_t low = 0;
  std::int64_t high = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) {
    const auto reach =
        base::checked_multiply(shape[axis] - 1, strides[static_cast<std::size_t>(axis)]);
    const auto end = reach ? base::checked_add(*reach < 0 ? low : high, *reach) : std::nullopt;
    const auto bytes =
        end ? base::checked_multiply(*end, static_cast<std::int64_t>(element_bytes)) : std::nullopt;
    if (!bytes) {
      base::fail("TensorView", "strides", "offsets that fit 64 bits",
                 "stride " + std::to_string(strides[static_cast<std::size_t>(axis)]) + " on axis " +
                     std::to_string(axis) + " of " + shape.to_string());
    }
    (*reach < 0 ? low : high) = *end;
  }
}

}  // namespace detail

namespace {

void require_axis(const char* function, int axis, int rank) {
  if (axis < 0 || axis >= rank) {
    base::fail(function, "axis", "0 … " + std::to_string(rank - 1), std::to_string(axis));
  }
}

}  // namespace

template <typename T>
TensorView<T> TensorView<T>::permuted(std::initializer_list<int> axes) const {
  std::array<std::int64_t, kMaxRank> extents{};
  Strides strides{};
  unsigned seen = 0;
  std::size_t to = 0;
  for (const int from : axes) {
    require_axis("TensorView::permuted", from, rank());
    if (to < kMaxRank) {
      extents[to] = extent(from);
      strides[to] = stride(from);
    }
    seen |= 1U << static_cast<unsigned>(from);
    ++to;
  }
  if (static_cast<int>(to) != rank() || seen != (1U << static_cast<unsigned>(rank())) - 1) {
    base::fail("TensorView::permuted", "axes",
               "each of the " + std::to_string(rank()) + " axes once",
               std::to_string(to) + " axes");
  }
  return {data_, Shape(std::span<const std::int64_t>(extents.data(), to)), strides};
}

template <typename T>
TensorView<T> TensorView<T>::sliced(int axis, std::int64_t begin, std::int64_t end) const {
  require_axis("TensorView::sliced", axis, rank());
  if (begin < 0 || begin > end || end > extent(axis)) {
    base::fail("TensorView::sliced", "range", "within 0 … " + std::to_string(extent(axis)),
               std::to_string(begin) + " … " + std::to_string(end));
  }
  std::array<std::int64_t, kMaxRank> extents{};
  std::copy(shape_.begin(), shape_.end(), extents.begin());
  extents[static_cast<std::size_t>(axis)] = end - begin;
  const auto rank = static_cast<std::size_t>(shape_.rank());
  // An empty slice keeps the old pointer: one past a strided end need not be an address.
  T* data = begin == end || size() == 0 ? data_ : data_ + begin * stride(axis);
  return {data, Shape(std::span<const std::int64_t>(extents.data(), rank)), strides_};
}

template <typename T>
TensorView<T> TensorView<T>::at(int axis, std::int64_t index) const {
  require_axis("TensorView::at", axis, rank());
  if (index < 0 || index >= extent(axis)) {
    base::fail("TensorView::at", "index", "0 … " + std::to_string(extent(axis) - 1),
               std::to_string(index));
  }
  std::array<std::int64_t, kMaxRank> extents{};
  Strides strides{};
  std::size_t to = 0;
  for (int from = 0; from < rank(); ++from) {
    if (from == axis) continue;
    extents[to] = extent(from);
    strides[to++] = stride(from);
  }
  T* data = size() == 0 ? data_ : data_ + index * stride(axis);
  return {data, Shape(std::span<const std::int64_t>(extents.data(), to)), strides};
}

template <typename T>
TensorView<T> TensorView<T>::broadcast(int axis, std::int64_t extent_) const {
  require_axis("TensorView::broadcast", axis, rank() + 1);
  std::vector<std::int64_t> extents(shape_.begin(), shape_.end());
  extents.insert(extents.begin() + axis, extent_);
  Strides strides{};
  for (int to = 0, from = 0; to < rank() + 1 && to < kMaxRank; ++to) {
    strides[static_cast<std::size_t>(to)] = to == axis ? 0 : stride(from++);
  }
  return {data_, Shape(extents), strides};
}

template class TensorView<float>;
template class TensorView<const float>;
template class TensorView<bool>;
template class TensorView<const bool>;
template class TensorView<std::int64_t>;
template class TensorView<const std::int64_t>;

}  // namespace headwise
