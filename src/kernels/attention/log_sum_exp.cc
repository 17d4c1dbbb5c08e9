#include <cmath>
#include <limits>
#include <numbers>

#include "base/natural_log.h"
#include "kernels/attention/tile.h"

namespace headwise::kernels {

float log_sum_exp(float reference, float sum) {
  if (sum == 0.0F) return -std::numeric_limits<float>::infinity();
  return static_cast<float>(static_cast<double>(reference) * std::numbers::ln2 +
                            base::natural_log(static_cast<double>(sum)));
}

}  // namespace headwise::kernels
