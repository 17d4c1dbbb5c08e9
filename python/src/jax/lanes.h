// vmap puts axes in front of every operand: of the mapped size, or 1 where all lanes share it.
// Results have them at full size. Lanes become one batch where memory allows, and calls of their own
// elsewhere; bits are the same either way.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "headwise/tensor.h"
#include "xla/ffi/api/ffi.h"

namespace headwise::jax {

using Dimensions = ::xla::ffi::Span<const std::int64_t>;

// The mapped axes of a call, from a result whose own rank is known.
class Lanes {
 public:
  Lanes(Dimensions result, int rank) : extents_(result.begin(), result.end() - rank) {
    for (const std::int64_t extent : extents_) count_ *= extent;
  }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] const std::vector<std::int64_t>& extents() const { return extents_; }

 private:
  std::vector<std::int64_t> extents_;
  std::int64_t count_ = 1;
};

// Either one lane, or all of them joined to one batch.
struct Share {
  std::int64_t lane = 0;
  bool all = false;
};

// An operand or result of rank `rank`, its first axis being the batch, behind the mapped axes.
template <typename T>
class Operand {
 public:
  Operand(T* data, Dimensions dimensions, int rank, const Lanes& lanes)
      : data_(data),
        mapped_(dimensions.begin(), dimensions.end() - rank),
        own_(dimensions.end() - rank, dimensions.end()),
        lanes_(&lanes) {
    for (const std::int64_t extent : own_) own_size_ *= extent;
    full_ = mapped_ == lanes.extents();
    shared_ = std::all_of(mapped_.begin(), mapped_.end(), [](auto extent) { return extent == 1; });
  }

  // Each lane has its own numbers.
  [[nodiscard]] bool full() const { return full_; }
  // All lanes have the same.
  [[nodiscard]] bool shared() const { return shared_; }
  // Whether one view can show all lanes as one batch of equal steps.
  [[nodiscard]] bool joins(std::int64_t batch) const {
    return full_ ? own_[0] == batch : shared_ && own_[0] == 1;
  }

  [[nodiscard]] T* data(const Share& share) const {
    return share.all ? data_ : data_ + offset(share.lane);
  }
  // Where all lanes share one batch element, it has an extent of 1.
  [[nodiscard]] TensorView<T> view(const Share& share) const {
    std::vector<std::int64_t> extents = own_;
    if (share.all && full_) extents[0] *= lanes_->count();
    return {data(share), Shape(extents)};
  }
  // The same with the whole batch as its extent, for what is never broadcast.
  [[nodiscard]] TensorView<T> batched_view(const Share& share) const {
    const TensorView<T> shown = view(share);
    if (!share.all || full_) return shown;
    return shown.at(0, 0).broadcast(0, lanes_->count());
  }

 private:
  [[nodiscard]] std::int64_t offset(std::int64_t lane) const {
    std::int64_t offset = 0;
    std::int64_t step = own_size_;
    for (std::size_t axis = mapped_.size(); axis-- > 0;) {
      const std::int64_t extent = lanes_->extents()[axis];
      if (mapped_[axis] != 1) {
        offset += lane % extent * step;
        step *= extent;
      }
      lane /= extent;
    }
    return offset;
  }

  T* data_;
  std::vector<std::int64_t> mapped_, own_;
  const Lanes* lanes_;
  std::int64_t own_size_ = 1;
  bool full_ = false, shared_ = false;
};

// Runs the calls of which all lanes consist.
template <typename Run>
void for_each_share(const Lanes& lanes, bool joined, Run run) {
  if (lanes.count() == 0) return;
  if (joined) return run(Share{0, true});
  for (std::int64_t lane = 0; lane < lanes.count(); ++lane) run(Share{lane, false});
}

}  // namespace headwise::jax
