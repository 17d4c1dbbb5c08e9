// Whether two views may share memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>

#include "base/small_vector.h"
#include "headwise/tensor.h"

namespace headwise::tensor {

// By the addresses they span, so views that interleave without touching count as overlapping too.
template <typename A, typename B>
bool may_overlap(const TensorView<A>& a, const TensorView<B>& b) {
  if (!a.present() || !b.present() || a.size() == 0 || b.size() == 0) return false;
  struct Span {
    const char* begin;
    const char* end;
  };
  const auto span = [](const auto& view) {
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (int axis = 0; axis < view.rank(); ++axis) {
      const std::int64_t reach = (view.extent(axis) - 1) * view.stride(axis);
      (reach < 0 ? low : high) += reach;
    }
    return Span{reinterpret_cast<const char*>(view.data() + low),
                reinterpret_cast<const char*>(view.data() + high + 1)};
  };
  const std::less<> before;
  const Span x = span(a);
  const Span y = span(b);
  return before(x.begin, y.end) && before(y.begin, x.end);
}

// Whether an element may be reached by two different indices, which an output must not allow. Axes
// that nest, each one's step being longer than all that the smaller ones reach, cannot do that.
template <typename T>
bool may_repeat_elements(const TensorView<T>& view) {
  struct Axis {
    std::int64_t step;
    std::int64_t extent;
  };
  base::SmallVector<Axis, 16> axes;
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.extent(axis) > 1) axes.push_back({std::abs(view.stride(axis)), view.extent(axis)});
  }
  std::sort(axes.begin(), axes.end(), [](const Axis& a, const Axis& b) { return a.step < b.step; });
  std::int64_t reach = 0;
  for (const Axis& axis : axes) {
    if (axis.step <= reach) return true;
    reach += (axis.extent - 1) * axis.step;
  }
  return false;
}

}  // namespace headwise::tensor
