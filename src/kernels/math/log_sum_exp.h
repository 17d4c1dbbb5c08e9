// Natural logarithm of a row's Σ exp(score), for all targets.
#pragma once

#include <limits>
#include <numbers>

#include "base/natural_log.h"

namespace headwise::kernels {

// −∞ for an empty row.
inline float log_sum_exp(float reference, float sum) {
  const double log = static_cast<double>(reference) * std::numbers::ln2 +
                     base::natural_log_of_normal(static_cast<double>(sum));
  const float empty = -std::numeric_limits<float>::infinity();
  // What is not finite passes.
  return sum == 0.0F ? empty : (sum - sum == 0.0F ? static_cast<float>(log) : sum);
}

}  // namespace headwise::kernels
