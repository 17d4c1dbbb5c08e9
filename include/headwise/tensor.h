// Strided views of the caller's memory, owning aligned tensors, and maps from names to tensors.
// Words as in std::mdspan: rank, extent, stride (counted in elements; zero and negative are fine).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace headwise {

inline constexpr int kMaxRank = 8;

// Extents of a tensor, each ≥ 0; their product fits an int64. Checked when made.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents);
  explicit Shape(std::span<const std::int64_t> extents);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] std::int64_t operator[](int axis) const noexcept {
    return extents_[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] std::int64_t element_count() const noexcept { return element_count_; }
  [[nodiscard]] std::string to_string() const;  // "(2, 4, 100)"

  [[nodiscard]] const std::int64_t* begin() const noexcept { return extents_.data(); }
  [[nodiscard]] const std::int64_t* end() const noexcept { return extents_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.rank_ == b.rank_ && a.extents_ == b.extents_;
  }

 private:
  std::array<std::int64_t, kMaxRank> extents_{};
  std::int64_t element_count_ = 1;  // rank 0 is one number
  int rank_ = 0;
};

using Strides = std::array<std::int64_t, kMaxRank>;

Strides row_major_strides(const Shape& shape) noexcept;

namespace detail {
// Throws ArgumentError unless every element of the view has an address that can exist.
void check_view(const void* data, std::size_t element_bytes, std::size_t alignment,
                const Shape& shape, const Strides& strides);
}  // namespace detail

// A non-owning, strided look at numbers somewhere else. Default-constructed: no view at all.
template <typename T>
class TensorView {
 public:
  using Element = std::remove_const_t<T>;

  TensorView() = default;
  TensorView(T* data, const Shape& shape) : TensorView(data, shape, row_major_strides(shape)) {}
  TensorView(T* data, const Shape& shape, const Strides& strides)
      : data_(data), shape_(shape), strides_(strides), present_(true) {
    detail::check_view(data, sizeof(T), alignof(T), shape, strides);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): a view may always be looked at read-only.
  operator TensorView<const T>() const requires(!std::is_const_v<T>) {
    return present_ ? TensorView<const T>(data_, shape_, strides_) : TensorView<const T>();
  }

  [[nodiscard]] bool present() const noexcept { return present_; }
  [[nodiscard]] T* data() const noexcept { return data_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int rank() const noexcept { return shape_.rank(); }
  [[nodiscard]] std::int64_t extent(int axis) const noexcept { return shape_[axis]; }
  [[nodiscard]] std::int64_t stride(int axis) const noexcept {
    return strides_[static_cast<std::size_t>(axis)];
  }
  [[nodiscard]] std::int64_t size() const noexcept { return shape_.element_count(); }

  // One element; as many indices as the rank, not checked.
  template <typename... Index>
  [[nodiscard]] T& operator()(Index... index) const noexcept {
    std::int64_t offset = 0;
    int axis = 0;
    ((offset += static_cast<std::int64_t>(index) * stride(axis++)), ...);
    return data_[offset];
  }

  // The same memory with its axes in another order, e.g. {0, 2, 1, 3} for (B,T,H,d) → (B,H,T,d).
  [[nodiscard]] TensorView permuted(std::initializer_list<int> axes) const;
  // The same memory, extents [begin, end) of one axis.
  [[nodiscard]] TensorView sliced(int axis, std::int64_t begin, std::int64_t end) const;
  // The same memory without `axis`, at `index` of it.
  [[nodiscard]] TensorView at(int axis, std::int64_t index) const;
  // The same memory with a new axis of any extent and stride 0: a broadcast that copies nothing.
  [[nodiscard]] TensorView broadcast(int axis, std::int64_t extent) const;

 private:
  T* data_ = nullptr;
  Shape shape_;
  Strides strides_{};
  bool present_ = false;
};

using ConstView = TensorView<const float>;
using MutableView = TensorView<float>;

namespace detail {
inline constexpr std::size_t kTensorAlignment = 64;  // a cache line, and the widest vector
class RecycledMemory;
struct AlignedDelete {
  void operator()(void* memory) const noexcept;

  std::shared_ptr<RecycledMemory> recycled;  // where the memory goes; null: to the system
  std::size_t bytes = 0;
};
using AlignedMemory = std::unique_ptr<void, AlignedDelete>;
// Null for nothing; throws OutOfMemory.
AlignedMemory allocate_aligned(std::size_t count, std::size_t element_bytes,
                               std::shared_ptr<RecycledMemory> recycled);
}  // namespace detail

// Owns its numbers: row-major, 64-byte aligned, copied when copied.
template <typename T>
class BasicTensor {
 public:
  BasicTensor() : shape_{0} {}
  explicit BasicTensor(const Shape& shape) : BasicTensor(shape, nullptr) {}  // zeros
  BasicTensor(const BasicTensor& other);
  BasicTensor(BasicTensor&& other) noexcept  // leaves an empty tensor behind
      : shape_(std::exchange(other.shape_, Shape{0})), data_(std::move(other.data_)) {}
  BasicTensor& operator=(const BasicTensor& other);
  BasicTensor& operator=(BasicTensor&& other) noexcept {
    shape_ = std::exchange(other.shape_, Shape{0});
    data_ = std::move(other.data_);
    return *this;
  }
  ~BasicTensor() = default;

  static BasicTensor zeros(const Shape& shape) { return BasicTensor(shape); }
  static BasicTensor full(const Shape& shape, T value);
  static BasicTensor from(const Shape& shape, std::initializer_list<T> values) {
    return copy_of_values(shape, std::span<const T>(values.begin(), values.size()));
  }
  static BasicTensor copy_of_values(const Shape& shape, std::span<const T> values);
  static BasicTensor copy_of(const TensorView<const T>& view);  // any strides in, row-major out

  // Random numbers that depend on seed and place alone, not on the shape or the machine's threads.
  static BasicTensor normal(const Shape& shape, std::uint64_t seed,
                            float deviation = 1.0F) requires std::is_same_v<T, float>;
  static BasicTensor uniform(const Shape& shape, std::uint64_t seed, float low,
                             float high) requires std::is_same_v<T, float>;

  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int rank() const noexcept { return shape_.rank(); }
  [[nodiscard]] std::int64_t extent(int axis) const noexcept { return shape_[axis]; }
  [[nodiscard]] std::int64_t size() const noexcept { return shape_.element_count(); }
  [[nodiscard]] T* data() noexcept { return data_.get(); }
  [[nodiscard]] const T* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::span<T> values() noexcept {
    return {data_.get(), static_cast<std::size_t>(size())};
  }
  [[nodiscard]] std::span<const T> values() const noexcept {
    return {data_.get(), static_cast<std::size_t>(size())};
  }

  [[nodiscard]] TensorView<T> view() { return {data_.get(), shape_}; }
  [[nodiscard]] TensorView<const T> view() const { return {data_.get(), shape_}; }
  // NOLINTNEXTLINE(google-explicit-constructor): a tensor stands wherever a view is asked for.
  operator TensorView<T>() { return view(); }
  // NOLINTNEXTLINE(google-explicit-constructor)
  operator TensorView<const T>() const { return view(); }

  // For the library: zeros in memory that is used again and again.
  BasicTensor(const Shape& shape, std::shared_ptr<detail::RecycledMemory> recycled);

  // The same numbers under another shape of the same element count.
  [[nodiscard]] BasicTensor reshaped(const Shape& shape) const&;
  [[nodiscard]] BasicTensor reshaped(const Shape& shape) &&;

 private:
  Shape shape_;
  std::unique_ptr<T[], detail::AlignedDelete> data_;
};

using Tensor = BasicTensor<float>;
using BoolTensor = BasicTensor<bool>;
using IndexTensor = BasicTensor<std::int64_t>;

using TensorMap = std::map<std::string, Tensor>;

// A read-only view that either borrows (from a view or a named tensor: keep it alive for the
// call) or owns (from a temporary tensor). It lets masks and biases be plain values.
template <typename T>
class SharedView {
 public:
  SharedView() = default;
  SharedView(TensorView<const T> view) : view_(view) {}  // NOLINT(google-explicit-constructor)
  SharedView(TensorView<T> view) : view_(view) {}        // NOLINT(google-explicit-constructor)
  SharedView(const BasicTensor<T>& tensor)
      : view_(tensor) {}               // NOLINT(google-explicit-constructor)
  SharedView(BasicTensor<T>&& tensor)  // NOLINT(google-explicit-constructor)
      : owner_(std::make_shared<const BasicTensor<T>>(std::move(tensor))), view_(*owner_) {}
  // NOLINTNEXTLINE(google-explicit-constructor): lengths and ids often come in a vector
  SharedView(const std::vector<T>& values) requires(!std::is_same_v<T, bool>)
      : SharedView(BasicTensor<T>::copy_of_values({static_cast<std::int64_t>(values.size())},
                                                  std::span<const T>(values))) {}
  SharedView(std::initializer_list<T> values)
      : SharedView(BasicTensor<T>::from({static_cast<std::int64_t>(values.size())}, values)) {}

  [[nodiscard]] const TensorView<const T>& view() const noexcept { return view_; }

 private:
  std::shared_ptr<const BasicTensor<T>> owner_;
  TensorView<const T> view_;
};

extern template class TensorView<float>;
extern template class TensorView<const float>;
extern template class TensorView<bool>;
extern template class TensorView<const bool>;
extern template class TensorView<std::int64_t>;
extern template class TensorView<const std::int64_t>;
extern template class BasicTensor<float>;
extern template class BasicTensor<bool>;
extern template class BasicTensor<std::int64_t>;

}  // namespace headwise
