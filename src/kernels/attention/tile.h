// The steps between the matrix products of attention, on one tile of scores (rows × keys).
//
//   raw Q·Kᵀ ──finish_scores──► scores ──online_softmax──► 2^(score·factor − reference) ──► P·V
//                                   └────probabilities (weights, backward)──► P
//
// The reference of a row is an integer, ceil(largest score · factor): moving it rescales what was
// summed so far by a power of two, which is exact. So it does not matter when, or how often, it
// moves. A masked score is −∞, and −∞ weighs nothing.
#pragma once

#include <cstdint>

#include "kernels/gemm/gemm.h"

namespace headwise::kernels {

// Rows are cut into RowTiles; of the keys a tile's rows have those of its span. Values come in
// whole panels of keys, −∞ (scores) or 0 (weights) behind the last one.
struct ScoreTile {
  float* values = nullptr;  // row-major
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t keys = 0;
  const TileSpan* spans = nullptr;  // null: all keys
};

// How raw products become exponents: base-2 exponent = factor · score, where
// score = raw                                          if not `finished`
//       = softcap·tanh(scale·raw / softcap) + bias     if `finished`
struct ScoreRule {
  float scale = 1.0F;
  float softcap = 0.0F;   // 0: none
  float factor = 0.0F;    // scale·log₂e, or log₂e
  bool finished = false;  // because of a bias, a softcap, or a scale no factor can stand for
};

// What finish_scores adds to a tile.
struct ScoreExtras {
  const std::uint8_t* keep = nullptr;  // 0 = masked; null: all kept
  std::int64_t keep_stride = 0;
  const float* bias = nullptr;  // −∞ = masked; null: none
  std::int64_t bias_stride = 0;
  float* slope = nullptr;  // receives the derivative of the softcap, with the tile's stride
};

// One number per row of the tile, with room for a multiple of 4 rows.
struct SoftmaxRows {
  float* reference = nullptr;  // −∞ before the first key
  float* sum = nullptr;        // 0 for as long as nothing was attended
  float* rescale = nullptr;    // out: what sums made under the old reference must be multiplied by
};

struct DropoutTile {
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;
  std::uint32_t head = 0;
  std::uint32_t first_query = 0;  // position of the tile's row 0
  std::uint32_t first_key = 0;    // a multiple of 4
  float probability = 0.0F;       // 0: off
};

struct TileKernels {
  // Raw products → scores, masked ones −∞; row_max (rows × kPanelWidth) becomes their maxima.
  void (*finish_scores)(const ScoreTile& tile, const ScoreRule& rule, const ScoreExtras& extras,
                        float* row_max);
  // Scores → unnormalised weights under the reference, which may move up.
  void (*online_softmax)(const ScoreTile& tile, float factor, const float* row_max,
                         const SoftmaxRows& rows);
  // Scores → P, with the final reference of every row and 1/sum.
  void (*probabilities)(const ScoreTile& tile, float factor, const float* reference,
                        const float* inverse_sum);
  // Zeroes dropped places and scales the others by 1/(1−p).
  void (*drop)(const ScoreTile& tile, const DropoutTile& dropout);
  // dP → dS = scale · [slope ∘] P ∘ (dP − delta); 0 where P is 0, whatever dP holds there.
  void (*score_gradient)(const ScoreTile& gradient, const float* probabilities, const float* slope,
                         const float* delta, float scale);
  // Σ x∘y of every row, summed in double.
  void (*row_dots)(std::int64_t rows, std::int64_t columns, MatrixView x, MatrixView y,
                   float* dots);
  void (*sigmoid)(std::int64_t count, float* values);  // in place
  // Natural logarithms of Σ exp(score) of rows; −∞ for empty ones.
  void (*log_sum_exp)(std::int64_t count, const float* references, const float* sums, float* logs);
};

}  // namespace headwise::kernels
