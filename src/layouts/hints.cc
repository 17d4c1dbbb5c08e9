#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "headwise/layouts.h"
#include "layouts/model_config.h"

namespace headwise {

namespace {

using Json = nlohmann::json;
using layouts::ModelConfig;

constexpr ModelConfig::Names kHeads = {
    "num_attention_heads",    "n_head", "n_heads", "num_heads", "encoder_attention_heads",
    "decoder_attention_heads"};

// ---- What a configuration of Headwise holds -------------------------------------------------------

void set_sizes(const ModelConfig& model, LayerHints& hints) {
  hints.num_heads = model.size(kHeads);
  hints.heads_differ = model.differs(kHeads);
  hints.num_kv_heads = model.size({"num_key_value_heads"});
  hints.key_dim = model.size({"head_dim"});
}

void set_scores(const ModelConfig& model, LayerHints& hints) {
  // Gemma 2 and 3: scores are divided by the root of this number.
  if (const auto scalar = model.number({"query_pre_attn_scalar"}); scalar && *scalar > 0.0) {
    hints.scale = static_cast<float>(1.0 / std::sqrt(*scalar));
  }
  if (const auto scale = model.number({"attention_multiplier"})) {  // Granite
    hints.scale = static_cast<float>(*scale);
  }
  // GPT-2 and its kin may leave the scale out; GPT-Neo always does.
  if (model.is_false("scale_attn_weights") || model.is_text("model_type", "gpt_neo")) {
    hints.scale = 1.0F;
  }
  hints.scale_by_place = model.is_true("scale_attn_by_inverse_layer_idx");
  if (const auto softcap = model.number({"attn_logit_softcapping"})) {
    hints.softcap = static_cast<float>(*softcap);
  }
  if (const auto epsilon = model.number({"rms_norm_eps"})) {
    hints.qk_norm_epsilon = static_cast<float>(*epsilon);
  }
  hints.norms_add_one = model.type_begins_with("gemma");
  hints.normed = model.is_true("use_qk_norm") || model.is_true("qk_layernorm");
  if (const auto bound = model.number({"clip_qkv"})) {  // OLMo
    hints.refusal = "its model cuts queries, keys and values off at ±" + base::to_string(*bound) +
                    " (clip_qkv), which no configuration has";
  }
}

// ---- What it does not hold ------------------------------------------------------------------------

bool is_rotary(const ModelConfig& model) {
  if (model.has("position_embedding_type"))
    return model.is_text("position_embedding_type", "rotary");
  return model.has("rotary_dim") || model.has("rope_theta") || model.has("rope_parameters") ||
         model.is_text("model_type", "roformer");
}

bool is_causal(const ModelConfig& model) {
  constexpr std::array kTypes = {
      "biogpt",  "clip_text_model", "codegen",  "cohere",     "gemma",   "gemma2", "gemma3_text",
      "gpt2",    "gpt_neo",         "gpt_oss",  "gptj",       "granite", "llama",  "llama4_text",
      "mistral", "mixtral",         "olmo",     "olmo2",      "opt",     "phi",    "qwen2",
      "qwen3",   "smollm3",         "stablelm", "starcoder2", "xglm"};
  return std::any_of(kTypes.begin(), kTypes.end(),
                     [&](const char* type) { return model.is_text("model_type", type); });
}

std::string mask_note(const std::string& mask) {
  return mask + ", a mask that is outside the weights";
}

// Windows of all layers, or of those that a list of kinds names.
void set_windows(const ModelConfig& model, LayerHints& hints) {
  const auto note = [&](const char* name) {
    const auto size = model.size({name});
    return size ? mask_note(name + (" " + std::to_string(*size))) : std::string();
  };
  const std::string window = model.is_false("use_sliding_window")     ? ""
                             : model.is_text("model_type", "gpt_neo") ? note("window_size")
                                                                      : note("sliding_window");
  const std::string chunk = note("attention_chunk_size");
  std::vector<std::string> kinds = model.list("layer_types");
  if (kinds.empty()) kinds = model.list("attention_layers");  // GPT-Neo
  for (const std::string& kind : kinds) {
    const bool local = kind == "sliding_attention" || kind == "local";
    hints.place_notes.push_back(local ? window : kind == "chunked_attention" ? chunk : "");
  }
  if (kinds.empty() && !window.empty()) hints.notes.push_back(window);
  if (kinds.empty() && !chunk.empty()) hints.notes.push_back(chunk);
}

void set_notes(const ModelConfig& model, LayerHints& hints) {
  hints.rotary = is_rotary(model);
  hints.causal = is_causal(model);
  set_windows(model, hints);
  if (model.has("attention_window")) hints.notes.push_back(mask_note("attention_window"));
  if (model.is_text("attention_type", "block_sparse")) {  // BigBird
    hints.notes.push_back(mask_note("block-sparse attention"));
  }
  if (model.is_true("has_relative_attention_bias") || model.is_true("has_spatial_attention_bias")) {
    hints.notes.emplace_back(
        "biases of relative positions, which its model has, are outside the weights");
  }
  if (model.is_text("position_embedding_type", "alibi")) {
    hints.notes.emplace_back("ALiBi's biases, which its model has, are outside the weights");
  }
}

LayerHints hints_of(const Json& config) {
  const ModelConfig model(config);
  LayerHints hints;
  set_sizes(model, hints);
  set_scores(model, hints);
  set_notes(model, hints);
  return hints;
}

// ---- Parts of a model -------------------------------------------------------------------------------

// What stands for the whole model counts for a part unless that says something else.
Json part_of(const Json& config, const Json& own) {
  Json part = config;
  for (const auto& [name, value] : config.items()) {
    if (value.is_object() && name.ends_with("_config")) part.erase(name);
  }
  part.update(own);
  return part;
}

void add_towers(const Json& config, LayerHints& hints) {
  const std::pair<const char*, std::vector<std::string>> kTowers[] = {
      {"text_config", {"text*", "language*"}},
      {"vision_config", {"vision*", "visual*"}},
      {"audio_config", {"audio*"}}};
  for (const auto& [key, names] : kTowers) {
    const auto own = config.find(key);
    if (own == config.end() || !own->is_object()) continue;
    hints.towers.push_back(hints_of(part_of(config, *own)));
    hints.towers.back().names = names;
  }
}

// BART and its kin: two stacks of layers under one set of names.
void add_encoder_and_decoder(const Json& config, LayerHints& hints) {
  if (!config.contains("encoder_attention_heads") || !config.contains("decoder_attention_heads")) {
    return;
  }
  for (const char* name : {"encoder", "decoder"}) {
    const Json heads = config.at(name + std::string("_attention_heads"));
    LayerHints own = hints_of(part_of(config, {{"num_attention_heads", heads},
                                               {"encoder_attention_heads", heads},
                                               {"decoder_attention_heads", heads}}));
    own.causal = std::string(name) == "decoder";
    own.names = {name};
    hints.towers.push_back(std::move(own));
  }
}

}  // namespace

LayerHints hints_from_config(std::string_view config_json) {
  const Json config = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    base::fail("hints_from_config", "config_json", "a JSON object", "something else");
  }
  LayerHints hints = hints_of(config);
  add_towers(config, hints);
  add_encoder_and_decoder(config, hints);
  return hints;
}

}  // namespace headwise
