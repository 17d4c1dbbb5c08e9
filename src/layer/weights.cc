#include "headwise/weights.h"

#include <cmath>
#include <string>

#include "base/check.h"
#include "base/philox.h"

namespace headwise {

namespace {

using Config = AttentionConfig;

bool always(const Config&) { return true; }
bool with_bias(const Config& c) { return c.use_bias; }
bool with_gate(const Config& c) { return c.use_gate; }
bool with_gate_bias(const Config& c) { return c.use_gate && c.use_bias; }
bool with_output_bias(const Config& c) { return c.has_output_bias(); }
bool with_norm(const Config& c) { return c.qk_norm != QkNorm::None; }
bool with_extra(const Config& c) { return c.add_bias_kv; }

// A seed of its own for every tensor, unrelated to the small seeds that callers choose.
std::uint64_t stream_seed(std::uint64_t seed, std::uint32_t stream) {
  const auto words = base::philox({stream, 0, 0, /*apart from Tensor::normal's*/ 1}, seed);
  return std::uint64_t{words[0]} << 32 | words[1];
}

Tensor initial_kernel(const Shape& shape, Initializer initializer, std::uint64_t seed) {
  const auto in = static_cast<float>(shape[0]);
  const auto out = static_cast<float>(shape[1]);
  switch (initializer) {
    case Initializer::GlorotUniform: {
      const float bound = std::sqrt(6.0F / (in + out));
      return Tensor::uniform(shape, seed, -bound, bound);
    }
    case Initializer::GlorotNormal:
      return Tensor::normal(shape, seed, std::sqrt(2.0F / (in + out)));
    case Initializer::LecunNormal:
      return Tensor::normal(shape, seed, std::sqrt(1.0F / in));
    case Initializer::Zeros:
      break;
  }
  return Tensor(shape);
}

}  // namespace

const std::vector<WeightField>& weight_fields() {
  using W = AttentionWeights;
  static const std::vector<WeightField> fields = {
      {"query/kernel", &W::query_kernel,
       [](const Config& c) {
         return Shape{c.query_features, c.num_heads * c.key_dim};
       },
       [](const Config& c) {
         return Shape{c.query_features, c.num_heads, c.key_dim};
       },
       always},
      {"query/bias", &W::query_bias, [](const Config& c) { return Shape{c.num_heads * c.key_dim}; },
       [](const Config& c) {
         return Shape{c.num_heads, c.key_dim};
       },
       with_bias},
      {"key/kernel", &W::key_kernel,
       [](const Config& c) {
         return Shape{c.key_inputs(), c.kv_heads() * c.key_dim};
       },
       [](const Config& c) {
         return Shape{c.key_inputs(), c.kv_heads(), c.key_dim};
       },
       always},
      {"key/bias", &W::key_bias, [](const Config& c) { return Shape{c.kv_heads() * c.key_dim}; },
       [](const Config& c) {
         return Shape{c.kv_heads(), c.key_dim};
       },
       with_bias},
      {"value/kernel", &W::value_kernel,
       [](const Config& c) {
         return Shape{c.value_inputs(), c.kv_heads() * c.value_size()};
       },
       [](const Config& c) {
         return Shape{c.value_inputs(), c.kv_heads(), c.value_size()};
       },
       always},
      {"value/bias", &W::value_bias,
       [](const Config& c) { return Shape{c.kv_heads() * c.value_size()}; },
       [](const Config& c) {
         return Shape{c.kv_heads(), c.value_size()};
       },
       with_bias},
      {"gate/kernel", &W::gate_kernel,
       [](const Config& c) {
         return Shape{c.query_features, c.num_heads * c.value_size()};
       },
       [](const Config& c) {
         return Shape{c.query_features, c.num_heads, c.value_size()};
       },
       with_gate},
      {"gate/bias", &W::gate_bias,
       [](const Config& c) { return Shape{c.num_heads * c.value_size()}; },
       [](const Config& c) {
         return Shape{c.num_heads, c.value_size()};
       },
       with_gate_bias},
      {"attention_output/kernel", &W::output_kernel,
       [](const Config& c) {
         return Shape{c.num_heads * c.value_size(), c.outputs()};
       },
       [](const Config& c) {
         return Shape{c.num_heads, c.value_size(), c.outputs()};
       },
       always},
      {"attention_output/bias", &W::output_bias, [](const Config& c) { return Shape{c.outputs()}; },
       [](const Config& c) { return Shape{c.outputs()}; }, with_output_bias},
      {"query_norm/scale", &W::query_norm, [](const Config& c) { return Shape{c.key_dim}; },
       [](const Config& c) { return Shape{c.key_dim}; }, with_norm},
      {"key_norm/scale", &W::key_norm, [](const Config& c) { return Shape{c.key_dim}; },
       [](const Config& c) { return Shape{c.key_dim}; }, with_norm},
      {"extra_key", &W::extra_key, [](const Config& c) { return Shape{c.kv_heads() * c.key_dim}; },
       [](const Config& c) {
         return Shape{c.kv_heads(), c.key_dim};
       },
       with_extra},
      {"extra_value", &W::extra_value,
       [](const Config& c) { return Shape{c.kv_heads() * c.value_size()}; },
       [](const Config& c) {
         return Shape{c.kv_heads(), c.value_size()};
       },
       with_extra},
  };
  return fields;
}

AttentionWeights AttentionWeights::initialise(const AttentionConfig& config,
                                              Initializer initializer, std::uint64_t seed) {
  headwise::validate(config);
  AttentionWeights weights;
  std::uint32_t stream = 0;  // each tensor its own, whether or not the others are there
  for (const WeightField& field : weight_fields()) {
    ++stream;
    if (!field.present(config)) continue;
    const Shape shape = field.flat_shape(config);
    Tensor& tensor = weights.*field.tensor;
    const bool is_norm = field.tensor == &AttentionWeights::query_norm ||
                         field.tensor == &AttentionWeights::key_norm;
    if (is_norm && initializer != Initializer::Zeros) {
      tensor = Tensor::full(shape, 1.0F);
    } else if (shape.rank() == 2) {
      tensor = initial_kernel(shape, initializer, stream_seed(seed, stream));
    } else if (field.present == with_extra && initializer != Initializer::Zeros) {
      const float deviation = 1.0F / std::sqrt(static_cast<float>(shape[0]));
      tensor = Tensor::normal(shape, stream_seed(seed, stream), deviation);
    } else {
      tensor = Tensor(shape);
    }
  }
  return weights;
}

void validate(const AttentionConfig& config, const AttentionWeights& weights) {
  for (const WeightField& field : weight_fields()) {
    const Tensor& tensor = weights.*field.tensor;
    const std::string argument = std::string("weights ") + field.name;
    if (!field.present(config)) {
      if (tensor.size() != 0) {
        base::fail("MultiHeadAttention", argument, "none under this configuration",
                   tensor.shape().to_string());
      }
    } else if (tensor.rank() == 1 && tensor.size() == 0) {
      base::fail("MultiHeadAttention", argument, "shape " + field.flat_shape(config).to_string(),
                 "none: it is missing");
    } else if (tensor.shape() != field.flat_shape(config)) {
      base::fail("MultiHeadAttention", argument, "shape " + field.flat_shape(config).to_string(),
                 tensor.shape().to_string());
    }
  }
}

HeadViews head_views(const AttentionConfig& config, const AttentionWeights& weights,
                     std::int64_t head) {
  validate(config);
  validate(config, weights);
  if (head < 0 || head >= config.num_heads) {
    base::fail("head_views", "head", "0 … " + std::to_string(config.num_heads - 1),
               std::to_string(head));
  }
  const std::int64_t kv_head = head / (config.num_heads / config.kv_heads());
  const std::int64_t dk = config.key_dim;
  const std::int64_t dv = config.value_size();
  const auto columns = [](const Tensor& kernel, std::int64_t index, std::int64_t size) {
    return kernel.view().sliced(1, index * size, (index + 1) * size);
  };
  return {columns(weights.query_kernel, head, dk), columns(weights.key_kernel, kv_head, dk),
          columns(weights.value_kernel, kv_head, dv),
          weights.output_kernel.view().sliced(0, head * dv, (head + 1) * dv)};
}

}  // namespace headwise
