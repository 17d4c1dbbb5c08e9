// Medians and quartiles: a shared machine disturbs some rounds, never speeds one up.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace headwise::bench {

// The value below which that part of all values lies, between neighbours by straight line. Not for
// an empty list.
inline double quantile(std::vector<double> values, double part) {
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return std::lerp(values[below], values[above], place - std::floor(place));
}

inline double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace headwise::bench
