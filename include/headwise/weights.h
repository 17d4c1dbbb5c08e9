// The parameters of a layer: flat matrices over all heads, and looks at one head of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/config.h"
#include "headwise/tensor.h"

namespace headwise {

enum class Initializer {
  GlorotUniform,  // ±√(6 / (in + out)), of the whole flat matrix
  GlorotNormal,   // deviation √(2 / (in + out))
  LecunNormal,    // deviation √(1 / in)
  Zeros
};

// Kernels are (in, out) row-major; head h of a kernel is a block of its columns (of the output
// kernel: of its rows). A tensor that the configuration does not have is empty.
struct AttentionWeights {
  Tensor query_kernel;   // (Dq, Hq·dk)
  Tensor query_bias;     // (Hq·dk)
  Tensor key_kernel;     // (Dk, Hkv·dk)
  Tensor key_bias;       // (Hkv·dk)
  Tensor value_kernel;   // (Dv, Hkv·dv)
  Tensor value_bias;     // (Hkv·dv)
  Tensor gate_kernel;    // (Dq, Hq·dv)
  Tensor gate_bias;      // (Hq·dv)
  Tensor output_kernel;  // (Hq·dv, Do)
  Tensor output_bias;    // (Do)
  Tensor query_norm;     // (dk)
  Tensor key_norm;       // (dk)
  Tensor extra_key;      // (Hkv·dk), of add_bias_kv
  Tensor extra_value;    // (Hkv·dv)

  // Kernels by the initialiser, biases zero, norm scales one, extra keys and values normal with
  // deviation 1/√size. Zeros means all of them.
  static AttentionWeights initialise(const AttentionConfig& config, Initializer initializer,
                                     std::uint64_t seed);
  static AttentionWeights glorot(const AttentionConfig& config, std::uint64_t seed) {
    return initialise(config, Initializer::GlorotUniform, seed);
  }
  static AttentionWeights zeros(const AttentionConfig& config) {
    return initialise(config, Initializer::Zeros, 0);
  }
};

// One tensor of AttentionWeights: its name, where it is, and its shape under a configuration.
struct WeightField {
  const char* name;  // "query/kernel"
  Tensor AttentionWeights::*tensor;
  Shape (*flat_shape)(const AttentionConfig&);  // as stored
  Shape (*head_shape)(
      const AttentionConfig&);  // with heads as an axis of their own, as Keras has it
  bool (*present)(const AttentionConfig&);
};

// All of them, in the order of the struct: whatever treats every weight alike walks this list.
const std::vector<WeightField>& weight_fields();

// Throws ArgumentError if a tensor is missing, superfluous or of another shape.
void validate(const AttentionConfig& config, const AttentionWeights& weights);

// Views of one query head and the key/value head it reads.
struct HeadViews {
  ConstView query_kernel;   // (Dq, dk)
  ConstView key_kernel;     // (Dk, dk)
  ConstView value_kernel;   // (Dv, dv)
  ConstView output_kernel;  // (dv, Do)
};
HeadViews head_views(const AttentionConfig& config, const AttentionWeights& weights,
                     std::int64_t head);

struct WeightRow {
  std::string name;
  Shape shape;       // with heads as an axis
  Shape flat_shape;  // as stored
  std::int64_t count = 0;
};

struct WeightTable {
  std::vector<WeightRow> rows;
  std::int64_t total = 0;

  [[nodiscard]] std::string to_string() const;
};

// The parameters that a layer of this configuration really has.
WeightTable describe(const AttentionConfig& config);

}  // namespace headwise
