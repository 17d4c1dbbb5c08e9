#include <cmath>
#include <limits>
#include <numbers>

#include "base/natural_log.h"
#include "kernels/attention/tile.h"

namespace headwise::kernels {

void log_sum_exp(std::int64_t count, const float* references, const float* sums, float* logs) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto sum = static_cast<double>(sums[i]);
    const double log =
        static_cast<double>(references[i]) * std::numbers::ln2 + base::natural_log_of_normal(sum);
    // An empty row has a sum of 0; what is not finite passes.
    const float empty = -std::numeric_limits<float>::infinity();
    logs[i] =
        sums[i] == 0.0F ? empty : (sums[i] - sums[i] == 0.0F ? static_cast<float>(log) : sums[i]);
  }
}

}  // namespace headwise::kernels
