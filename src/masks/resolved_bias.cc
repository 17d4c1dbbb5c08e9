#include "masks/resolved_bias.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace headwise::masks {

ResolvedBias::ResolvedBias(std::string_view function, const std::vector<Bias>& biases,
                           ScoreShape shape)
    : shape_(std::move(shape)) {
  for (const Bias& bias : biases) {
    parts_.push_back(
        resolve_dense(function, "options.bias", bias.values.view(), bias.axes, shape_));
  }
}

TileKind ResolvedBias::tile(const TileRange& range, TileKind kind, float* sum, std::uint8_t* keep,
                            std::int64_t stride) const {
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  const std::int64_t own_end =
      std::min(range.key_end, shape_.sequences[static_cast<std::size_t>(range.sequence)].keys);
  for (std::int64_t row = 0; row < range.rows(); ++row) {
    std::fill_n(sum + row * stride, range.keys(), 0.0F);
  }
  for (const auto& part : parts_) {
    for (std::int64_t row = 0; row < range.rows(); ++row) {
      const float* from = part.row(shape_, range.sequence, range.head, range.row + row);
      for (std::int64_t key = range.key; key < own_end; ++key) {
        float& total = sum[row * stride + key - range.key];
        const float value = from[key * part.key_stride];
        total = total == kHidden || value == kHidden ? kHidden : total + value;
      }
    }
  }
  for (std::int64_t row = 0; row < range.rows(); ++row) {
    for (std::int64_t key = 0; key < range.keys(); ++key) {
      if (sum[row * stride + key] != kHidden) continue;
      if (kind == TileKind::Full) {
        for (std::int64_t r = 0; r < range.rows(); ++r) {
          std::fill_n(keep + r * stride, range.keys(), std::uint8_t{1});
        }
        kind = TileKind::Partial;
      }
      keep[row * stride + key] = 0;
      sum[row * stride + key] = 0.0F;
    }
  }
  return kind;
}

}  // namespace headwise::masks
