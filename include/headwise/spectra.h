// What the heads of a layer are able to do, read from their weights alone, and heads made smaller.
//
// A query x and a key y meet in a head as x·(W_q·W_kᵀ)·yᵀ, and a value z leaves it as z·(W_v·W_o). The
// two products are all that matters: factors that give the same products are the same head. Their
// singular values tell how many directions a head really uses, of the key_dim that it may use.
//
//   layer ──inspect_heads──► spectra, norms, dead heads, heads that look alike
//   layer ──refactor_key_dim──► the same layer with a smaller key_dim, and the error
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "headwise/tensor.h"
#include "headwise/transforms.h"

namespace headwise {

// The singular values σ of a product, and what follows from them. All numbers of a product that is
// zero are 0, except its condition.
struct Spectrum {
  std::vector<double> singular_values;  // descending; as many as rows, columns and factors allow
  double frobenius_norm = 0.0;          // √Σσ²
  double spectral_norm = 0.0;           // σ₁, the largest
  double condition = 0.0;               // σ₁ / the smallest; infinite if that is 0
  std::int64_t rank = 0;        // σ > max(rows, columns) · 2⁻²⁴ · σ₁: more than rounding
  double effective_rank = 0.0;  // exp(−Σ p·ln p) with p = σ/Σσ (Roy and Vetterli, 2007)
  double stable_rank = 0.0;     // Σσ² / σ₁²
};

// The smallest number of singular values that hold this share, in [0, 1], of the energy Σσ²: the
// key_dim (value_dim) with which a head could do nearly the same. What is left out has a Frobenius
// norm of √(1 − share) of the whole at most, and no product of that size comes closer.
std::int64_t dims_for_energy(const Spectrum& spectrum, double share);

struct HeadSpectra {
  std::int64_t kv_head = 0;  // the key/value head that it reads
  bool finite = true;  // false: some weight is NaN or infinite, and nothing below is filled in
  Spectrum scores;     // of W_q·W_kᵀ; with qk_norm: before the normalisation
  Spectrum values;     // of W_v·W_o; a gate is not in it

  // Frobenius norms of the head's part of the four kernels.
  double query_norm = 0.0;
  double key_norm = 0.0;
  double value_norm = 0.0;
  double output_norm = 0.0;

  // What biases add. b_q·W_kᵀ prefers some keys whatever the query is; b_v·W_o leaves the head
  // whatever it attends. (b_k adds one number to all scores of a query: softmax does not see it.)
  double key_preference = 0.0;   // ‖b_q·W_kᵀ‖
  double constant_output = 0.0;  // ‖b_v·W_o‖

  // Standard deviation of a query's scores over keys if features were independent with mean 0 and
  // variance 1: scale · √(‖W_q·W_kᵀ‖F² + ‖b_q·W_kᵀ‖²). 0 with qk_norm, where weights do not tell.
  double score_spread = 0.0;
  bool uniform = false;  // attends every key alike: score_spread < SpectraOptions::uniform_below
  bool dead = false;     // gives next to nothing, see SpectraOptions::dead_below
};

// Two heads of a layer whose products point in the same direction.
struct HeadPair {
  std::int64_t head = 0;
  std::int64_t other = 0;  // > head
  double similarity = 0.0;
};

struct LayerSpectra {
  std::vector<HeadSpectra> heads;
  double median_value_norm = 0.0;  // of ‖W_v·W_o‖F over the heads
  // (H, H): ⟨A, B⟩F / (‖A‖F·‖B‖F) of the products A and B of two heads, −1 … 1, to about 1e-6. 0
  // where a head's product is 0 or not finite.
  Tensor score_similarity;
  Tensor value_similarity;
  std::vector<HeadPair> alike_scores;  // see SpectraOptions::alike_above
  std::vector<HeadPair> alike_values;
};

// The pairs of heads that are at least that similar, the most similar first.
std::vector<HeadPair> alike_heads(const Tensor& similarity, double at_least);

struct SpectraOptions {
  double dead_below = 0.01;     // ‖W_v·W_o‖F relative to the median of the layer's heads
  double uniform_below = 0.01;  // a score_spread that changes attention weights by about 1%
  double alike_above = 0.9;     // similarity
  int threads = 0;              // 1 … 1024; 0: as many as the process may use CPUs
  // Called as work is done, by any thread, one call at a time.
  std::function<void(std::int64_t done, std::int64_t all)> progress = {};
};

// In float64, by QR of the thin factors and an SVD of what is left, key_dim × key_dim; the products
// are never formed. Throws ArgumentError for parts that do not fit and for more than 4096 heads.
LayerSpectra inspect_heads(const LayerParts& layer, const SpectraOptions& options = {});

struct RefactoredLayer {
  LayerParts layer;
  // For each query head, ‖new − old‖F / ‖old‖F of the matrix by which inputs meet (see below). Known
  // from the singular values left out, before any input is seen.
  std::vector<double> errors;
};

// The layer with `key_dim` numbers in each query and key head, and the best W_q·W_kᵀ that these can
// have: a truncated SVD (Eckart and Young). With the old key_dim, or the rank, the function is the
// same up to rounding. The scale of scores stays what it was and is now said by the configuration.
//
// Biases belong to the matrix, as a row of W_q for an input that is always 1. The key's bias adds one
// number to all scores of a query and becomes 0, but for softcap and extra keys, which would see
// it. Query heads that share a key head are decomposed together, stacked.
//
// Throws ArgumentError for a key_dim outside 1 … the layer's own, for layers with qk_norm, which is not
// linear, and for weights that are not finite. Not for layers whose queries and keys are rotated by
// position before they meet: rotations act on the very numbers that this mixes.
RefactoredLayer refactor_key_dim(const LayerParts& layer, std::int64_t key_dim);

}  // namespace headwise
