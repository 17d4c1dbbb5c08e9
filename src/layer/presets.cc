#include "headwise/presets.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "layer/stored_weights.h"

namespace headwise::presets {

namespace {

using layer::StoredTensor;

[[noreturn]] void fail_without(const char* function, const WeightField& field,
                               const AttentionConfig& config,
                               const std::vector<StoredTensor>& layout) {
  const auto holds = [&](const StoredTensor& stored) {
    const auto fields = layer::fields_of(stored);
    return std::find(fields.begin(), fields.end(), &field) != fields.end() &&
           layer::is_stored(stored, config);
  };
  const auto stored = std::find_if(layout.begin(), layout.end(), holds);
  if (stored == layout.end()) {
    base::fail(function, "config", std::string("a layer without ") + field.name, "one that has it");
  }
  base::fail(function, stored->name,
             "a tensor of shape " + layer::stored_shape(*stored, config).to_string(),
             "none of that name");
}

// Weights from tensors under a library's own names: all that the configuration asks for, each of
// the right shape, and nothing besides.
AttentionWeights read_weights(const char* function, const AttentionConfig& config,
                              const TensorMap& tensors, const std::vector<StoredTensor>& layout) {
  validate(config);
  AttentionWeights weights;
  std::set<std::string> taken;
  std::set<const WeightField*> filled;
  for (const StoredTensor& stored : layout) {
    const auto entry = tensors.find(stored.name);
    const auto fields = layer::fields_of(stored);
    if (entry == tensors.end() || !layer::is_stored(stored, config)) continue;
    if (filled.contains(fields.front())) continue;  // left over: packed and separate at once
    const Shape& shape = entry->second.shape();
    if (!layer::fits(stored, shape, config)) {
      base::fail(function, stored.name, "shape " + layer::stored_shape(stored, config).to_string(),
                 shape.to_string());
    }
    layer::unpack(stored, entry->second, config, weights);
    taken.insert(stored.name);
    filled.insert(fields.begin(), fields.end());
  }
  for (const WeightField& field : weight_fields()) {
    if (field.present(config) && !filled.contains(&field)) {
      fail_without(function, field, config, layout);
    }
  }
  for (const auto& [name, tensor] : tensors) {
    if (!taken.contains(name)) {
      base::fail(function, name, "no tensor of that name under this configuration",
                 tensor.shape().to_string());
    }
  }
  return weights;
}

struct NamedSize {
  const char* name;
  std::int64_t value;
};

std::int64_t head_size(const char* function, const NamedSize& features, const NamedSize& heads) {
  if (heads.value < 1)
    base::fail(function, heads.name, "a number ≥ 1", std::to_string(heads.value));
  if (features.value < 1 || features.value % heads.value != 0) {
    base::fail(function, features.name,
               std::string("a multiple of ") + heads.name + " = " + std::to_string(heads.value),
               std::to_string(features.value));
  }
  return features.value / heads.value;
}

}  // namespace

AttentionConfig torch(const Torch& options) {
  AttentionConfig config;
  config.num_heads = options.num_heads;
  config.key_dim = head_size("presets::torch", {"embed_dim", options.embed_dim},
                             {"num_heads", options.num_heads});
  config.query_features = options.embed_dim;
  config.key_features = options.kdim.value_or(options.embed_dim);
  config.value_features = options.vdim.value_or(options.embed_dim);
  config.output_features = options.embed_dim;
  config.use_bias = options.bias;
  config.dropout = options.dropout;
  config.add_bias_kv = options.add_bias_kv;
  config.add_zero_attn = options.add_zero_attn;
  validate(config);
  return config;
}

AttentionWeights torch_weights(const AttentionConfig& config, const TensorMap& tensors) {
  return read_weights("presets::torch_weights", config, tensors, layer::torch_tensors());
}

AttentionConfig keras(const Keras& options) {
  AttentionConfig config;
  config.num_heads = options.num_heads;
  config.num_kv_heads = options.num_key_value_heads;
  config.key_dim = options.key_dim;
  config.value_dim = options.value_dim;
  config.query_features = options.query_features;
  config.value_features = options.value_features.value_or(options.query_features);
  config.key_features = options.key_features.value_or(*config.value_features);
  config.output_features = options.output_shape;
  config.use_bias = options.use_bias;
  config.use_gate = options.use_gate;
  config.dropout = options.dropout;
  validate(config);
  return config;
}

AttentionWeights keras_weights(const AttentionConfig& config, const TensorMap& tensors) {
  return read_weights("presets::keras_weights", config, tensors, layer::keras_tensors());
}

AttentionWeights flax_weights(const AttentionConfig& config, const TensorMap& tensors) {
  return read_weights("presets::flax_weights", config, tensors, layer::flax_tensors());
}

AttentionConfig d2l(const D2l& options) {
  AttentionConfig config;
  config.num_heads = options.num_heads;
  config.key_dim = head_size("presets::d2l", {"num_hiddens", options.num_hiddens},
                             {"num_heads", options.num_heads});
  config.query_features = options.num_hiddens;
  config.use_bias = options.bias;
  config.dropout = options.dropout;
  validate(config);
  return config;
}

AttentionWeights d2l_weights(const AttentionConfig& config, const TensorMap& tensors) {
  return read_weights("presets::d2l_weights", config, tensors, layer::d2l_tensors());
}

AttentionConfig paper(std::int64_t d_model, std::int64_t heads) {
  AttentionConfig config;
  config.num_heads = heads;
  config.key_dim = head_size("presets::paper", {"d_model", d_model}, {"heads", heads});
  config.query_features = d_model;
  config.use_bias = false;
  return config;
}

}  // namespace headwise::presets
