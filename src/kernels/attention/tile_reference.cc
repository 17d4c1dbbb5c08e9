// The steps of a score tile, one number at a time. Slow, and the definition of every bit.
#include "kernels/attention/tile_reference.h"

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "kernels/gemm/gemm_reference.h"
#include "kernels/math/log_sum_exp.h"
#include "kernels/math/scalar_math.h"

namespace headwise::kernels::reference {

namespace {

constexpr float kHidden = -std::numeric_limits<float>::infinity();

// Calls visit(row, key) for every row and key of the tile, padding included, in order.
template <typename Visit>
void for_each_score(const ScoreTile& tile, Visit visit) {
  const RowTiles tiles(tile.rows, kGemmKernels.tile_rows);
  for (std::int64_t t = 0; t < tiles.count; ++t) {
    const TileSpan span = tile.spans == nullptr ? TileSpan{0, tile.keys} : tile.spans[t];
    const std::int64_t last = span.end < tile.keys ? span.end : tile.keys;
    for (std::int64_t row = tiles.row(t); row < tiles.row(t + 1); ++row) {
      for (std::int64_t key = span.begin; key < panel_count(last) * kPanelWidth; ++key) {
        visit(row, key);
      }
    }
  }
}

float weigh(float factor, float reference, float score) {
  return std::abs(reference) < kLargestReference ? weight(WeightRule(factor, reference), score)
                                                 : careful_weight(factor, reference, score);
}

// Sums 16 lanes as a tree; on every CPU the same one.
float fold(float* lanes) {
  for (std::int64_t half = kPanelWidth / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
  }
  return lanes[0];
}

void finish_scores(const ScoreTile& tile, const ScoreRule& rule, const ScoreExtras& extras,
                   float* row_max) {
  for (std::int64_t i = 0; i < tile.rows * kPanelWidth; ++i) row_max[i] = kHidden;
  for_each_score(tile, [&](std::int64_t row, std::int64_t key) {
    const std::int64_t at = row * tile.stride + key;
    float score = tile.values[at];
    if (rule.finished) {
      float scale = rule.scale;
      if (rule.softcap > 0.0F) {
        const float squashed = kernels::tanh(score * rule.scale / rule.softcap);
        score = squashed;
        scale = rule.softcap;
        if (extras.slope != nullptr) extras.slope[at] = std::fma(-squashed, squashed, 1.0F);
      }
      if (extras.bias != nullptr) {
        const float bias = extras.bias[row * extras.bias_stride + key];
        score = bias == kHidden ? kHidden : std::fma(score, scale, bias);
      } else {
        score *= scale;
      }
      if (key >= tile.keys) score = kHidden;
    }
    if (extras.keep != nullptr && extras.keep[row * extras.keep_stride + key] == 0) score = kHidden;
    tile.values[at] = score;
    float& largest = row_max[row * kPanelWidth + key % kPanelWidth];
    if (score > largest) largest = score;
  });
}

void online_softmax(const ScoreTile& tile, float factor, const float* row_max,
                    const SoftmaxRows& rows) {
  for (std::int64_t row = 0; row < tile.rows; ++row) {
    float largest = kHidden;
    for (std::int64_t lane = 0; lane < kPanelWidth; ++lane) {
      if (row_max[row * kPanelWidth + lane] > largest) largest = row_max[row * kPanelWidth + lane];
    }
    const float before = rows.reference[row];
    const float wanted = std::ceil(largest * factor);
    const float now = wanted > before ? wanted : before;
    // Equal references need no rescaling; −∞ − −∞ would be NaN.
    rows.rescale[row] = now == before ? 1.0F : exact_power(before - now);
    rows.reference[row] = now;
    rows.sum[row] *= rows.rescale[row];
  }
  float lanes[kPanelWidth] = {};
  std::int64_t current = 0;
  const auto close_row = [&] {
    rows.sum[current] += fold(lanes);
    for (float& lane : lanes) lane = 0.0F;
  };
  for_each_score(tile, [&](std::int64_t row, std::int64_t key) {
    if (row != current) close_row();
    current = row;
    float& score = tile.values[row * tile.stride + key];
    score = weigh(factor, rows.reference[row], score);
    lanes[key % kPanelWidth] += score;
  });
  if (tile.rows > 0) close_row();
}

void probabilities(const ScoreTile& tile, float factor, const float* reference,
                   const float* inverse_sum) {
  for_each_score(tile, [&](std::int64_t row, std::int64_t key) {
    float& score = tile.values[row * tile.stride + key];
    const float w = weigh(factor, reference[row], score);
    score = w == 0.0F ? 0.0F : w * inverse_sum[row];  // the sum of a row may be NaN
  });
}

void drop(const ScoreTile& tile, const DropoutTile& dropout) {
  if (dropout.probability <= 0.0F) return;
  const auto threshold =
      static_cast<std::uint32_t>(static_cast<double>(dropout.probability) * 0x1p32);
  const float scale = 1.0F / (1.0F - dropout.probability);
  for_each_score(tile, [&](std::int64_t row, std::int64_t key) {
    const std::uint32_t query = dropout.first_query + static_cast<std::uint32_t>(row);
    const std::uint32_t place = dropout.first_key + static_cast<std::uint32_t>(key);
    const auto words =
        base::philox({place / 4, query, dropout.head, dropout.sequence}, dropout.seed);
    float& value = tile.values[row * tile.stride + key];
    value = words[place % 4] < threshold ? 0.0F : value * scale;
  });
}

void score_gradient(const ScoreTile& gradient, const float* probabilities, const float* slope,
                    const float* delta, float scale) {
  for_each_score(gradient, [&](std::int64_t row, std::int64_t key) {
    const std::int64_t at = row * gradient.stride + key;
    const float outer = slope == nullptr ? scale : scale * slope[at];
    const float p = probabilities[at];
    gradient.values[at] = p == 0.0F ? 0.0F : p * (gradient.values[at] - delta[row]) * outer;
  });
}

void row_dots(std::int64_t rows, std::int64_t columns, MatrixView x, MatrixView y, float* dots) {
  for (std::int64_t row = 0; row < rows; ++row) {
    double lanes[4] = {};
    for (std::int64_t i = 0; i < columns; ++i) {
      lanes[i % 4] += static_cast<double>(x(row, i)) * static_cast<double>(y(row, i));
    }
    dots[row] = static_cast<float>((lanes[0] + lanes[2]) + (lanes[1] + lanes[3]));
  }
}

void sigmoid(std::int64_t count, float* values) {
  for (std::int64_t i = 0; i < count; ++i) values[i] = kernels::sigmoid(values[i]);
}

void log_sum_exp(std::int64_t count, const float* references, const float* sums, float* logs) {
  for (std::int64_t i = 0; i < count; ++i) logs[i] = kernels::log_sum_exp(references[i], sums[i]);
}

}  // namespace

const TileKernels kTileKernels{finish_scores,  online_softmax, probabilities, drop,
                               score_gradient, row_dots,       sigmoid,       log_sum_exp};

}  // namespace headwise::kernels::reference
