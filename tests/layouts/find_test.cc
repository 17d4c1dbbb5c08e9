// Layers in lists of names and shapes as the libraries write them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "headwise/error.h"
#include "stored.h"
#include "support/expect_error.h"

namespace headwise::test_layouts {
namespace {

std::vector<NamedShape> linear(const std::string& front, const std::vector<std::string>& names,
                               std::int64_t features, bool bias = true) {
  std::vector<NamedShape> tensors;
  for (const std::string& name : names) {
    tensors.push_back({front + name + ".weight", {features, features}});
    if (bias) tensors.push_back({front + name + ".bias", {features}});
  }
  return tensors;
}

void append(std::vector<NamedShape>& list, const std::vector<NamedShape>& more) {
  list.insert(list.end(), more.begin(), more.end());
}

// ---- Keras --------------------------------------------------------------------------------------

std::vector<NamedShape> keras_file_layer(const std::string& path, const std::string& underscore) {
  return {{path + "/_dropout_layer/seed_generator/vars/0", {2}},
          {path + "/" + underscore + "key_dense/vars/0", {12, 2, 4}},
          {path + "/" + underscore + "key_dense/vars/1", {2, 4}},
          {path + "/" + underscore + "output_dense/vars/0", {6, 4, 12}},
          {path + "/" + underscore + "output_dense/vars/1", {12}},
          {path + "/" + underscore + "query_dense/vars/0", {12, 6, 4}},
          {path + "/" + underscore + "query_dense/vars/1", {6, 4}},
          {path + "/" + underscore + "value_dense/vars/0", {12, 2, 4}},
          {path + "/" + underscore + "value_dense/vars/1", {2, 4}}};
}

TEST(FindKeras, SavedFileWithTheUsersNames) {
  std::vector<NamedShape> tensors;
  append(tensors, keras_file_layer("layers/grouped_query_attention", "_"));
  append(tensors, keras_file_layer("layers/block/att", ""));
  append(tensors, keras_file_layer("layers/block/list_of/multi_head_attention", ""));
  append(tensors, keras_file_layer("layers/functional/layers/multi_head_attention", ""));
  append(tensors, keras_file_layer("unnamed/layer", ""));
  const auto found = find_layers(
      tensors, {{"vars@name", "functional_2"},
                {"layers/grouped_query_attention/vars@name", "gqa"},
                {"layers/block/vars@name", "blk"},
                {"layers/block/att/vars@name", "inner_att"},
                {"layers/block/list_of/multi_head_attention/vars@name", "multi_head_attention_1"},
                {"layers/functional/vars@name", "innermodel"},
                {"layers/functional/layers/multi_head_attention/vars@name", "deep"}});
  ASSERT_EQ(found.size(), 5U);
  const char* names[] = {"blk/inner_att", "blk/multi_head_attention_1", "gqa", "innermodel/deep",
                         "unnamed/layer"};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(found[i].name, names[i]);
    EXPECT_EQ(found[i].layout, WeightLayout::Keras);
    ASSERT_TRUE(found[i].config) << found[i].missing;
    EXPECT_EQ(found[i].config->num_heads, 6);
    EXPECT_EQ(found[i].config->kv_heads(), 2);
    EXPECT_EQ(found[i].config->key_dim, 4);
    EXPECT_EQ(found[i].tensors.size(), 8U);
  }
  EXPECT_EQ(found[2].tensors.at("query/kernel"),
            "layers/grouped_query_attention/_query_dense/vars/0");
}

TEST(FindKeras, OneNameForTwoLayersIsNoName) {
  std::vector<NamedShape> tensors;
  append(tensors, keras_file_layer("layers/multi_head_attention", ""));
  append(tensors, keras_file_layer("layers/multi_head_attention_1", ""));
  const auto found = find_layers(tensors, {{"layers/multi_head_attention/vars@name", "same"},
                                           {"layers/multi_head_attention_1/vars@name", "same"}});
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "layers/multi_head_attention");
  EXPECT_EQ(found[1].name, "layers/multi_head_attention_1");
}

TEST(FindKeras, VariablePaths) {
  const auto found =
      find_layers(std::vector<NamedShape>{{"m/a/query/kernel", {12, 3, 4}},
                                          {"m/a/key/kernel", {7, 3, 4}},
                                          {"m/a/gate/kernel", {12, 3, 5}},
                                          {"m/a/value/kernel", {9, 3, 5}},
                                          {"m/a/attention_output/kernel", {3, 5, 2, 8}},
                                          {"m/dense/kernel", {12, 4}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "m/a");
  const AttentionConfig& c = found[0].config.value();
  EXPECT_EQ(c.num_heads, 3);
  EXPECT_EQ(c.value_size(), 5);
  EXPECT_EQ(c.key_inputs(), 7);
  EXPECT_EQ(c.value_inputs(), 9);
  EXPECT_EQ(c.outputs(), 16) << "output_shape (2, 8)";
  EXPECT_TRUE(c.use_gate);
  EXPECT_FALSE(c.use_bias);
}

TEST(FindKeras, NamesOfTensorFlow) {
  const auto found =
      find_layers(std::vector<NamedShape>{{"a/query/kernel:0", {12, 3, 4}},
                                          {"a/key/kernel:0", {12, 3, 4}},
                                          {"a/value/kernel:0", {12, 3, 4}},
                                          {"a/attention_output/kernel:0", {3, 4, 12}}});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "a");
  EXPECT_EQ(found[0].tensors.at("key/kernel"), "a/key/kernel:0");
}

// ---- PyTorch, Flax, d2l ---------------------------------------------------------------------------

TEST(FindTorch, EncoderWithHints) {
  std::vector<NamedShape> tensors;
  for (const char* layer : {"layers.10.", "layers.2."}) {
    const std::string front = layer;
    append(tensors, {{front + "self_attn.in_proj_weight", {36, 12}},
                     {front + "self_attn.in_proj_bias", {36}},
                     {front + "self_attn.out_proj.weight", {12, 12}},
                     {front + "self_attn.out_proj.bias", {12}},
                     {front + "linear1.weight", {20, 12}},
                     {front + "norm1.weight", {12}}});
  }
  const auto unknown = find_layers(tensors);
  ASSERT_EQ(unknown.size(), 2U);
  EXPECT_FALSE(unknown[0].config);
  EXPECT_NE(unknown[0].missing.find("heads · key_dim = 12"), std::string::npos);
  const auto found = find_layers(tensors, {}, {.num_heads = 4});
  EXPECT_EQ(found[0].name, "layers.2.self_attn");
  EXPECT_EQ(found[1].name, "layers.10.self_attn");
  EXPECT_EQ(found[0].config.value().key_dim, 3);
  EXPECT_TRUE(found[0].config->use_bias);
  EXPECT_EQ(found[0].tensors.at("in/weight"), "layers.2.self_attn.in_proj_weight");
}

TEST(FindTorch, SeparateProjectionsAndExtraKeys) {
  const auto found = find_layers(std::vector<NamedShape>{{"q_proj_weight", {12, 12}},
                                                         {"k_proj_weight", {12, 7}},
                                                         {"v_proj_weight", {12, 5}},
                                                         {"out_proj.weight", {12, 12}},
                                                         {"bias_k", {1, 1, 12}},
                                                         {"bias_v", {1, 1, 12}}},
                                 {}, {.key_dim = 6});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "");
  const AttentionConfig& c = found[0].config.value();
  EXPECT_EQ(c.num_heads, 2);
  EXPECT_EQ(c.key_inputs(), 7);
  EXPECT_EQ(c.value_inputs(), 5);
  EXPECT_TRUE(c.add_bias_kv);
  EXPECT_FALSE(c.use_bias);
}

TEST(FindFlax, LinenAndNnx) {
  for (const char* separator : {"/", "."}) {
    const std::string s = separator;
    const auto found =
        find_layers(std::vector<NamedShape>{{"params/att" + s + "query" + s + "kernel", {12, 3, 4}},
                                            {"params/att" + s + "key" + s + "kernel", {7, 3, 4}},
                                            {"params/att" + s + "value" + s + "kernel", {9, 3, 4}},
                                            {"params/att" + s + "query_ln" + s + "scale", {4}},
                                            {"params/att" + s + "key_ln" + s + "scale", {4}},
                                            {"params/att" + s + "out" + s + "kernel", {3, 4, 5}}});
    ASSERT_EQ(found.size(), 1U);
    EXPECT_EQ(found[0].name, "params/att");
    EXPECT_EQ(found[0].layout, WeightLayout::Flax);
    const AttentionConfig& c = found[0].config.value();
    EXPECT_EQ(c.qk_norm, QkNorm::LayerNorm);
    EXPECT_EQ(c.qk_norm_epsilon, 1e-6F);
    EXPECT_EQ(c.outputs(), 5);
  }
}

TEST(FindD2l, TorchAndJax) {
  const auto torch = find_layers(linear("attention.", {"W_q", "W_k", "W_v", "W_o"}, 100, false), {},
                                 {.num_heads = 5});
  ASSERT_EQ(torch.size(), 1U);
  EXPECT_EQ(torch[0].layout, WeightLayout::D2l);
  EXPECT_EQ(torch[0].config.value().key_dim, 20);
  EXPECT_EQ(torch[0].tensors.at("query/weight"), "attention.W_q.weight");
  const auto jax = find_layers(std::vector<NamedShape>{{"params/W_q/kernel", {7, 100}},
                                                       {"params/W_k/kernel", {8, 100}},
                                                       {"params/W_v/kernel", {9, 100}},
                                                       {"params/W_o/kernel", {100, 100}}},
                               {}, {.num_heads = 5});
  ASSERT_EQ(jax.size(), 1U);
  EXPECT_EQ(jax[0].layout, WeightLayout::D2l);
  EXPECT_EQ(jax[0].config.value().query_features, 7);
  EXPECT_EQ(jax[0].config->key_inputs(), 8);
  EXPECT_EQ(jax[0].tensors.at("query/kernel"), "params/W_q/kernel");
}

// ---- Hugging Face ---------------------------------------------------------------------------------

TEST(FindHuggingFace, BertLayersAndNothingElse) {
  std::vector<NamedShape> tensors;
  for (int i = 0; i < 12; ++i) {
    const std::string front = "bert.encoder.layer." + std::to_string(i) + ".";
    append(tensors, linear(front + "attention.self.", {"query", "key", "value"}, 12));
    append(tensors, linear(front + "attention.output.", {"dense"}, 12));
    append(tensors, linear(front + "output.", {"dense"}, 12));
    append(tensors, linear(front + "intermediate.", {"dense"}, 12));
    append(tensors, {{front + "attention.output.LayerNorm.weight", {12}}});
  }
  append(tensors, linear("pooler.", {"dense"}, 12));
  const auto found = find_layers(
      tensors, {}, hints_from_config(R"({"num_attention_heads": 3, "hidden_size": 12})"));
  ASSERT_EQ(found.size(), 12U);
  EXPECT_EQ(found[2].name, "bert.encoder.layer.2.attention");
  EXPECT_EQ(found[11].name, "bert.encoder.layer.11.attention");
  for (const FoundLayer& layer : found) {
    EXPECT_EQ(layer.layout, WeightLayout::Bert);
    EXPECT_EQ(layer.config.value().num_heads, 3);
    EXPECT_TRUE(layer.config->use_bias && layer.config->has_output_bias());
  }
}

TEST(FindHuggingFace, OtherNamesOfTheSame) {
  const std::vector<std::vector<std::string>> dialects = {
      {"q_lin", "k_lin", "v_lin", "out_lin"},
      {"query", "key", "value", "dense"},
      {"attention.query", "attention.key", "attention.value", "output.dense"},
      {"q_proj", "k_proj", "v_proj", "out_proj"}};
  for (const auto& names : dialects) {
    const auto found = find_layers(linear("layer.0.attention.", names, 12), {}, {.num_heads = 3});
    ASSERT_EQ(found.size(), 1U) << names[0];
    EXPECT_EQ(found[0].name, "layer.0.attention");
    EXPECT_EQ(found[0].layout, WeightLayout::Bert);
    EXPECT_TRUE(found[0].config) << found[0].missing;
  }
}

TEST(FindHuggingFace, WhispersKeysHaveNoBias) {
  std::vector<NamedShape> tensors = linear("a.", {"q_proj", "v_proj", "out_proj"}, 4);
  tensors.push_back({"a.k_proj.weight", {4, 4}});
  const auto found = find_layers(tensors, {}, {.num_heads = 2});
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found[0].config) << found[0].missing;
  const LayerParts layer = read_layer(found[0], [&](const std::string& name) {
    return name.ends_with("bias") ? Tensor::full({4}, 1.0F) : Tensor::full({4, 4}, 1.0F);
  });
  for (const float x : layer.weights.key_bias.values()) EXPECT_EQ(x, 0.0F);
  for (const float x : layer.weights.query_bias.values()) EXPECT_EQ(x, 1.0F);
}

TEST(FindHuggingFace, LlamaWithGroupsBiasesAndNorms) {
  const std::vector<NamedShape> llama = {{"model.layers.0.self_attn.q_proj.weight", {24, 12}},
                                         {"model.layers.0.self_attn.k_proj.weight", {8, 12}},
                                         {"model.layers.0.self_attn.v_proj.weight", {8, 12}},
                                         {"model.layers.0.self_attn.o_proj.weight", {12, 24}}};
  EXPECT_FALSE(find_layers(llama).at(0).config);
  const auto plain = find_layers(llama, {}, {.num_heads = 6});
  EXPECT_EQ(plain.at(0).layout, WeightLayout::Llama);
  EXPECT_EQ(plain[0].config.value().kv_heads(), 2);
  EXPECT_FALSE(plain[0].config->use_bias);
  EXPECT_EQ(plain[0].notes.size(), 1U) << "rotary positions";

  auto qwen2 = llama;
  append(qwen2, {{"model.layers.0.self_attn.q_proj.bias", {24}},
                 {"model.layers.0.self_attn.k_proj.bias", {8}},
                 {"model.layers.0.self_attn.v_proj.bias", {8}}});
  const auto biased = find_layers(qwen2, {}, {.num_kv_heads = 2});
  EXPECT_TRUE(biased.at(0).config.value().use_bias);
  EXPECT_FALSE(biased[0].config->has_output_bias());

  auto qwen3 = llama;
  append(qwen3, {{"model.layers.0.self_attn.q_norm.weight", {4}},
                 {"model.layers.0.self_attn.k_norm.weight", {4}}});
  const auto normed = find_layers(qwen3);
  ASSERT_TRUE(normed.at(0).config) << "a head's norm tells its size: " << normed[0].missing;
  EXPECT_EQ(normed[0].config->num_heads, 6);
  EXPECT_EQ(normed[0].config->qk_norm, QkNorm::RmsNorm);
  EXPECT_EQ(find_layers(qwen3, {}, {.qk_norm_epsilon = 1e-5F}).at(0).config->qk_norm_epsilon,
            1e-5F);
  EXPECT_FALSE(find_layers(qwen3, {}, {.norms_add_one = true}).at(0).config) << "Gemma 3";
}

// OLMo 2 normalises all heads together, which is another function.
TEST(FindHuggingFace, NormsOverAllHeadsAreRefused) {
  std::vector<NamedShape> tensors =
      linear("a.", {"q_proj", "k_proj", "v_proj", "o_proj"}, 12, false);
  append(tensors, {{"a.q_norm.weight", {12}}, {"a.k_norm.weight", {12}}});
  const auto unknown = find_layers(tensors);
  EXPECT_FALSE(unknown.at(0).config) << "might be one head of 12, might be three";
  const auto three = find_layers(tensors, {}, {.num_heads = 3});
  EXPECT_FALSE(three.at(0).config);
  EXPECT_NE(three[0].missing.find("q_norm.weight"), std::string::npos) << three[0].missing;
  EXPECT_TRUE(find_layers(tensors, {}, {.num_heads = 1}).at(0).config);
}

TEST(FindHuggingFace, Gpt2) {
  const auto found = find_layers(std::vector<NamedShape>{{"h.0.attn.c_attn.weight", {12, 36}},
                                                         {"h.0.attn.c_attn.bias", {36}},
                                                         {"h.0.attn.c_proj.weight", {12, 12}},
                                                         {"h.0.attn.c_proj.bias", {12}},
                                                         {"h.0.mlp.c_proj.weight", {48, 12}}},
                                 {}, {.num_heads = 3});
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].layout, WeightLayout::Gpt2);
  EXPECT_EQ(found[0].config.value().query_features, 12);
}

// ---- Hints ----------------------------------------------------------------------------------------

TEST(Hints, FromConfigJson) {
  const LayerHints llama = hints_from_config(
      R"({"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-05})");
  EXPECT_EQ(llama.num_heads, 32);
  EXPECT_EQ(llama.num_kv_heads, 8);
  EXPECT_EQ(llama.key_dim, 128);
  EXPECT_EQ(llama.qk_norm_epsilon, 1e-5F);
  EXPECT_EQ(hints_from_config(R"({"n_head": 12})").num_heads, 12);
  const LayerHints gemma = hints_from_config(
      R"({"model_type": "gemma2", "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0})");
  EXPECT_EQ(gemma.scale, 0.0625F);
  EXPECT_EQ(gemma.softcap, 50.0F);
  EXPECT_TRUE(gemma.norms_add_one);
}

TEST(Hints, PartsThatDisagreeTellNothing) {
  EXPECT_EQ(
      hints_from_config(
          R"({"text_config": {"num_attention_heads": 8}, "vision_config": {"num_attention_heads": 12}})")
          .num_heads,
      std::nullopt);
  EXPECT_EQ(
      hints_from_config(
          R"({"text_config": {"num_attention_heads": 8}, "vision_config": {"num_attention_heads": 8}})")
          .num_heads,
      8);
  EXPECT_EQ(hints_from_config(R"({"encoder_attention_heads": 6, "decoder_attention_heads": 8})")
                .num_heads,
            std::nullopt);
}

TEST(Hints, StrangeConfigs) {
  for (const char* text : {"", "[]", "3", "{", "\xFF", "null", "\"text\""}) {
    EXPECT_TRUE(
        test_support::refuses([&] { hints_from_config(text); }, "hints_from_config", "config_json"))
        << text;
  }
  for (const char* text :
       {"{}", R"({"num_attention_heads": "8"})", R"({"num_attention_heads": -8})",
        R"({"num_attention_heads": 1.5})", R"({"num_attention_heads": 1e300})",
        R"({"num_attention_heads": null})", R"({"x_config": [1]})"}) {
    EXPECT_EQ(hints_from_config(text).num_heads, std::nullopt) << text;
  }
}

TEST(Hints, ThatDoNotFit) {
  const auto tensors = linear("", {"W_q", "W_k", "W_v", "W_o"}, 12);
  for (const LayerHints& hints :
       {LayerHints{.num_heads = 5}, LayerHints{.num_heads = 0}, LayerHints{.num_heads = -3},
        LayerHints{.key_dim = 7}, LayerHints{.num_kv_heads = 24},
        LayerHints{.num_heads = 3, .key_dim = 3}, LayerHints{.num_heads = 3, .num_kv_heads = 1}}) {
    const auto found = find_layers(tensors, {}, hints);
    ASSERT_EQ(found.size(), 1U);
    EXPECT_FALSE(found[0].config);
    EXPECT_NE(found[0].missing.find("do not fit"), std::string::npos) << found[0].missing;
  }
}

TEST(ReadLayer, NeedsAConfiguration) {
  const auto found = find_layers(linear("", {"W_q", "W_k", "W_v", "W_o"}, 12));
  EXPECT_TRUE(
      test_support::refuses([&] { read_layer(found.at(0), {}); }, "read_layer", "layer", "heads"));
}

TEST(ReadLayer, TensorsThatAreNotWhatTheyWere) {
  const auto found =
      find_layers(linear("", {"W_q", "W_k", "W_v", "W_o"}, 12), {}, {.num_heads = 3});
  const auto wrong = [](const std::string& name) {
    return name == "W_v.weight"     ? Tensor({12, 11})
           : name.ends_with("bias") ? Tensor({12})
                                    : Tensor({12, 12});
  };
  EXPECT_TRUE(test_support::refuses([&] { read_layer(found.at(0), wrong); }, "read_layer",
                                    "W_v.weight", "(12, 11)"));
}

}  // namespace
}  // namespace headwise::test_layouts
