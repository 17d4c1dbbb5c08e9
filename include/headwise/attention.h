// Attention without projections, forward and backward, on strided views.
//
//   scores = scale · Q Kᵀ → softcap → + biases → mask → softmax → dropout → · V      (per head)
//
// B batch · T queries · S keys · Hq query heads · Hkv key/value heads (Hq a multiple of Hkv) ·
// dk size of a query or key head · dv size of a value head. No two of them need to be equal.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "headwise/context.h"
#include "headwise/mask.h"
#include "headwise/tensor.h"

namespace headwise {

// Order of a head tensor's axes; without B for a single sequence and for packed batches.
enum class Layout { SequenceFirst /* (B,T,H,d) */, HeadsFirst /* (B,H,T,d) */ };

// Sequences of different lengths, stored one after the other without padding.
// Cumulative: {0, 3, 7} are two sequences of 3 and 4.
struct PackedLengths {
  std::vector<std::int64_t> query;
  std::vector<std::int64_t> key;  // empty: as query
};

// Which attention weights (before dropout) to return. Only what is asked for is stored.
struct WeightsRequest {
  enum class Matrix { None, PerHead, Averaged };
  Matrix matrix = Matrix::None;
  std::vector<std::int64_t> heads = {};  // of the matrix; empty: all
  std::vector<std::int64_t> rows = {};   // of the matrix, query indices; empty: all
  std::int64_t top_k = 0;                // largest weights of every row; 0: none
  bool statistics = false;
};

WeightsRequest no_weights();
WeightsRequest all_weights();       // (B,Hq,T,S)
WeightsRequest averaged_weights();  // (B,T,S), mean over heads
// (B,|heads|,|rows|,S); an empty list means all.
WeightsRequest selected_weights(std::vector<std::int64_t> heads, std::vector<std::int64_t> rows);
WeightsRequest top_k_weights(std::int64_t k);                         // (B,Hq,T,k)
WeightsRequest weight_statistics();                                   // (B,Hq,T) each
WeightsRequest operator|(WeightsRequest a, const WeightsRequest& b);  // both at once

// Every entry is kept or dropped by a hash of (seed, sequence id, head, query position, key), so
// the choice depends on neither threads nor the batch around it. Kept entries are scaled by
// 1/(1−p).
struct Dropout {
  float probability = 0.0F;
  std::uint64_t seed = 0;
  std::vector<std::int64_t> sequence_ids = {};  // one per sequence; empty: 0, 1, 2, …
};

struct AttentionOptions {
  Mask mask = {};
  std::vector<Bias> bias = {};      // summed
  std::optional<float> scale = {};  // 1/√dk
  std::optional<float> softcap = {};
  Dropout dropout = {};
  WeightsRequest weights = {};
  Layout layout = Layout::SequenceFirst;
  std::optional<PackedLengths> packed = {};
  std::int64_t unmasked_tail = 0;  // the last keys of every sequence that no mask or bias touches
  MutableView out = {};            // the caller's output buffer, any strides
  Context* context = nullptr;
};

struct TopWeights {
  Tensor values;        // descending; 0 where a row has fewer than k keys
  IndexTensor indices;  // of the keys; −1 there
};

struct WeightStatistics {
  Tensor entropy;         // −Σ p·ln p
  Tensor mean_distance;   // Σ p·|query position − key position|
  Tensor first_key_mass;  // p of key 0
};

struct SavedForward;  // what a layer's backward needs of its forward

// Without a batch axis where the inputs had none; packed: (Hq, total) in place of (B,Hq,T).
struct AttentionResult {
  Tensor output;  // shaped like query, with dv in place of dk; empty if the caller brought `out`
  Tensor log_sum_exp;  // (B,Hq,T), natural logarithm; −∞ for a row that attends nothing
  Tensor weights;      // as requested
  TopWeights top;
  WeightStatistics statistics;
  // Softmax of a row is 2^(score·log₂e − row_reference) / row_sum. (B,Hq,T) each.
  Tensor row_reference;
  Tensor row_sum;
  std::shared_ptr<const SavedForward> saved;  // layers, with save_for_backward
};

AttentionResult attention(const ConstView& query, const ConstView& key, const ConstView& value,
                          const AttentionOptions& options = {});

// Views: what they look at must outlive the call.
struct AttentionInputs {
  ConstView query;
  ConstView key = {};    // query, if not given
  ConstView value = {};  // key, if not given
};

struct AttentionGradients {
  Tensor query;
  Tensor key;
  Tensor value;
  std::vector<Tensor> bias;  // one for each of options.bias, in its own shape, if asked for
};

struct BackwardOptions {
  bool bias_gradient = false;  // costs one more pass over the scores for each bias
};

// `options` as forward had them; if they bring `out`, it must still hold forward's output.
AttentionGradients attention_backward(const AttentionInputs& inputs, const AttentionResult& forward,
                                      const ConstView& output_gradient,
                                      const AttentionOptions& options = {},
                                      const BackwardOptions& backward = {});

}  // namespace headwise
