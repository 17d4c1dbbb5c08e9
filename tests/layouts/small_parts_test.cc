// Natural order of names, configurations as JSON, documents of a Keras model.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "headwise/error.h"
#include "layouts/config_json.h"
#include "layouts/natural_order.h"
#include "stored.h"
#include "support/dice.h"

namespace headwise::test_layouts {
namespace {

using layouts::natural_less;

TEST(NaturalOrder, NumbersCount) {
  const std::vector<std::string> sorted = {
      "",        "a",        "a.b",         "layer.0",      "layer.02", "layer.2", "layer.2b",
      "layer.9", "layer.10", "layer.10.a2", "layer.10.a10", "layerx",   "\xC3\xA9"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    EXPECT_FALSE(natural_less(sorted[i], sorted[i])) << sorted[i];
    for (std::size_t j = i + 1; j < sorted.size(); ++j) {
      EXPECT_TRUE(natural_less(sorted[i], sorted[j])) << sorted[i] << " " << sorted[j];
      EXPECT_FALSE(natural_less(sorted[j], sorted[i])) << sorted[j] << " " << sorted[i];
    }
  }
}

TEST(NaturalOrder, NumbersOfAnyLength) {
  EXPECT_TRUE(natural_less("x9", "x" + std::string(1000, '9')));
  EXPECT_TRUE(natural_less("x" + std::string(500, '0') + "8", "x9"));
}

// std::sort needs an order of which this is one: whatever the names, exactly one of <, >, ==, and
// transitive.
RC_GTEST_PROP(NaturalOrder, IsAStrictOrder, (std::uint64_t seed)) {
  test_support::Dice dice(seed);
  std::vector<std::string> names(3);
  for (std::string& name : names) {
    for (std::int64_t i = dice.between(0, 6); i > 0; --i) {
      name += "019a."[static_cast<std::size_t>(dice.between(0, 4))];
    }
  }
  const auto& [a, b, c] = std::tie(names[0], names[1], names[2]);
  RC_ASSERT(static_cast<int>(natural_less(a, b)) + static_cast<int>(natural_less(b, a)) +
                static_cast<int>(a == b) ==
            1);
  if (natural_less(a, b) && natural_less(b, c)) RC_ASSERT(natural_less(a, c));
}

RC_GTEST_PROP(ConfigJson, KeepsEveryField, (std::uint64_t seed)) {
  AttentionConfig config = random_config(seed);
  config.dropout = 0.1F;
  config.seed = seed;
  const AttentionConfig again = layouts::config_from_json(layouts::to_json(config));
  const auto same = same_function(config, again);
  if (!same) RC_FAIL(same.message());
  RC_ASSERT(again.dropout == config.dropout);
  RC_ASSERT(again.seed == config.seed);
  RC_ASSERT(again.scale == config.scale);
}

TEST(KerasModel, NamesThatEveryBackendAccepts) {
  const LayerParts parts = numbered_layer({.num_heads = 2, .key_dim = 3, .query_features = 6});
  std::vector<NamedLayer> layers;
  for (const char* name :
       {"encoder.layer/0", "encoder_layer_0", "", "_x", "query", "\xC3\xA9\"\n", "a", "a"}) {
    layers.push_back({name, parts});
  }
  const StoredLayer model = keras_model_of(layers);
  const auto config = nlohmann::json::parse(model.metadata.at("config.json")).at("config");
  std::vector<std::string> names;
  for (const auto& layer : config.at("layers")) names.push_back(layer.at("name"));
  EXPECT_EQ(names.size(), 4 * layers.size());
  for (const std::string& name : names) {
    EXPECT_EQ(
        name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
        std::string::npos)
        << name;
    EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(name.front())) != 0) << name;
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  EXPECT_EQ(config.at("input_layers").size(), 24U);
  EXPECT_EQ(config.at("output_layers").size(), 8U);
  EXPECT_EQ(model.metadata.at("layers/multi_head_attention/vars@name"), "encoder.layer/0")
      << "the file itself remembers the name as it was";
}

// Keras counts the layers of each class for itself.
TEST(KerasModel, PathsOfTwoClasses) {
  const LayerParts plain = numbered_layer({.num_heads = 2, .key_dim = 3, .query_features = 6});
  const LayerParts grouped =
      numbered_layer({.num_heads = 2, .num_kv_heads = 1, .key_dim = 3, .query_features = 6});
  const std::vector<NamedLayer> layers = {
      {"a", plain}, {"b", grouped}, {"c", plain}, {"d", grouped}};
  const StoredLayer model = keras_model_of(layers);
  for (const char* name : {"layers/multi_head_attention/query_dense/vars/0",
                           "layers/grouped_query_attention/_query_dense/vars/1",
                           "layers/multi_head_attention_1/output_dense/vars/0",
                           "layers/grouped_query_attention_1/_output_dense/vars/1"}) {
    EXPECT_TRUE(model.tensors.contains(name)) << name;
  }
  EXPECT_EQ(model.tensors.size(), 32U);
  EXPECT_EQ(model.metadata.at("layers/grouped_query_attention_1/vars@name"), "d");
}

// Where one number of each kind goes, by the libraries' own definitions: y = x·Wᵀ of PyTorch's Linear
// with q, k and v one below the other in in_proj_weight, y = x·W of GPT-2's Conv1D.
TEST(WriteLayer, PlacesOfNumbers) {
  const LayerParts parts = numbered_layer({.num_heads = 2, .key_dim = 3, .query_features = 6});
  const AttentionWeights& w = parts.weights;
  const StoredLayer torch = write_layer(parts, WeightLayout::Torch);
  const StoredLayer bert = write_layer(parts, WeightLayout::Bert);
  const StoredLayer gpt2 = write_layer(parts, WeightLayout::Gpt2);
  const StoredLayer keras = write_layer(parts, WeightLayout::Keras);
  const ConstView in = torch.tensors.at("in_proj_weight");
  const ConstView c_attn = gpt2.tensors.at("c_attn.weight");
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t o = 0; o < 6; ++o) {
      EXPECT_EQ(in(o, i), w.query_kernel.view()(i, o));
      EXPECT_EQ(in(6 + o, i), w.key_kernel.view()(i, o));
      EXPECT_EQ(in(12 + o, i), w.value_kernel.view()(i, o));
      EXPECT_EQ(torch.tensors.at("out_proj.weight").view()(o, i), w.output_kernel.view()(i, o));
      EXPECT_EQ(bert.tensors.at("self.key.weight").view()(o, i), w.key_kernel.view()(i, o));
      EXPECT_EQ(c_attn(i, 6 + o), w.key_kernel.view()(i, o));
      EXPECT_EQ(keras.tensors.at("value/kernel").view()(i, o / 3, o % 3),
                w.value_kernel.view()(i, o));
    }
    EXPECT_EQ(torch.tensors.at("in_proj_bias").view()(12 + i), w.value_bias.view()(i));
  }
}

TEST(WriteLayer, WhatHuggingFaceAndPeopleExpect) {
  const LayerParts parts = numbered_layer({.num_heads = 2, .key_dim = 3, .query_features = 6});
  const StoredLayer bert = write_layer(parts, WeightLayout::Bert, "encoder.layer.0.attention");
  EXPECT_TRUE(bert.tensors.contains("encoder.layer.0.attention.self.query.weight"));
  EXPECT_TRUE(bert.tensors.contains("encoder.layer.0.attention.output.dense.bias"));
  EXPECT_EQ(bert.tensors.size(), 8U);
  EXPECT_EQ(bert.metadata.at("format"), "pt");
  const StoredLayer torch = write_layer(parts, WeightLayout::Torch);
  EXPECT_EQ(torch.tensors.at("in_proj_weight").shape(), Shape({18, 6}));
  EXPECT_EQ(torch.tensors.size(), 4U);
  const StoredLayer keras = write_layer(parts, WeightLayout::Keras, "mha");
  EXPECT_EQ(keras.tensors.at("mha/attention_output/kernel").shape(), Shape({2, 3, 6}));
  EXPECT_FALSE(keras.metadata.contains("format"));
  const StoredLayer gpt2 = write_layer(parts, WeightLayout::Gpt2, "h.0.attn");
  EXPECT_EQ(gpt2.tensors.at("h.0.attn.c_attn.weight").shape(), Shape({6, 18}));
}

}  // namespace
}  // namespace headwise::test_layouts
