#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numbers>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/huge_pages.h"
#include "base/philox.h"
#include "headwise/error.h"
#include "headwise/tensor.h"
#include "tensor/recycled_memory.h"

namespace headwise {

namespace detail {

AlignedMemory allocate_aligned(std::size_t count, std::size_t element_bytes,
                               std::shared_ptr<RecycledMemory> recycled) {
  if (count == 0) return nullptr;
  const std::size_t limit = std::numeric_limits<std::size_t>::max() - kTensorAlignment;
  if (count > limit / element_bytes) throw OutOfMemory(limit);
  // Whole cache lines, so that a vector load of the last few numbers stays inside.
  const std::size_t bytes =
      (count * element_bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
  const auto allocate = [&] {
    return ::operator new (bytes, std::align_val_t{kTensorAlignment}, std::nothrow);
  };
  if (bytes < RecycledMemory::kSmallest) recycled.reset();
  void* memory = recycled == nullptr ? nullptr : recycled->take(bytes);
  if (memory == nullptr) {
    memory = allocate();
    if (memory == nullptr && recycled != nullptr && recycled->bytes() > 0) {
      recycled->clear();
      memory = allocate();
    }
    if (memory == nullptr) throw OutOfMemory(bytes);
    base::prefer_huge_pages(memory, bytes);
  }
  return {memory, {std::move(recycled), bytes}};
}

}  // namespace detail

namespace {

// Calls visit(offset) for every element of a strided view, in row-major order of its indices.
template <typename T, typename Visit>
void for_each_offset(const TensorView<T>& view, Visit visit, int axis = 0,
                     std::int64_t offset = 0) {
  if (axis == view.rank()) {
    visit(offset);
    return;
  }
  for (std::int64_t i = 0; i < view.extent(axis); ++i) {
    for_each_offset(view, visit, axis + 1, offset + i * view.stride(axis));
  }
}

// Number i of the stream: word i % 4 of block i / 4. (For any T, though only float is ever meant:
// Clang 14 instantiates constrained members that it should not.)
template <typename T, typename Make>
void fill_by_blocks(std::span<T> values, std::uint64_t seed, Make make) {
  for (std::size_t i = 0; i < values.size(); i += 4) {
    const std::uint64_t block = i / 4;
    const auto words = base::philox(
        {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, seed);
    const std::array<float, 4> made = make(words);
    for (std::size_t j = 0; j < 4 && i + j < values.size(); ++j) {
      values[i + j] = static_cast<T>(made[j]);
    }
  }
}

}  // namespace

template <typename T>
BasicTensor<T>::BasicTensor(const Shape& shape, std::shared_ptr<detail::RecycledMemory> recycled)
    : shape_(shape) {
  auto memory = detail::allocate_aligned(static_cast<std::size_t>(shape.element_count()), sizeof(T),
                                         std::move(recycled));
  const detail::AlignedDelete deleter = memory.get_deleter();
  data_ = {static_cast<T*>(memory.release()), deleter};
  std::uninitialized_fill_n(data_.get(), size(), T{});
}

template <typename T>
BasicTensor<T>::BasicTensor(const BasicTensor& other) : BasicTensor(other.shape_) {
  std::copy_n(other.data(), size(), data());
}

template <typename T>
BasicTensor<T>& BasicTensor<T>::operator=(const BasicTensor& other) {
  if (this != &other) *this = BasicTensor(other);
  return *this;
}

template <typename T>
BasicTensor<T> BasicTensor<T>::full(const Shape& shape, T value) {
  BasicTensor tensor(shape);
  std::fill_n(tensor.data(), tensor.size(), value);
  return tensor;
}

template <typename T>
BasicTensor<T> BasicTensor<T>::copy_of_values(const Shape& shape, std::span<const T> values) {
  if (static_cast<std::int64_t>(values.size()) != shape.element_count()) {
    base::fail("Tensor::from", "values",
               std::to_string(shape.element_count()) + " numbers for " + shape.to_string(),
               std::to_string(values.size()));
  }
  BasicTensor tensor(shape);
  std::copy(values.begin(), values.end(), tensor.data());
  return tensor;
}

template <typename T>
BasicTensor<T> BasicTensor<T>::copy_of(const TensorView<const T>& view) {
  BasicTensor tensor(view.shape());
  T* to = tensor.data();
  for_each_offset(view, [&](std::int64_t offset) { *to++ = view.data()[offset]; });
  return tensor;
}

template <typename T>
BasicTensor<T> BasicTensor<T>::normal(const Shape& shape, std::uint64_t seed,
                                      float deviation) requires std::is_same_v<T, float> {
  BasicTensor tensor(shape);
  fill_by_blocks(tensor.values(), seed, [deviation](const base::PhiloxBlock& words) {
    std::array<float, 4> made{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {  // Box–Muller: two uniforms, two normals
      const float open = 1.0F - base::unit_interval(words[pair]);  // (0, 1]: a logarithm follows
      const float angle = 2.0F * std::numbers::pi_v<float> * base::unit_interval(words[pair + 1]);
      const float radius = deviation * std::sqrt(-2.0F * std::log(open));
      made[pair] = radius * std::cos(angle);
      made[pair + 1] = radius * std::sin(angle);
    }
    return made;
  });
  return tensor;
}

template <typename T>
BasicTensor<T> BasicTensor<T>::uniform(const Shape& shape, std::uint64_t seed, float low,
                                       float high) requires std::is_same_v<T, float> {
  BasicTensor tensor(shape);
  fill_by_blocks(tensor.values(), seed, [low, high](const base::PhiloxBlock& words) {
    std::array<float, 4> made{};
    for (std::size_t i = 0; i < 4; ++i) {
      made[i] = low + (high - low) * base::unit_interval(words[i]);
    }
    return made;
  });
  return tensor;
}

namespace {

void require_same_count(const Shape& from, const Shape& to) {
  if (from.element_count() != to.element_count()) {
    base::fail("Tensor::reshaped", "shape",
               std::to_string(from.element_count()) + " elements as in " + from.to_string(),
               to.to_string());
  }
}

}  // namespace

template <typename T>
BasicTensor<T> BasicTensor<T>::reshaped(const Shape& shape) const& {
  return BasicTensor(*this).reshaped(shape);
}

template <typename T>
BasicTensor<T> BasicTensor<T>::reshaped(const Shape& shape) && {
  require_same_count(shape_, shape);
  shape_ = shape;
  return std::move(*this);
}

template class BasicTensor<float>;
template class BasicTensor<bool>;
template class BasicTensor<std::int64_t>;

}  // namespace headwise
