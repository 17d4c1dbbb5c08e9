#include "support/accuracy.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numbers>
#include <ostream>
#include <sstream>

#include "support/strided.h"

namespace headwise::test_support {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) { return Shape(shape).to_string(); }

double quantile(std::vector<double> numbers, double share) {
  if (numbers.empty()) return 0.0;
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(numbers.size()));
  std::nth_element(numbers.begin(), numbers.begin() + place, numbers.end());
  return numbers[static_cast<std::size_t>(place)];
}

std::string element_text(std::size_t i, const std::vector<std::int64_t>& shape, float got,
                         double expected) {
  std::ostringstream text;
  text << std::setprecision(10) << "element " << i << " of " << shape_text(shape) << ": expected "
       << expected << ", got " << got;
  return text.str();
}

// Over all draws, brought down to the width of rounding to nearest.
double largest_error(const oracle::Array<oracle::Rounded>& reference,
                     const std::vector<oracle::Array<oracle::Jittered>>& draws) {
  double largest = 0.0;
  for (const auto& draw : draws) {
    for (std::size_t i = 0; i < draw.values.size(); ++i) {
      const double error = std::abs(draw.values[i].exact() - reference.values[i].value);
      if (std::isfinite(error)) largest = std::max(largest, error);
    }
  }
  return largest / std::numbers::sqrt2;
}

}  // namespace

double TensorError::yardstick() const { return std::max({naive, 3.0 * typical, redrawn}); }

Comparison compare(const oracle::Array<oracle::Rounded>& reference,
                   const oracle::Array<float>& naive, const ConstView& ours, double factor,
                   const Redraw& redraw) {
  Comparison result;
  TensorError& error = result.error;
  const std::vector<std::int64_t> shape(ours.shape().begin(), ours.shape().end());
  if (shape != reference.shape) {
    result.complaint =
        "expected shape " + shape_text(reference.shape) + ", got " + shape_text(shape);
    return result;
  }
  std::size_t i = 0;
  std::size_t worst = 0;
  std::vector<float> got;
  for_each_offset(ours, [&](std::int64_t offset) {
    const double expected = reference.values[i].value;
    got.push_back(ours.data()[offset]);
    const auto value = static_cast<double>(got.back());
    if (std::isfinite(expected) && std::isfinite(value)) {
      if (std::abs(value - expected) > error.ours) worst = i;
      error.ours = std::max(error.ours, std::abs(value - expected));
      error.naive =
          std::max(error.naive, std::abs(static_cast<double>(naive.values[i]) - expected));
      error.typical = std::max(error.typical, reference.values[i].deviation());
    } else if (value != expected && result.complaint.empty()) {
      result.complaint = element_text(i, shape, got.back(), expected);
    }
    ++i;
  });
  if (error.ours > factor * error.yardstick() && redraw)
    error.redrawn = largest_error(reference, redraw());
  if (result.complaint.empty() && error.ours > factor * error.yardstick()) {
    std::ostringstream text;
    text << element_text(worst, shape, got[worst], reference.values[worst].value)
         << "; largest error " << error.ours << ", naive float32 " << error.naive
         << " (in other draws " << error.redrawn << "), its typical deviation " << error.typical
         << ", allowed " << factor * error.yardstick();
    result.complaint = text.str();
  }
  return result;
}

std::string AccuracyTable::add(const std::string& quantity, const Comparison& comparison,
                               double factor) {
  const TensorError& error = comparison.error;
  Row& row = rows_[quantity];
  row.factor = factor;
  ++row.tensors;
  if (error.ours > 0.0) row.worst = std::max(row.worst, error.ours / error.yardstick());
  if (error.naive > 0.0) row.ratios.push_back(error.ours / error.naive);
  return comparison.complaint.empty() ? "" : quantity + ": " + comparison.complaint;
}

double AccuracyTable::median_ratio(const std::string& quantity) const {
  return quantile(rows_.at(quantity).ratios, 0.5);
}

std::vector<std::string> AccuracyTable::quantities() const {
  std::vector<std::string> names;
  for (const auto& [name, row] : rows_) names.push_back(name);
  return names;
}

void AccuracyTable::print(std::ostream& stream) const {
  if (rows_.empty()) return;
  stream << "Error against float64 as a multiple of the naive float32 error: median and upper\n"
            "quartile; worst multiple of that or of 3 deviations of it, whichever is more\n"
         << std::left << std::setw(44) << "quantity" << std::right << std::setw(9) << "tensors"
         << std::setw(9) << "median" << std::setw(10) << "quartile" << std::setw(9) << "worst"
         << std::setw(9) << "allowed" << '\n';
  for (const auto& [name, row] : rows_) {
    stream << std::left << std::setw(44) << name << std::right << std::setw(9) << row.tensors
           << std::fixed << std::setprecision(2) << std::setw(9) << quantile(row.ratios, 0.5)
           << std::setw(10) << quantile(row.ratios, 0.75) << std::setw(9) << row.worst
           << std::setw(9) << row.factor << '\n';
  }
  stream << std::defaultfloat << std::flush;
}

}  // namespace headwise::test_support
