#include "headwise/presets.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "base/check.h"

namespace headwise::presets {

namespace {

// Takes tensors out of a map by name, checks their shapes, and complains about what was left over.
class Source {
 public:
  Source(std::string function, const TensorMap& tensors)
      : function_(std::move(function)), tensors_(tensors) {}

  const Tensor& take(const std::string& name, const Shape& shape) {
    const Tensor& tensor = find(name, shape);
    if (tensor.shape() != shape) {
      base::fail(function_, name, "shape " + shape.to_string(), tensor.shape().to_string());
    }
    return tensor;
  }
  // For output shapes of several axes: more axes may follow where `shape` has its last one.
  const Tensor& take_with_open_end(const std::string& name, const Shape& shape) {
    const Tensor& tensor = find(name, shape);
    const int fixed = shape.rank() - 1;
    if (tensor.rank() < fixed || tensor.size() != shape.element_count() ||
        !std::equal(shape.begin(), shape.begin() + fixed, tensor.shape().begin())) {
      base::fail(function_, name, "shape " + shape.to_string(), tensor.shape().to_string());
    }
    return tensor;
  }
  [[nodiscard]] bool has(const std::string& name) const { return tensors_.contains(name); }

  void require_all_taken() const {
    for (const auto& [name, tensor] : tensors_) {
      if (!taken_.contains(name)) {
        base::fail(function_, name, "no tensor of that name under this configuration",
                   tensor.shape().to_string());
      }
    }
  }

 private:
  const Tensor& find(const std::string& name, const Shape& shape) {
    const auto entry = tensors_.find(name);
    if (entry == tensors_.end()) {
      base::fail(function_, name, "a tensor of shape " + shape.to_string(), "none of that name");
    }
    taken_.insert(name);
    return entry->second;
  }

  std::string function_;
  const TensorMap& tensors_;
  std::set<std::string> taken_;
};

Tensor transposed(const ConstView& matrix) { return Tensor::copy_of(matrix.permuted({1, 0})); }

// Where a framework keeps the kernels as (in, heads, size): the same numbers in the same order, so
// a new shape is all it takes. `rename` maps our names to the framework's.
template <typename Rename>
AttentionWeights reshaped_weights(const char* function, const AttentionConfig& config,
                                  const TensorMap& tensors, Rename rename) {
  validate(config);
  Source source(function, tensors);
  AttentionWeights weights;
  for (const WeightField& field : weight_fields()) {
    if (!field.present(config)) continue;
    const bool is_output = field.tensor == &AttentionWeights::output_kernel ||
                           field.tensor == &AttentionWeights::output_bias;
    const Shape shape = field.head_shape(config);
    const std::string name = rename(field.name);
    const Tensor& tensor =
        is_output ? source.take_with_open_end(name, shape) : source.take(name, shape);
    weights.*field.tensor = tensor.reshaped(field.flat_shape(config));
  }
  source.require_all_taken();
  return weights;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
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
  validate(config);
  Source source("presets::torch_weights", tensors);
  const std::int64_t e = config.num_heads * config.key_dim;  // embed_dim: q, k and v are as wide
  AttentionWeights weights;
  if (source.has("in_proj_weight")) {
    const Tensor& all = source.take("in_proj_weight", {3 * e, config.query_features});
    weights.query_kernel = transposed(all.view().sliced(0, 0, e));
    weights.key_kernel = transposed(all.view().sliced(0, e, 2 * e));
    weights.value_kernel = transposed(all.view().sliced(0, 2 * e, 3 * e));
  } else {
    weights.query_kernel = transposed(source.take("q_proj_weight", {e, config.query_features}));
    weights.key_kernel = transposed(source.take("k_proj_weight", {e, config.key_inputs()}));
    weights.value_kernel = transposed(source.take("v_proj_weight", {e, config.value_inputs()}));
  }
  weights.output_kernel = transposed(source.take("out_proj.weight", {config.outputs(), e}));
  if (config.use_bias) {
    const ConstView all = source.take("in_proj_bias", {3 * e});
    weights.query_bias = Tensor::copy_of(all.sliced(0, 0, e));
    weights.key_bias = Tensor::copy_of(all.sliced(0, e, 2 * e));
    weights.value_bias = Tensor::copy_of(all.sliced(0, 2 * e, 3 * e));
  }
  if (config.has_output_bias())
    weights.output_bias = source.take("out_proj.bias", {config.outputs()});
  if (config.add_bias_kv) {
    weights.extra_key = source.take("bias_k", {1, 1, e}).reshaped({e});
    weights.extra_value = source.take("bias_v", {1, 1, e}).reshaped({e});
  }
  source.require_all_taken();
  validate(config, weights);
  return weights;
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
  return reshaped_weights("presets::keras_weights", config, tensors,
                          [](const char* name) { return std::string(name); });
}

AttentionWeights flax_weights(const AttentionConfig& config, const TensorMap& tensors) {
  return reshaped_weights("presets::flax_weights", config, tensors, [](const char* name) {
    return replaced(replaced(name, "attention_output", "out"), "_norm/", "_ln/");
  });
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
  using W = AttentionWeights;
  validate(config);
  Source source("presets::d2l_weights", tensors);
  AttentionWeights weights;
  const std::array<std::pair<const char*, std::array<Tensor W::*, 2>>, 4> fields = {{
      {"W_q", {&W::query_kernel, &W::query_bias}},
      {"W_k", {&W::key_kernel, &W::key_bias}},
      {"W_v", {&W::value_kernel, &W::value_bias}},
      {"W_o", {&W::output_kernel, &W::output_bias}},
  }};
  const AttentionWeights shapes = AttentionWeights::zeros(config);
  for (const auto& [name, members] : fields) {
    const auto [kernel, bias] = members;
    const Shape& shape = (shapes.*kernel).shape();
    weights.*kernel = transposed(source.take(std::string(name) + ".weight", {shape[1], shape[0]}));
    if ((shapes.*bias).size() != 0) {
      weights.*bias = source.take(std::string(name) + ".bias", (shapes.*bias).shape());
    }
  }
  source.require_all_taken();
  validate(config, weights);
  return weights;
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
