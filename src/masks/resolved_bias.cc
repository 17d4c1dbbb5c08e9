#include "masks/resolved_bias.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headwise::masks {

ResolvedBias::ResolvedBias(std::string_view function, const std::vector<Bias>& biases,
                           const ScoreShape& shape)
    : shape_(shape) {
  for (const Bias& bias : biases) {
    parts_.push_back(
        resolve_dense(function, "options.bias", bias.values.view(), bias.axes, shape_));
  }
}

void ResolvedBias::fill(const TileRange& range, float* sum, std::int64_t stride) const {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const std::int64_t own_end =
      std::min(range.key_end, shape_.sequences[static_cast<std::size_t>(range.sequence)].keys);
  for (std::int64_t row = 0; row < range.rows(); ++row, sum += stride) {
    std::fill_n(sum, range.keys(), 0.0F);
    for (const auto& part : parts_) {
      const float* from = part.row(shape_, range.sequence, range.head, range.row + row);
      for (std::int64_t key = range.key; key < own_end; ++key) {
        float& total = sum[key - range.key];
        const float value = from[key * part.key_stride];
        // Not −∞ + ∞, which would be NaN: what one bias hides, no other shows.
        total = total == kHidden || value == kHidden ? kHidden : total + value;
      }
    }
  }
}

}  // namespace headwise::masks
