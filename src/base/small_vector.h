// A list that needs no allocation for as long as it is short: the lists of a call's plan are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

namespace headwise::base {

template <typename T, std::size_t Inline = 64>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  SmallVector() = default;
  SmallVector(SmallVector&& other) noexcept { *this = std::move(other); }
  SmallVector& operator=(SmallVector&& other) noexcept {
    heap_ = std::move(other.heap_);
    capacity_ = heap_ ? other.capacity_ : Inline;
    size_ = other.size_;
    if (!heap_) std::copy_n(other.inline_, size_, inline_);
    other.size_ = 0;
    other.capacity_ = Inline;
    return *this;
  }
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  ~SmallVector() = default;

  void reserve(std::size_t count) {
    if (count <= capacity_) return;
    auto larger = std::make_unique<T[]>(count);
    std::copy_n(data(), size_, larger.get());
    heap_ = std::move(larger);
    capacity_ = count;
  }
  void push_back(const T& value) {
    if (size_ == capacity_) reserve(2 * capacity_);
    data()[size_++] = value;
  }
  void assign(std::size_t count, const T& value) {
    reserve(count);
    std::fill_n(data(), count, value);
    size_ = count;
  }

  [[nodiscard]] T* data() { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] const T* data() const { return heap_ ? heap_.get() : inline_; }
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] T& operator[](std::size_t i) { return data()[i]; }
  [[nodiscard]] const T& operator[](std::size_t i) const { return data()[i]; }
  [[nodiscard]] const T& front() const { return data()[0]; }
  [[nodiscard]] T* begin() { return data(); }
  [[nodiscard]] T* end() { return data() + size_; }
  [[nodiscard]] const T* begin() const { return data(); }
  [[nodiscard]] const T* end() const { return data() + size_; }

 private:
  T inline_[Inline];
  std::unique_ptr<T[]> heap_;
  std::size_t size_ = 0;
  std::size_t capacity_ = Inline;
};

}  // namespace headwise::base
