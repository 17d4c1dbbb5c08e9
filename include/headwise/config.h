// What a multi-head attention layer is made of. Names as in Keras.
#pragma once

#include <cstdint>
#include <optional>

namespace headwise {

// Normalisation of every projected query and key head, over its key_dim numbers, with a learned
// scale and no shift: y = scale · x / rms(x), or the same after subtracting the mean.
enum class QkNorm { None, RmsNorm, LayerNorm };

struct AttentionConfig {
  std::int64_t num_heads = 0;
  std::optional<std::int64_t> num_kv_heads = {};  // num_heads; a divisor of it for grouped heads
  std::int64_t key_dim = 0;                       // of one head
  std::optional<std::int64_t> value_dim = {};     // of one head; key_dim
  std::int64_t query_features = 0;
  std::optional<std::int64_t> key_features = {};     // query_features
  std::optional<std::int64_t> value_features = {};   // key_features
  std::optional<std::int64_t> output_features = {};  // query_features
  bool use_bias = true;
  std::optional<bool> use_output_bias = {};  // use_bias
  float dropout = 0.0F;                      // of attention weights, in training; in [0, 1)
  std::optional<float> scale = {};           // 1/√key_dim
  std::optional<float> softcap = {};         // scores become softcap · tanh(score / softcap)
  bool use_gate = false;                     // heads are multiplied by σ(query·Wg + bg)
  QkNorm qk_norm = QkNorm::None;
  float qk_norm_epsilon = 1e-6F;
  bool add_bias_kv = false;    // one learned key and value that every query attends
  bool add_zero_attn = false;  // one key and value of zeros that every query attends
  std::uint64_t seed = 0;      // of dropout, unless the call brings its own

  // The choices above with their defaults filled in.
  [[nodiscard]] std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  [[nodiscard]] std::int64_t value_size() const { return value_dim.value_or(key_dim); }
  [[nodiscard]] std::int64_t key_inputs() const { return key_features.value_or(query_features); }
  [[nodiscard]] std::int64_t value_inputs() const { return value_features.value_or(key_inputs()); }
  [[nodiscard]] std::int64_t outputs() const { return output_features.value_or(query_features); }
  [[nodiscard]] bool has_output_bias() const { return use_output_bias.value_or(use_bias); }
  [[nodiscard]] float score_scale() const;
  // Keys that follow the caller's own and that no mask hides.
  [[nodiscard]] std::int64_t extra_keys() const {
    return (add_bias_kv ? 1 : 0) + (add_zero_attn ? 1 : 0);
  }
};

// Throws ArgumentError for the first field that cannot be.
void validate(const AttentionConfig& config);

}  // namespace headwise
