#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "base/check.h"
#include "headwise/layouts.h"

namespace headwise {

namespace {

using Json = nlohmann::json;

// What all parts of a model say under one of these names; nullopt if nobody says anything, or two
// say different things: the vision tower of a model has heads of its own.
class Answers {
 public:
  explicit Answers(const Json& config) : parts_{&config} {
    for (const auto& [name, value] : config.items()) {
      if (value.is_object() && name.ends_with("_config")) parts_.push_back(&value);
    }
  }

  [[nodiscard]] std::optional<double> number(std::initializer_list<const char*> names) const {
    std::optional<double> answer;
    for (const Json* part : parts_) {
      for (const char* name : names) {
        const auto found = part->find(name);
        if (found == part->end() || !found->is_number()) continue;
        const auto value = found->get<double>();
        if (answer && *answer != value) return std::nullopt;
        answer = value;
      }
    }
    return answer;
  }

  [[nodiscard]] std::optional<std::int64_t> size(std::initializer_list<const char*> names) const {
    const auto value = number(names);
    constexpr double kLargest = 1e9;  // far beyond any layer, and a whole number in a double
    if (!value || !(*value >= 1.0 && *value <= kLargest) || *value != std::floor(*value)) return {};
    return static_cast<std::int64_t>(*value);
  }

  // By the family that a model, or a part of it, belongs to.
  [[nodiscard]] bool is_a(const char* family) const {
    return std::any_of(parts_.begin(), parts_.end(), [&](const Json* part) {
      const auto type = part->find("model_type");
      return type != part->end() && type->is_string() &&
             type->get_ref<const std::string&>().starts_with(family);
    });
  }

 private:
  std::vector<const Json*> parts_;
};

}  // namespace

LayerHints hints_from_config(std::string_view config_json) {
  const Json config = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    base::fail("hints_from_config", "config_json", "a JSON object", "something else");
  }
  const Answers answers(config);
  LayerHints hints;
  hints.num_heads = answers.size({"num_attention_heads", "n_head", "n_heads", "num_heads",
                                  "encoder_attention_heads", "decoder_attention_heads"});
  hints.num_kv_heads = answers.size({"num_key_value_heads"});
  hints.key_dim = answers.size({"head_dim"});
  // Gemma 2 and 3: scores are divided by the root of this number.
  if (const auto scalar = answers.number({"query_pre_attn_scalar"}); scalar && *scalar > 0.0) {
    hints.scale = static_cast<float>(1.0 / std::sqrt(*scalar));
  }
  if (const auto scale = answers.number({"attention_multiplier"})) {  // Granite
    hints.scale = static_cast<float>(*scale);
  }
  if (const auto softcap = answers.number({"attn_logit_softcapping"})) {
    hints.softcap = static_cast<float>(*softcap);
  }
  if (const auto epsilon = answers.number({"rms_norm_eps"})) {
    hints.qk_norm_epsilon = static_cast<float>(*epsilon);
  }
  hints.norms_add_one = answers.is_a("gemma");
  return hints;
}

}  // namespace headwise
