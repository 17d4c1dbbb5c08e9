// What a layout cannot hold is refused by name, and nothing else is.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "headwise/error.h"
#include "stored.h"
#include "support/expect_error.h"

namespace headwise::test_layouts {
namespace {

using enum WeightLayout;

// A layer that every layout holds, and one change to it.
struct Change {
  std::string argument;  // that the error names
  std::function<void(AttentionConfig&)> apply;
  std::set<WeightLayout> holders;  // besides Headwise, which holds everything
};

std::vector<Change> changes() {
  return {
      {"scale", [](auto& c) { c.scale = 0.25F; }, {}},
      {"softcap", [](auto& c) { c.softcap = 30.0F; }, {}},
      {"use_gate", [](auto& c) { c.use_gate = true; }, {Keras}},
      {"qk_norm", [](auto& c) { c.qk_norm = QkNorm::RmsNorm; }, {Llama}},
      {"qk_norm", [](auto& c) { c.qk_norm = QkNorm::LayerNorm; }, {Flax}},
      {"add_bias_kv", [](auto& c) { c.add_bias_kv = true; }, {Torch}},
      {"add_zero_attn", [](auto& c) { c.add_zero_attn = true; }, {Torch}},
      {"num_kv_heads", [](auto& c) { c.num_kv_heads = 2; }, {Keras, Flax, Llama}},
      {"value_dim", [](auto& c) { c.value_dim = 5; }, {Keras}},
      {"key_features",
       [](auto& c) {
         c.key_features = 7;
         c.value_features = 12;
       },
       {Keras, Torch, Flax, D2l}},
      {"value_features", [](auto& c) { c.value_features = 7; }, {Keras, Torch, Flax, D2l}},
      {"output_features", [](auto& c) { c.output_features = 7; }, {Keras, Flax}},
      {"query_features",
       [](auto& c) {
         c.query_features = 7;
         c.key_features = 7;
         c.output_features = 12;
       },
       {Keras, Flax, D2l}},
      {"use_output_bias", [](auto& c) { c.use_output_bias = false; }, {Llama}},
      {"use_output_bias",
       [](auto& c) {
         c.use_bias = false;
         c.use_output_bias = true;
       },
       {}},
      {"use_bias", [](auto& c) { c.use_bias = false; }, {Keras, Torch, Flax, D2l, Llama}},
  };
}

TEST(Limits, OneChangeAtATime) {
  const AttentionConfig plain{.num_heads = 4, .key_dim = 3, .query_features = 12};
  for (const WeightLayout layout : kAllLayouts) {
    EXPECT_NO_THROW(write_layer(numbered_layer(plain), layout)) << name_of(layout);
    for (const Change& change : changes()) {
      AttentionConfig config = plain;
      change.apply(config);
      const LayerParts layer = numbered_layer(config);
      if (layout == Headwise || change.holders.contains(layout)) {
        EXPECT_NO_THROW(write_layer(layer, layout)) << name_of(layout) << " " << change.argument;
        continue;
      }
      try {
        write_layer(layer, layout);
        ADD_FAILURE() << name_of(layout) << " took " << change.argument;
      } catch (const ArgumentError& error) {
        EXPECT_TRUE(test_support::has_error_form(error)) << error.what();
        EXPECT_EQ(error.function(), "write_layer");
        EXPECT_NE(std::string(error.what()).find(name_of(layout)), std::string::npos)
            << error.what();
      }
    }
  }
}

// Errors name what the layout lacks, not something that follows from it.
TEST(Limits, TheRightName) {
  const AttentionConfig plain{.num_heads = 4, .key_dim = 3, .query_features = 12};
  for (const Change& change : changes()) {
    if (change.holders.contains(D2l)) continue;
    AttentionConfig config = plain;
    change.apply(config);
    EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(config), D2l); },
                                      "write_layer", change.argument));
  }
}

TEST(Limits, ATrueScaleIsNoScale) {
  AttentionConfig config{.num_heads = 4, .key_dim = 3, .query_features = 12};
  config.scale = config.score_scale();
  for (const WeightLayout layout : kAllLayouts) {
    EXPECT_NO_THROW(write_layer(numbered_layer(config), layout)) << name_of(layout);
  }
}

TEST(Limits, GroupedHeadsOfKerasAndFlax) {
  const AttentionConfig plain{
      .num_heads = 4, .num_kv_heads = 2, .key_dim = 3, .query_features = 12};
  AttentionConfig values = plain;
  values.value_dim = 5;
  EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(values), Keras); },
                                    "write_layer", "value_dim"));
  AttentionConfig output = plain;
  output.output_features = 5;
  EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(output), Keras); },
                                    "write_layer", "output_features"));
  AttentionConfig inputs = plain;
  inputs.value_features = 5;
  EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(inputs), Flax); },
                                    "write_layer", "value_features"));
  EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(inputs), Keras); },
                                    "write_layer", "value_features"));
  inputs.value_features = plain.query_features;
  inputs.key_features = 5;
  EXPECT_NO_THROW(write_layer(numbered_layer(inputs), Keras));
}

TEST(Limits, FlaxHasOneEpsilon) {
  AttentionConfig config{
      .num_heads = 4, .key_dim = 3, .query_features = 12, .qk_norm = QkNorm::LayerNorm};
  EXPECT_NO_THROW(write_layer(numbered_layer(config), Flax));
  config.qk_norm_epsilon = 1e-5F;
  EXPECT_TRUE(test_support::refuses([&] { write_layer(numbered_layer(config), Flax); },
                                    "write_layer", "qk_norm_epsilon"));
}

TEST(Limits, PartsThatAreNoLayer) {
  LayerParts layer = numbered_layer({.num_heads = 4, .key_dim = 3, .query_features = 12});
  layer.weights.key_bias = Tensor({5});
  EXPECT_THROW(write_layer(layer, Headwise), ArgumentError);
  layer.config.num_heads = 0;
  EXPECT_THROW(write_layer(layer, Keras), ArgumentError);
  const std::vector<NamedLayer> layers = {{"a", layer}};
  EXPECT_THROW(keras_model_of(layers), ArgumentError);
}

TEST(Names, OfLayouts) {
  std::set<std::string_view> names;
  for (const WeightLayout layout : kAllLayouts) {
    names.insert(name_of(layout));
    EXPECT_EQ(weight_layout_named(name_of(layout)), layout);
  }
  EXPECT_EQ(names.size(), 8U);
  EXPECT_EQ(weight_layout_named("Torch"), std::nullopt);
  EXPECT_EQ(weight_layout_named(""), std::nullopt);
}

}  // namespace
}  // namespace headwise::test_layouts
