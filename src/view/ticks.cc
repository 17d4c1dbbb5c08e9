#include "view/ticks.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace headwise::view {

std::vector<double> linear_ticks(const Range& range, int count) {
  const double span = range.high - range.low;
  if (!(span > 0.0)) return {range.low};
  const double rough = span / std::max(count, 1);
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double factor = rough / power;
  const double step = power * (factor <= 1.5   ? 1.0
                               : factor <= 3.5 ? 2.0
                               : factor <= 7.5 ? 5.0
                                               : 10.0);
  std::vector<double> ticks;
  constexpr double kSlack = 1e-9;  // of a step: the ends belong to the range
  const auto first = static_cast<std::int64_t>(std::ceil(range.low / step - kSlack));
  const auto last = static_cast<std::int64_t>(std::floor(range.high / step + kSlack));
  for (std::int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::vector<double> logarithmic_ticks(const Range& range, int count) {
  const int first = static_cast<int>(std::ceil(std::log10(range.low) - 1e-9));
  const int last = static_cast<int>(std::floor(std::log10(range.high) + 1e-9));
  std::vector<double> ticks;
  if (last - first < 2) {
    for (int power = first - 1; power <= last; ++power) {
      for (const double digit : {1.0, 2.0, 5.0}) {
        const double value = digit * std::pow(10.0, power);
        if (value >= range.low * (1.0 - 1e-9) && value <= range.high * (1.0 + 1e-9)) {
          ticks.push_back(value);
        }
      }
    }
    return ticks;
  }
  const int step = std::max(1, (last - first + count - 1) / std::max(count, 1));
  for (int power = last; power >= first; power -= step) ticks.push_back(std::pow(10.0, power));
  std::reverse(ticks.begin(), ticks.end());
  return ticks;
}

std::string tick_text(double value) {
  char text[64];
  const double size = std::abs(value);
  if (size >= 1000.0 && size < 1e6 && value == std::round(value)) {
    std::snprintf(text, sizeof text, "%.0f", value);
    std::string digits = text;
    digits.insert(digits.size() - 3, ",");
    return digits;
  }
  std::snprintf(text, sizeof text, "%.6g", std::abs(value) < 1e-300 ? 0.0 : value);
  return text;
}

std::string cell_text(double weight) {
  const long hundredths = std::lround(100.0 * weight);
  if (hundredths == 0) return "";
  if (hundredths >= 100) return "1";
  return (hundredths < 10 ? ".0" : ".") + std::to_string(hundredths);
}

}  // namespace headwise::view
