#include "view/statistics.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>

namespace headwise {

namespace view {

namespace {

template <typename... Numbers>
std::string formatted(const char* format, Numbers... numbers) {
  char text[160];
  std::snprintf(text, sizeof text, format, numbers...);
  return text;
}

struct RowSums {
  double sum = 0.0;
  double entropy = 0.0;
  double distance = 0.0;
  double largest = 0.0;
};

// Weights of 0 are the most frequent of all, and take no part in anything.
RowSums sums_of(const ConstView& weights, std::int64_t row, std::int64_t position) {
  RowSums sums;
  for (std::int64_t key = 0; key < weights.extent(1); ++key) {
    const auto p = static_cast<double>(weights(row, key));
    if (p == 0.0) continue;
    sums.sum += p;
    sums.largest = std::max(sums.largest, p);
    sums.entropy -= p * std::log(p);
    sums.distance += p * static_cast<double>(std::abs(position - key));
  }
  return sums;
}

}  // namespace

HeadSummary summarise(const ShownHead& head, std::int64_t first_position) {
  HeadSummary summary{.name = head.name};
  const ConstView& weights = head.weights;
  const std::int64_t keys = weights.extent(1);
  const auto weight_at = [&](std::int64_t row, std::int64_t key) {
    return key >= 0 && key < keys ? static_cast<double>(weights(row, key)) : 0.0;
  };
  for (std::int64_t row = 0; row < weights.extent(0); ++row) {
    const std::int64_t position = first_position + row;
    const RowSums sums = sums_of(weights, row, position);
    summary.empty_rows += sums.sum == 0.0 ? 1 : 0;
    summary.entropy += sums.entropy;
    summary.mean_distance += sums.distance;
    summary.first_key_mass += weight_at(row, 0);
    summary.diagonal_mass += weight_at(row, position);
    summary.previous_mass += weight_at(row, position - 1);
    summary.largest_weight = std::max(summary.largest_weight, sums.largest);
    summary.largest_sum = std::max(summary.largest_sum, sums.sum);
    const bool is_smallest = summary.smallest_sum == 0.0 || sums.sum < summary.smallest_sum;
    if (sums.sum > 0.0 && is_smallest) summary.smallest_sum = sums.sum;
  }
  const auto rows =
      static_cast<double>(std::max<std::int64_t>(weights.extent(0) - summary.empty_rows, 1));
  for (double* mean : {&summary.entropy, &summary.mean_distance, &summary.first_key_mass,
                       &summary.diagonal_mass, &summary.previous_mass}) {
    *mean /= rows;
  }
  return summary;
}

bool attends_nothing(const ShownHead& head) {
  for (std::int64_t row = 0; row < head.weights.extent(0); ++row) {
    for (std::int64_t key = 0; key < head.weights.extent(1); ++key) {
      if (head.weights(row, key) != 0.0F) return false;
    }
  }
  return true;
}

std::vector<std::string> summary_texts(const HeadSummary& summary) {
  if (summary.largest_weight == 0.0) {
    std::vector<std::string> texts(5, "attends nothing");
    texts.emplace_back("–");
    return texts;
  }
  const std::string entropy = formatted("entropy %.2f", summary.entropy);
  const std::string keys = formatted(" (about %.1f keys)", std::exp(summary.entropy));
  const std::string distance = formatted(" · distance %.1f", summary.mean_distance);
  const std::string first = formatted(" · first key %.0f%%", 100.0 * summary.first_key_mass);
  const std::string own = formatted(" · own key %.0f%%", 100.0 * summary.diagonal_mass);
  const std::string before = formatted(" · previous %.0f%%", 100.0 * summary.previous_mass);
  return {entropy + keys + distance + first + own + before,
          entropy + keys + distance + first,
          entropy + distance + first,
          entropy + distance,
          entropy,
          formatted("%.2f", summary.entropy)};
}

std::vector<std::string> fitting_summaries(const ShownHeads& shown,
                                           const std::function<bool(const std::string&)>& fits) {
  std::vector<std::vector<std::string>> forms;
  forms.reserve(shown.heads.size());
  for (const ShownHead& head : shown.heads) {
    forms.push_back(summary_texts(summarise(head, shown.first_position)));
  }
  const std::size_t last = forms.front().size() - 1;
  std::size_t form = 0;
  const auto fits_all = [&] {
    return std::all_of(forms.begin(), forms.end(),
                       [&](const auto& texts) { return fits(texts[form]); });
  };
  while (form < last && !fits_all()) ++form;
  std::vector<std::string> texts;
  texts.reserve(forms.size());
  for (const auto& each : forms) texts.push_back(each[form]);
  return texts;
}

}  // namespace view

std::vector<HeadSummary> summarise_heads(const AttentionPicture& picture) {
  const view::ShownHeads shown = view::shown_heads("summarise_heads", picture);
  std::vector<HeadSummary> summaries;
  summaries.reserve(shown.heads.size());
  for (const view::ShownHead& head : shown.heads) {
    summaries.push_back(view::summarise(head, shown.first_position));
  }
  return summaries;
}

}  // namespace headwise
