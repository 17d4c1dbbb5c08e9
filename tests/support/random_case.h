// Random calls of the library: every option mixed with every other, sizes 0 and 1 included.
//
//   Recipe (a few small numbers, shrinks well) ──► OpCase / LayerCase (tensors, options)
//
// A recipe gives the same case every time, and recipes come from RapidCheck or from a seed.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include <rapidcheck.h>

#include "headwise/attention.h"
#include "headwise/layer.h"
#include "support/dice.h"
#include "support/strided.h"

namespace headwise::test_support {

enum class BatchKind { Padded, Single /* no batch axis */, Packed };
enum class WindowKind { None, Causal, Window };
enum class PositionKind { Unsaid, TopLeft, BottomRight, Offset, Offsets };
enum class MatrixKind { None, PerHead, Averaged, Selected };
enum class InputKind { Three, KeyIsValue, AllSame };  // of a layer

struct Recipe {
  std::uint64_t seed = 0;  // of all numbers
  BatchKind batch_kind = BatchKind::Padded;
  std::int64_t batch = 1;    // sequences
  std::int64_t queries = 1;  // packed: of the longest sequence
  std::int64_t keys = 1;
  std::int64_t kv_heads = 1;
  std::int64_t group = 1;  // query heads per key/value head
  std::int64_t key_dim = 1;
  std::int64_t value_dim = 1;
  float deviation = 1.0F;  // of queries, keys and values
  bool odd_strides = false;
  bool own_out = false;  // the caller's output buffer
  int threads = 0;       // 0: no Context

  WindowKind window = WindowKind::None;
  PositionKind positions = PositionKind::Unsaid;
  int key_lengths = 0;  // 1: (B), 2: (B,T), 3: both
  bool query_lengths = false;
  int keeps = 0;
  int segments = 0;  // 1: shared by the batch, 2: (B,T) and (B,S)
  int biases = 0;
  bool infinite_bias = false;  // −∞ here and there

  bool scale = false;
  bool softcap = false;
  float dropout = 0.0F;
  bool sequence_ids = false;
  MatrixKind matrix = MatrixKind::None;
  std::int64_t top_k = 0;
  bool statistics = false;

  std::int64_t tail = 0;  // attention() alone; a layer's is its extra keys

  InputKind inputs = InputKind::Three;  // the rest: layers alone
  std::int64_t query_features = 1, key_features = 1, value_features = 1, output_features = 1;
  bool use_bias = false, output_bias = false, gate = false;
  int norm = 0;  // 1: RmsNorm, 2: LayerNorm
  bool add_bias_kv = false, add_zero_attn = false;
};

std::string describe(const Recipe& recipe);  // the fields that differ from a plain call
std::ostream& operator<<(std::ostream& stream, const Recipe& recipe);

rc::Gen<Recipe> recipes();
Recipe random_recipe(std::uint64_t seed);

// The lengths that masks and tensors are made to.
struct Sizes {
  bool packed = false;
  bool batched = false;                     // has a batch axis
  std::int64_t batch = 0;                   // sequences
  std::vector<std::int64_t> queries, keys;  // of each sequence, the caller's keys alone
  std::int64_t heads = 0;
  std::int64_t tail = 0;

  [[nodiscard]] PackedLengths cumulative(std::int64_t extra_keys) const;
  [[nodiscard]] std::int64_t query_axis() const;  // T, or all packed rows
  [[nodiscard]] std::int64_t key_axis() const;    // S, or that of the longest sequence
  [[nodiscard]] std::int64_t total_keys() const;
};

// A call of attention() and attention_backward().
struct OpCase {
  Recipe recipe;
  Memory memory;
  std::unique_ptr<Context> context;
  AttentionInputs inputs;
  ConstView output_gradient;
  AttentionOptions options;
};

// A call of a layer's forward and backward.
struct LayerCase {
  Recipe recipe;
  Memory memory;
  std::unique_ptr<Context> context;
  AttentionConfig config;
  AttentionWeights weights;
  AttentionInputs inputs;
  ConstView output_gradient;
  ForwardOptions options;
};

OpCase make_op_case(const Recipe& recipe);
LayerCase make_layer_case(const Recipe& recipe);

// Parts of the above.
Sizes make_sizes(const Recipe& recipe, std::int64_t tail, Dice& dice);
Mask make_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice, Memory& memory);
std::vector<Bias> make_biases(const Recipe& recipe, const Sizes& sizes, Dice& dice, Memory& memory);
WeightsRequest make_weights_request(const Recipe& recipe, const Sizes& sizes, Dice& dice);

}  // namespace headwise::test_support

namespace rc {
template <>
struct Arbitrary<headwise::test_support::Recipe> {
  static Gen<headwise::test_support::Recipe> arbitrary() {
    return headwise::test_support::recipes();
  }
};
}  // namespace rc
