// A plain and slow multi-head attention to hold the library against.
//
// It materialises T×S, uses textbook formulas and plain loops, and shares no code with the
// library; of its public types it reads the options and the views alone. Four scalars:
//
//   double   the reference, and what central differences are taken of
//   float    the "naive float32 implementation" whose error the numeric contract is counted in
//   Rounded  the reference together with the typical error of the float run (see rounded.h)
//   Jittered the float run with other roundings (see jittered.h)
//
// Every batch, padded, packed or single, is a list of sequences that stand one after the other:
// a tensor of heads is (rows, heads, size), sequence b being rows [start[b], start[b + 1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headwise/attention.h"
#include "headwise/layer.h"
#include "support/jittered.h"
#include "support/rounded.h"

namespace headwise::oracle {

// Row-major numbers of any scalar, on which the oracle computes.
template <typename Scalar>
struct Array {
  std::vector<std::int64_t> shape = {0};
  std::vector<Scalar> values;

  Array() = default;
  explicit Array(std::vector<std::int64_t> shape_)
      : shape(std::move(shape_)), values(count(shape)) {}

  template <typename... Index>
  [[nodiscard]] Scalar& operator()(Index... index) {
    return values[offset(static_cast<std::int64_t>(index)...)];
  }
  template <typename... Index>
  [[nodiscard]] const Scalar& operator()(Index... index) const {
    return values[offset(static_cast<std::int64_t>(index)...)];
  }
  // The numbers of the last axis, all other indices given.
  template <typename... Index>
  [[nodiscard]] Scalar* row(Index... index) {
    return values.data() + offset(static_cast<std::int64_t>(index)..., std::int64_t{0});
  }
  template <typename... Index>
  [[nodiscard]] const Scalar* row(Index... index) const {
    return values.data() + offset(static_cast<std::int64_t>(index)..., std::int64_t{0});
  }

  static std::size_t count(const std::vector<std::int64_t>& extents) {
    std::size_t product = 1;
    for (const std::int64_t extent : extents) product *= static_cast<std::size_t>(extent);
    return product;
  }

 private:
  template <typename... Index>
  [[nodiscard]] std::size_t offset(Index... index) const {
    std::int64_t sum = 0;
    std::size_t axis = 0;
    ((sum = sum * shape[axis++] + index), ...);
    return static_cast<std::size_t>(sum);
  }
};

// Where sequence b's rows are: [query[b], query[b + 1]) and [key[b], key[b + 1]).
struct Sequences {
  std::vector<std::int64_t> query = {0};
  std::vector<std::int64_t> key = {0};  // the unmasked tail is the last rows of each
  // What the key axis has even without sequences: S of a padded batch, the tail of a packed one.
  std::int64_t least_keys = 0;

  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(query.size()) - 1; }
  [[nodiscard]] std::int64_t first_query(std::int64_t b) const {
    return query[static_cast<std::size_t>(b)];
  }
  [[nodiscard]] std::int64_t first_key(std::int64_t b) const {
    return key[static_cast<std::size_t>(b)];
  }
  [[nodiscard]] std::int64_t queries(std::int64_t b) const {
    return first_query(b + 1) - first_query(b);
  }
  [[nodiscard]] std::int64_t keys(std::int64_t b) const { return first_key(b + 1) - first_key(b); }
  [[nodiscard]] std::int64_t longest_key() const;
};

// The sequences of head tensors (rank 4, or 3 for one sequence or a packed batch), and those of
// layer inputs (rank 3, or 2).
Sequences head_sequences(const ConstView& query, const ConstView& key,
                         const AttentionOptions& options);
Sequences layer_sequences(const ConstView& query, const ConstView& key,
                          const ForwardOptions& options);

// ---------------------------------------------------------------- attention without projections

template <typename Scalar>
struct HeadTensors {
  Array<Scalar> query;              // (query rows, Hq, dk)
  Array<Scalar> key;                // (key rows, Hkv, dk)
  Array<Scalar> value;              // (key rows, Hkv, dv)
  std::vector<Array<Scalar>> bias;  // the numbers of options.bias, each in its own shape
};

template <typename Scalar>
struct AttentionValues {
  Array<Scalar> output;       // (query rows, Hq, dv)
  Array<Scalar> log_sum_exp;  // (query rows, Hq)
  Array<Scalar>
      weights;  // (query rows, Hq, longest S), before dropout; 0 where nothing is attended
  Array<Scalar> distance;  // the same shape: |query position − key position|
  Array<Scalar> attended;  // the same shape: 1 or 0
};

// Reads any strides. Head tensors become (rows, heads, size), layer inputs (rows, features).
template <typename Scalar>
Array<Scalar> head_rows(const ConstView& view, const AttentionOptions& options);
template <typename Scalar>
Array<Scalar> feature_rows(const ConstView& view);
template <typename Scalar>
std::vector<Array<Scalar>> bias_values(const std::vector<Bias>& bias);
template <typename Scalar>
HeadTensors<Scalar> head_tensors(const AttentionInputs& inputs, const AttentionOptions& options);

// Of the options these read mask, bias (its axes), scale, softcap, dropout, packed and
// unmasked_tail.
template <typename Scalar>
AttentionValues<Scalar> attention(const HeadTensors<Scalar>& inputs, const Sequences& sequences,
                                  const AttentionOptions& options);
// Gradients shaped like the inputs, for output_gradient (query rows, Hq, dv).
template <typename Scalar>
HeadTensors<Scalar> attention_backward(const HeadTensors<Scalar>& inputs,
                                       const Sequences& sequences,
                                       const Array<Scalar>& output_gradient,
                                       const AttentionOptions& options);

// ----------------------------------------------------------------------------------- the layer

template <typename Scalar>
struct LayerWeights {
  Array<Scalar> query_kernel, query_bias, key_kernel, key_bias, value_kernel, value_bias;
  Array<Scalar> gate_kernel, gate_bias, output_kernel, output_bias;
  Array<Scalar> query_norm, key_norm, extra_key, extra_value;
};

template <typename Scalar>
struct WeightName {
  const char* name;
  Tensor AttentionWeights::*library;
  Array<Scalar> LayerWeights<Scalar>::*oracle;
};
template <typename Scalar>
const std::vector<WeightName<Scalar>>& weight_names();

template <typename Scalar>
struct LayerTensors {
  Array<Scalar> query;  // (query rows, Dq)
  Array<Scalar> key;    // (key rows, Dk)
  Array<Scalar> value;  // (key rows, Dv)
  std::vector<Array<Scalar>> bias;
  LayerWeights<Scalar> weights;
};

template <typename Scalar>
struct LayerValues {
  Array<Scalar> output;  // (query rows, Do)
  AttentionValues<Scalar> attention;
};

template <typename Scalar>
LayerTensors<Scalar> layer_tensors(const AttentionInputs& inputs, const ForwardOptions& options,
                                   const AttentionWeights& weights);
template <typename Scalar>
LayerValues<Scalar> layer(const LayerTensors<Scalar>& inputs, const Sequences& sequences,
                          const AttentionConfig& config, const ForwardOptions& options);
// Gradients shaped like the inputs, for output_gradient (query rows, Do).
template <typename Scalar>
LayerTensors<Scalar> layer_backward(const LayerTensors<Scalar>& inputs, const Sequences& sequences,
                                    const AttentionConfig& config,
                                    const Array<Scalar>& output_gradient,
                                    const ForwardOptions& options);

}  // namespace headwise::oracle
