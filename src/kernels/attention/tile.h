// The steps between the matrix products of attention, on one tile of scores (rows × keys).
//
//   raw Q·Kᵀ ──finish_scores──► scores ──online_softmax──► 2^(score·log₂e − reference) ──► P·V
//                                   └────normalise (weights, backward)──► P
//
// The reference of a row is an integer, ceil(largest score · log₂e): moving it rescales what was
// summed so far by a power of two, which is exact. So it does not matter when, or how often, it
// moves.
#pragma once

#include <cstdint>

namespace headwise::kernels {

struct ScoreTile {
  float* values = nullptr;             // row-major
  const std::uint8_t* keep = nullptr;  // same layout, 0 = masked; null: all kept
  const float* bias = nullptr;         // same layout; null: none
  std::int64_t stride = 0;             // of all three
  std::int64_t rows = 0;
  std::int64_t keys = 0;

  [[nodiscard]] bool kept(std::int64_t row, std::int64_t key) const {
    return keep == nullptr || keep[row * stride + key] != 0;
  }
};

struct ScoreRule {
  float scale = 1.0F;
  float softcap = 0.0F;  // 0: none
};

// Raw products → softcap·tanh(scale·x / softcap) + bias. `slope`, if not null and of the tile's
// layout, receives the derivative of the softcap.
void finish_scores(const ScoreTile& tile, const ScoreRule& rule, float* slope);

// One number per row of the tile.
struct SoftmaxRows {
  float* reference = nullptr;  // −∞ before the first key
  float* sum = nullptr;        // 0 for as long as nothing was attended
  float* rescale = nullptr;    // out: what sums made under the old reference must be multiplied by
};

// Scores → unnormalised weights under the reference, which may move up; masked places become 0.
void online_softmax(const ScoreTile& tile, const SoftmaxRows& rows);

// Scores → P, with the final reference and sum of every row; masked places become 0.
void normalise(const ScoreTile& tile, const float* reference, const float* sum);

// Natural logarithm of Σ exp(score); −∞ for an empty row.
float log_sum_exp(float reference, float sum);

struct DropoutTile {
  std::uint64_t seed = 0;
  std::uint32_t sequence = 0;
  std::uint32_t head = 0;
  std::uint32_t first_query = 0;  // position of the tile's row 0
  std::uint32_t first_key = 0;    // a multiple of 4
  float probability = 0.0F;       // 0: off
};

// Zeroes dropped places and scales the others by 1/(1−p).
void drop(const ScoreTile& tile, const DropoutTile& dropout);

// dP → dS = P ∘ (dP − delta); masked places become 0. `delta` is rowsum(dO ∘ O).
void score_gradient(const ScoreTile& gradient, const float* probabilities, const float* delta);

}  // namespace headwise::kernels
