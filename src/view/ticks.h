// Round numbers along an axis, and how to write them.
#pragma once

#include <string>
#include <vector>

namespace headwise::view {

struct Range {
  double low = 0.0;
  double high = 1.0;
};

// Multiples of 1, 2 or 5 times a power of ten within the range; about `count` of them, at least 2.
std::vector<double> linear_ticks(const Range& range, int count);

// Powers of ten within the range, thinned to about `count`; within one decade 1, 2 and 5 as well.
std::vector<double> logarithmic_ticks(const Range& range, int count);

// As short as it can be without being wrong: "0.02", "1,000", "1e-06".
std::string tick_text(double value);

// A weight within its cell, in hundredths: ".93", "1"; nothing for what rounds to 0.
std::string cell_text(double weight);

}  // namespace headwise::view
