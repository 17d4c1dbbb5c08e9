// From any layout to any other and back: the same bits, the same configuration.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "stored.h"
#include "support/expect_bits.h"

namespace headwise::test_layouts {
namespace {

using test_support::same_bits;

LayerParts the_layer(const StoredLayer& stored, WeightLayout layout, const std::string& name,
                     const LayerHints& hints = {}) {
  const auto found = find_in(stored, hints);
  RC_ASSERT(found.size() == 1U);
  RC_ASSERT(found[0].layout == layout);
  RC_ASSERT(found[0].name == name);
  RC_ASSERT(found[0].missing == "");
  return read_from(stored, found[0]);
}

void assert_same(const LayerParts& a, const LayerParts& b) {
  const auto config = same_function(a.config, b.config);
  if (!config) RC_FAIL(config.message());
  const auto weights = same_bits(a.weights, b.weights);
  if (!weights) RC_FAIL(weights.message());
}

RC_GTEST_PROP(RoundTrip, BetweenAllLayoutsThatHoldALayer, (std::uint64_t seed)) {
  const AttentionConfig config = random_config(seed);
  const LayerParts layer{config, AttentionWeights::glorot(config, seed)};
  for (const WeightLayout one : kAllLayouts) {
    const auto stored = try_write(layer, one, "model.layer");
    if (!stored) continue;
    const LayerParts once = the_layer(*stored, one, "model.layer");
    assert_same(layer, once);
    for (const WeightLayout other : kAllLayouts) {
      const auto again = try_write(once, other);
      // What holds the layer does so wherever it came from.
      RC_ASSERT(again.has_value() == try_write(layer, other).has_value());
      if (again) assert_same(layer, the_layer(*again, other, ""));
    }
  }
}

// A file of the library itself has no metadata of ours: shapes and the number of heads must do.
RC_GTEST_PROP(RoundTrip, WithoutMetadata, (std::uint64_t seed)) {
  AttentionConfig config = random_config(seed);
  config.add_zero_attn = false;
  config.softcap = {};
  config.scale = {};
  config.qk_norm_epsilon = 1e-6F;
  const LayerParts layer{config, AttentionWeights::glorot(config, seed)};
  for (const WeightLayout layout : kAllLayouts) {
    auto stored = try_write(layer, layout, "x");
    if (!stored) continue;
    stored->metadata.clear();
    if (layout == WeightLayout::Headwise && config.qk_norm != QkNorm::None) {
      RC_ASSERT(find_in(*stored, {.num_heads = config.num_heads}).at(0).missing != "");
      continue;
    }
    assert_same(layer, the_layer(*stored, layout, "x", {.num_heads = config.num_heads}));
    assert_same(layer, the_layer(*stored, layout, "x", {.num_kv_heads = config.kv_heads()}));
    assert_same(layer, the_layer(*stored, layout, "x", {.key_dim = config.key_dim}));
  }
}

RC_GTEST_PROP(RoundTrip, ThroughAKerasModel, (std::uint64_t seed)) {
  std::vector<NamedLayer> layers;
  for (std::uint64_t i = 0; i < 4; ++i) {
    const AttentionConfig config = random_config(seed + i);
    const LayerParts layer{config, AttentionWeights::glorot(config, seed + i)};
    if (try_write(layer, WeightLayout::Keras)) {
      layers.push_back({"block/layer." + std::to_string(i), layer});
    }
  }
  const StoredLayer model = keras_model_of(layers);
  const auto found = find_in(model);
  RC_ASSERT(found.size() == layers.size());
  for (std::size_t i = 0; i < layers.size(); ++i) {
    RC_ASSERT(found[i].name == layers[i].name);
    RC_ASSERT(found[i].layout == WeightLayout::Keras);
    RC_ASSERT(found[i].missing == "");
    assert_same(layers[i].parts, read_from(model, found[i]));
  }
}

// Every pair of layouts is really met: a layer that all of them can hold.
TEST(RoundTrip, AllPairsOfLayouts) {
  const AttentionConfig config{.num_heads = 3, .key_dim = 4, .query_features = 12};
  const LayerParts layer = numbered_layer(config);
  int pairs = 0;
  for (const WeightLayout one : kAllLayouts) {
    const StoredLayer stored = write_layer(layer, one, "a");
    const LayerParts once = read_from(stored, find_in(stored).at(0));
    for (const WeightLayout other : kAllLayouts) {
      const StoredLayer again = write_layer(once, other, "a");
      const auto found = find_in(again);
      ASSERT_EQ(found.size(), 1U);
      EXPECT_TRUE(same_bits(layer.weights, read_from(again, found[0]).weights))
          << name_of(one) << " → " << name_of(other);
      // Writing is a function: the same names and bits whatever the layer was read from.
      EXPECT_EQ(again.metadata, write_layer(layer, other, "a").metadata);
      ++pairs;
    }
  }
  EXPECT_EQ(pairs, 64);
}

// NaNs, infinities, signed zeros and denormals are numbers like all others here.
TEST(RoundTrip, SpecialNumbersKeepTheirBits) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 2, .query_features = 4};
  LayerParts layer = numbered_layer(config);
  const std::uint32_t patterns[] = {0x7FC12345U, 0xFF800001U, 0x80000000U, 0x00000001U,
                                    0x7F800000U};
  for (const WeightField& field : weight_fields()) {
    auto values = (layer.weights.*field.tensor).values();
    for (std::size_t i = 0; i < values.size(); ++i) std::memcpy(&values[i], &patterns[i % 5], 4);
  }
  for (const WeightLayout layout : kAllLayouts) {
    const StoredLayer stored = write_layer(layer, layout);
    EXPECT_TRUE(same_bits(layer.weights, read_from(stored, find_in(stored).at(0)).weights))
        << name_of(layout);
  }
}

}  // namespace
}  // namespace headwise::test_layouts
