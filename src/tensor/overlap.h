// Whether two views may share memory.
#pragma once

#include <cstdint>
#include <functional>

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

// Whether an element may be reached by two different indices, which an output must not allow.
template <typename T>
bool repeats_elements(const TensorView<T>& view) {
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.extent(axis) > 1 && view.stride(axis) == 0) return true;
  }
  return false;
}

}  // namespace headwise::tensor
