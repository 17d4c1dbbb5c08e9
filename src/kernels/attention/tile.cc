#include "kernels/attention/tile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/philox.h"

namespace headwise::kernels {

namespace {

constexpr double kLog2E = std::numbers::log2e;
constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr std::int64_t kSumLanes = 16;  // of the row sum, whatever the CPU's vectors are

// 2^(score·log₂e − reference), in double until the end: for scores of 10⁴ a product in float32
// loses 10 bits, and an exponent of −100 rounded to float32 another 5. (15% slower than exp2 of a
// float.)
float power(float score, float reference) {
  return static_cast<float>(
      std::exp2(static_cast<double>(score) * kLog2E - static_cast<double>(reference)));
}

// A product that overflowed to −∞ weighs nothing, as a masked one does. (Under a reference that is
// −∞ itself, for as long as a row has seen nothing else, its power would be NaN.)
bool weighs(const ScoreTile& tile, std::int64_t row, std::int64_t key) {
  return tile.kept(row, key) && tile.values[row * tile.stride + key] != -kInfinity;
}

float largest_kept(const ScoreTile& tile, std::int64_t row) {
  const float* scores = tile.values + row * tile.stride;
  float largest = -kInfinity;
  for (std::int64_t key = 0; key < tile.keys; ++key) {
    if (tile.kept(row, key)) largest = std::max(largest, scores[key]);
  }
  return largest;
}

}  // namespace

void finish_scores(const ScoreTile& tile, const ScoreRule& rule, float* slope) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* scores = tile.values + row * tile.stride;
    for (std::int64_t key = 0; key < tile.keys; ++key) scores[key] *= rule.scale;
    if (rule.softcap > 0.0F) {
      for (std::int64_t key = 0; key < tile.keys; ++key) {
        const float squashed = std::tanh(scores[key] / rule.softcap);
        scores[key] = rule.softcap * squashed;
        if (slope != nullptr) slope[row * tile.stride + key] = 1.0F - squashed * squashed;
      }
    }
    if (tile.bias != nullptr) {
      const float* bias = tile.bias + row * tile.stride;
      for (std::int64_t key = 0; key < tile.keys; ++key) scores[key] += bias[key];
    }
  }
}

void online_softmax(const ScoreTile& tile, const SoftmaxRows& rows) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    const float largest = largest_kept(tile, row);  // −∞ where nothing is attended
    const float old_reference = rows.reference[row];
    const float reference = std::max(
        old_reference, static_cast<float>(std::ceil(static_cast<double>(largest) * kLog2E)));
    // Equal references need no rescaling; −∞ − −∞ would be NaN.
    rows.rescale[row] = reference == old_reference ? 1.0F : std::exp2(old_reference - reference);
    rows.reference[row] = reference;

    float* scores = tile.values + row * tile.stride;
    float lanes[kSumLanes] = {};
    for (std::int64_t key = 0; key < tile.keys; ++key) {
      scores[key] = weighs(tile, row, key) ? power(scores[key], reference) : 0.0F;
      lanes[key % kSumLanes] += scores[key];
    }
    for (std::int64_t half = kSumLanes / 2; half > 0; half /= 2) {
      for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    rows.sum[row] = rows.sum[row] * rows.rescale[row] + lanes[0];
  }
}

void normalise(const ScoreTile& tile, const float* reference, const float* sum) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* scores = tile.values + row * tile.stride;
    const float inverse = 1.0F / sum[row];
    for (std::int64_t key = 0; key < tile.keys; ++key) {
      scores[key] = weighs(tile, row, key) ? power(scores[key], reference[row]) * inverse : 0.0F;
    }
  }
}

float log_sum_exp(float reference, float sum) {
  if (sum == 0.0F) return -kInfinity;
  const double base2 = static_cast<double>(reference) + std::log2(static_cast<double>(sum));
  return static_cast<float>(base2 * std::numbers::ln2);
}

void drop(const ScoreTile& tile, const DropoutTile& dropout) {
  if (dropout.probability <= 0.0F) return;
  const auto threshold =
      static_cast<std::uint32_t>(static_cast<double>(dropout.probability) * 0x1p32);
  const float scale = 1.0F / (1.0F - dropout.probability);
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float* values = tile.values + row * tile.stride;
    const std::uint32_t query = dropout.first_query + static_cast<std::uint32_t>(row);
    for (std::int64_t key = 0; key < tile.keys; key += 4) {
      const std::uint32_t group = (dropout.first_key + static_cast<std::uint32_t>(key)) / 4;
      const auto words = base::philox({group, query, dropout.head, dropout.sequence}, dropout.seed);
      for (std::int64_t i = 0; i < std::min<std::int64_t>(4, tile.keys - key); ++i) {
        const bool dropped = words[static_cast<std::size_t>(i)] < threshold;
        values[key + i] = dropped ? 0.0F : values[key + i] * scale;
      }
    }
  }
}

void score_gradient(const ScoreTile& gradient, const float* probabilities, const float* delta) {
  for (std::int64_t row = 0; row < gradient.rows; ++row) {
    float* values = gradient.values + row * gradient.stride;
    const float* p = probabilities + row * gradient.stride;
    for (std::int64_t key = 0; key < gradient.keys; ++key) {
      values[key] = gradient.kept(row, key) ? p[key] * (values[key] - delta[row]) : 0.0F;
    }
  }
}

}  // namespace headwise::kernels
