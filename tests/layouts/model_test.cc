// Layers of models that compute more than their projections tell.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "layouts/keras_options.h"
#include "stored.h"

namespace headwise::test_layouts {
namespace {

std::vector<NamedShape> projections(const std::string& front, const char* output = "o_proj") {
  std::vector<NamedShape> tensors;
  for (const std::string name : {"q_proj", "k_proj", "v_proj", output}) {
    tensors.push_back({front + "." + name + ".weight", {12, 12}});
  }
  return tensors;
}

FoundLayer only_layer(const std::vector<NamedShape>& tensors, const LayerHints& hints) {
  const auto found = find_layers(tensors, {}, hints);
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? FoundLayer{} : found.front();
}

FoundLayer with(const NamedShape& another, const char* output = "o_proj") {
  std::vector<NamedShape> tensors = projections("layers.1.self_attn", output);
  tensors.push_back({"layers.1.self_attn." + another.name, another.shape});
  return only_layer(tensors, {.num_heads = 3});
}

FoundLayer of_model(const char* config_json, const std::string& front = "layers.1.self_attn",
                    const char* output = "o_proj") {
  return only_layer(projections(front, output), hints_from_config(config_json));
}

bool notes(const FoundLayer& layer, const std::string& what) {
  return std::any_of(layer.notes.begin(), layer.notes.end(),
                     [&](const std::string& note) { return note.find(what) != std::string::npos; });
}

// ---- Tensors below a layer's name -------------------------------------------------------------------

TEST(Strays, WhatNobodyUnderstandsIsNotPassedOver) {
  for (const char* name : {"sinks", "q_layernorm.norms.0.weight", "q_proj.lora_A.weight",
                           "q_proj.lora_A.default.weight", "relative_position_bias_table",
                           "v_proj.weight_scale", "bias", "self.layer_norm.weight"}) {
    const FoundLayer layer = with({name, {4}});
    EXPECT_FALSE(layer.config) << name;
    EXPECT_EQ(layer.missing, "'" + std::string(name) + "' is not understood");
  }
}

TEST(Strays, WhatChangesNothingIsPassedOver) {
  for (const NamedShape& harmless : std::vector<NamedShape>{{"output.LayerNorm.weight", {12}},
                                                            {"LayerNorm.gamma", {12}},
                                                            {"rotary_emb.inv_freq", {2}},
                                                            {"bias", {1, 1, 64, 64}},
                                                            {"masked_bias", {}},
                                                            {"dropout/seed_generator/vars/0", {2}},
                                                            {"norm1.weight", {12}},
                                                            {"mlp.0.weight", {48, 12}}}) {
    EXPECT_TRUE(with(harmless).config) << harmless.name << ": " << with(harmless).missing;
  }
}

TEST(Strays, AKnownNameOfAnotherRankIsADefect) {
  EXPECT_EQ(with({"q_norm.weight", {3, 4}}).missing,
            "'layers.1.self_attn.q_norm.weight': expected 1 axis, got shape (3, 4)");
}

// A file may hold a whole model beside a layer without a name.
TEST(Strays, OfALayerWithoutAName) {
  const auto layer = [](const char* another) {
    std::vector<NamedShape> tensors;
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      tensors.push_back({std::string(name) + ".weight", {12, 12}});
    }
    tensors.push_back({another, {12}});
    return only_layer(tensors, {.num_heads = 3});
  };
  for (const char* other : {"norm.weight", "embedding.weight", "decoder.layers.0.fc.weight"}) {
    EXPECT_TRUE(layer(other).config) << layer(other).missing;
  }
  for (const char* own : {"sinks", "q_layernorm.norms.0.weight", "q_proj.lora_A.weight"}) {
    EXPECT_FALSE(layer(own).config) << own;
  }
}

TEST(Strays, BelongToTheLongestFront) {
  std::vector<NamedShape> tensors = projections("a");
  for (const NamedShape& inner : projections("a.inner")) tensors.push_back(inner);
  tensors.push_back({"a.inner.sinks", {3}});
  const auto found = find_layers(tensors, {}, {.num_heads = 3});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_TRUE(found[0].config) << found[0].missing;
  EXPECT_FALSE(found[1].config);
}

// ---- Scores -------------------------------------------------------------------------------------------

TEST(ModelConfig, ScaleOfGpt2) {
  const auto scale_at = [](const char* config_json, const char* front) {
    const auto layer =
        find_layers(std::vector<NamedShape>{{std::string(front) + ".c_attn.weight", {12, 36}},
                                            {std::string(front) + ".c_proj.weight", {12, 12}}},
                    {}, hints_from_config(config_json))
            .at(0);
    return layer.config ? layer.config->score_scale() : -1.0F;
  };
  const char* plain = R"({"n_head": 3, "scale_attn_weights": true})";
  const char* unscaled = R"({"n_head": 3, "scale_attn_weights": false})";
  const char* by_place = R"({"n_head": 3, "scale_attn_by_inverse_layer_idx": true})";
  EXPECT_EQ(scale_at(plain, "h.3.attn"), 0.5F);
  EXPECT_EQ(scale_at(unscaled, "h.3.attn"), 1.0F);
  EXPECT_EQ(scale_at(by_place, "h.0.attn"), 0.5F);
  EXPECT_EQ(scale_at(by_place, "h.3.attn"), 0.125F);
  EXPECT_EQ(scale_at(by_place, "attn"), -1.0F) << "its place is not told";
}

TEST(ModelConfig, GptNeoHasNoScaleAndAWindowInSomeLayers) {
  const char* config =
      R"({"model_type": "gpt_neo", "num_heads": 3, "window_size": 256, "attention_layers": ["global", "local"]})";
  const FoundLayer global = of_model(config, "h.0.attn.attention", "out_proj");
  const FoundLayer local = of_model(config, "h.1.attn.attention", "out_proj");
  EXPECT_EQ(global.config.value().score_scale(), 1.0F);
  EXPECT_TRUE(notes(global, "causal mask"));
  EXPECT_FALSE(notes(global, "window"));
  EXPECT_TRUE(notes(local, "window_size 256, a mask"));
}

TEST(ModelConfig, WhatNoConfigurationHas) {
  EXPECT_EQ(
      of_model(R"({"num_attention_heads": 3, "clip_qkv": 0.5})").missing,
      "its model cuts queries, keys and values off at ±0.5 (clip_qkv), which no configuration has");
  EXPECT_TRUE(of_model(R"({"num_attention_heads": 3, "clip_qkv": null})").config);
  const FoundLayer normed = of_model(R"({"num_attention_heads": 3, "use_qk_norm": true})");
  EXPECT_NE(normed.missing.find("norms of queries and keys"), std::string::npos);
}

// ---- Positions and masks ------------------------------------------------------------------------------

TEST(ModelConfig, RotaryPositionsWhateverTheNames) {
  for (const char* config :
       {R"({"model_type": "gptj", "n_head": 3, "rotary_dim": 2})",
        R"({"num_attention_heads": 3, "position_embedding_type": "rotary"})"}) {
    const FoundLayer layer = of_model(config, "h.0.attn", "out_proj");
    EXPECT_EQ(layer.layout, WeightLayout::Bert);
    EXPECT_TRUE(layer.rotary && notes(layer, "rotary positions, which its model has")) << config;
  }
  const FoundLayer absolute = of_model(
      R"({"num_attention_heads": 3, "position_embedding_type": "absolute", "rope_theta": 10000.0})",
      "h.0.attn", "out_proj");
  EXPECT_FALSE(absolute.rotary);
  EXPECT_TRUE(absolute.notes.empty());
}

TEST(ModelConfig, Windows) {
  EXPECT_TRUE(notes(of_model(R"({"num_attention_heads": 3, "sliding_window": 4096})"),
                    "sliding_window 4096, a mask that is outside the weights"));
  EXPECT_FALSE(notes(
      of_model(
          R"({"num_attention_heads": 3, "sliding_window": 4096, "use_sliding_window": false})"),
      "window"));
  const char* some =
      R"({"num_attention_heads": 3, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]})";
  EXPECT_TRUE(notes(of_model(some, "layers.0.self_attn"), "sliding_window 8"));
  EXPECT_FALSE(notes(of_model(some, "layers.1.self_attn"), "window"));
  EXPECT_FALSE(notes(of_model(some, "layers.7.self_attn"), "window")) << "a list that is too short";
  EXPECT_TRUE(notes(of_model(R"({"num_attention_heads": 3, "has_relative_attention_bias": true})"),
                    "relative positions"));
}

// ---- Parts of a model ---------------------------------------------------------------------------------

TEST(ModelConfig, TowersHaveHeadsOfTheirOwn) {
  const char* clip =
      R"({"text_config": {"num_attention_heads": 3}, "vision_config": {"num_attention_heads": 6}})";
  EXPECT_EQ(of_model(clip, "text_model.encoder.layers.0.self_attn").config.value().num_heads, 3);
  EXPECT_EQ(of_model(clip, "vision_model.encoder.layers.0.self_attn").config.value().num_heads, 6);
  EXPECT_NE(of_model(clip, "layers.0.self_attn").missing.find("which of several"),
            std::string::npos);

  const char* bart =
      R"({"encoder_attention_heads": 3, "decoder_attention_heads": 6, "is_encoder_decoder": true})";
  const auto layer = [&](const char* front) { return of_model(bart, front, "out_proj"); };
  EXPECT_EQ(layer("encoder.layers.0.self_attn").config.value().num_heads, 3);
  EXPECT_EQ(layer("decoder.layers.0.encoder_attn").config.value().num_heads, 6);
  EXPECT_TRUE(notes(layer("decoder.layers.0.self_attn"), "causal mask"));
  EXPECT_FALSE(notes(layer("decoder.layers.0.encoder_attn"), "causal mask"));
  EXPECT_FALSE(notes(layer("encoder.layers.0.self_attn"), "causal mask"));
}

// ---- Keras --------------------------------------------------------------------------------------------

FoundLayer of_keras_model(const std::string& options, const std::string& query_shape,
                          const Shape& output = {3, 4, 12}) {
  std::vector<NamedShape> tensors;
  for (const char* name : {"query", "key", "value"}) {
    tensors.push_back({"layers/mha/" + std::string(name) + "_dense/vars/0", {12, 3, 4}});
  }
  tensors.push_back({"layers/mha/output_dense/vars/0", output});
  const std::string document = R"({"config": {"layers": [{"config": {"name": "att", )" + options +
                               R"(}, "build_config": {"shapes_dict": {"query_shape": )" +
                               query_shape + "}}}]}}";
  const auto found =
      find_layers(tensors, {{"layers/mha/vars@name", "att"}, {"config.json", document}});
  EXPECT_EQ(found.size(), 1U);
  return found.at(0);
}

TEST(KerasOptions, DropoutAxesAndWindows) {
  const char* plain = "[null, null, 12]";
  const FoundLayer layer = of_keras_model(R"("dropout": 0.25, "attention_axes": [1])", plain);
  EXPECT_EQ(layer.config.value().dropout, 0.25F);
  EXPECT_TRUE(layer.notes.empty());
  EXPECT_TRUE(notes(of_keras_model(R"("sliding_window": 3)", plain), "sliding_window 3"));
  EXPECT_TRUE(notes(of_keras_model(R"("attention_axes": [2])", "[null, 3, 4, 12]"),
                    "attention_axes [2] of 4 axes"));
  EXPECT_TRUE(notes(of_keras_model(R"("attention_axes": [1])", "[null, 3, 4, 12]"),
                    "attention_axes [1] of 4 axes"));
}

TEST(KerasOptions, OutputsOfSeveralAxes) {
  const FoundLayer layer =
      of_keras_model(R"("output_shape": [3, 5])", "[null, null, 12]", {3, 4, 3, 5});
  EXPECT_EQ(layer.config.value().outputs(), 15);
  EXPECT_EQ(layer.output_axes, (std::vector<std::int64_t>{3, 5}));
  EXPECT_TRUE(notes(layer, "axes (3, 5)"));
}

TEST(KerasOptions, OfModelsInModels) {
  const auto layers = layouts::keras_options(
      R"({"config": {"layers": [{"class_name": "X", "config": {"name": "a", "sliding_window": 4}},
          {"config": {"layers": [{"config": {"name": "b", "sliding_window": 7}}]}},
          {"config": {"name": "c", "sliding_window": null}}, {"config": {"name": 3, "sliding_window": 4}}]}})");
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers.at("a").sliding_window, 4);
  EXPECT_EQ(layers.at("b").sliding_window, 7);
  EXPECT_EQ(layers.at("c").sliding_window, std::nullopt);
}

TEST(KerasOptions, OfTextsThatAreNoModels) {
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"config":)";
  deep += "1" + std::string(100'000, '}');
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[1, \"name\"]"), std::string("\xFF"), deep}) {
    EXPECT_TRUE(layouts::keras_options(text).empty());
  }
}

TEST(KerasOptions, DocumentsThatLie) {
  const char* plain = "[null, null, 12]";
  for (const char* options :
       {R"("dropout": 7)", R"("dropout": "much")", R"("dropout": -1e300)", R"("attention_axes": 3)",
        R"("attention_axes": null)", R"("sliding_window": "wide")"}) {
    const FoundLayer layer = of_keras_model(options, plain);
    EXPECT_EQ(layer.config.value().dropout, 0.0F) << options;
    EXPECT_TRUE(layer.notes.empty()) << options;
  }
  EXPECT_TRUE(notes(of_keras_model(R"("attention_axes": [1,2,3,4,5,6,7,8,9,"\u001b"])", plain),
                    "attention_axes […]"));
}

}  // namespace
}  // namespace headwise::test_layouts
