#include "stored.h"

#include "headwise/error.h"
#include "support/dice.h"

namespace headwise::test_layouts {

using test_support::Dice;

::testing::AssertionResult same_function(const AttentionConfig& a, const AttentionConfig& b) {
  const auto fail = [](const char* what) {
    return ::testing::AssertionFailure() << what << " differs";
  };
  if (a.num_heads != b.num_heads) return fail("num_heads");
  if (a.kv_heads() != b.kv_heads()) return fail("num_kv_heads");
  if (a.key_dim != b.key_dim) return fail("key_dim");
  if (a.value_size() != b.value_size()) return fail("value_dim");
  if (a.query_features != b.query_features) return fail("query_features");
  if (a.key_inputs() != b.key_inputs()) return fail("key_features");
  if (a.value_inputs() != b.value_inputs()) return fail("value_features");
  if (a.outputs() != b.outputs()) return fail("output_features");
  if (a.use_bias != b.use_bias) return fail("use_bias");
  if (a.has_output_bias() != b.has_output_bias()) return fail("use_output_bias");
  if (a.score_scale() != b.score_scale()) return fail("scale");
  if (a.softcap != b.softcap) return fail("softcap");
  if (a.use_gate != b.use_gate) return fail("use_gate");
  if (a.qk_norm != b.qk_norm) return fail("qk_norm");
  if (a.qk_norm != QkNorm::None && a.qk_norm_epsilon != b.qk_norm_epsilon) {
    return fail("qk_norm_epsilon");
  }
  if (a.add_bias_kv != b.add_bias_kv) return fail("add_bias_kv");
  if (a.add_zero_attn != b.add_zero_attn) return fail("add_zero_attn");
  return ::testing::AssertionSuccess();
}

LayerParts numbered_layer(const AttentionConfig& config) {
  LayerParts layer{config, AttentionWeights::zeros(config)};
  float next = 1.0F;
  for (const WeightField& field : weight_fields()) {
    for (float& x : (layer.weights.*field.tensor).values()) x = next++;
  }
  return layer;
}

AttentionConfig random_config(std::uint64_t seed) {
  Dice dice(seed);
  const auto maybe = [&](double probability, std::int64_t low, std::int64_t high) {
    return dice.chance(probability) ? std::optional(dice.between(low, high)) : std::nullopt;
  };
  AttentionConfig config;
  const std::int64_t kv_heads = dice.between(1, 3);
  const std::int64_t group = dice.chance(0.3) ? dice.between(2, 3) : 1;
  config.num_heads = kv_heads * group;
  if (group > 1) config.num_kv_heads = kv_heads;
  config.key_dim = dice.between(1, 5);
  config.query_features =
      dice.chance(0.7) ? config.num_heads * config.key_dim : dice.between(1, 12);
  config.value_dim = maybe(0.2, 1, 5);
  config.key_features = maybe(0.2, 1, 12);
  config.value_features = maybe(0.2, 1, 12);
  config.output_features = maybe(0.2, 1, 12);
  config.use_bias = dice.chance(0.7);
  if (dice.chance(0.2)) config.use_output_bias = dice.chance(0.5);
  if (dice.chance(0.1)) config.scale = 0.1F * static_cast<float>(dice.between(1, 30));
  if (dice.chance(0.1)) config.softcap = 0.7F * static_cast<float>(dice.between(1, 30));
  config.use_gate = dice.chance(0.15);
  if (dice.chance(0.2)) config.qk_norm = dice.chance(0.5) ? QkNorm::RmsNorm : QkNorm::LayerNorm;
  if (dice.chance(0.1)) config.qk_norm_epsilon = 3e-5F;
  config.add_bias_kv = dice.chance(0.1);
  config.add_zero_attn = dice.chance(0.1);
  return config;
}

std::optional<StoredLayer> try_write(const LayerParts& layer, WeightLayout layout,
                                     const std::string& name) {
  try {
    return write_layer(layer, layout, name);
  } catch (const ArgumentError&) {
    return std::nullopt;
  }
}

}  // namespace headwise::test_layouts
