#include "layouts/config_json.h"

#include <cstdint>
#include <limits>
#include <optional>

#include <nlohmann/json.hpp>

#include "base/check.h"

namespace headwise::layouts {

namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFunction = "config_from_json";

struct NormName {
  QkNorm norm;
  const char* name;
};
constexpr NormName kNorms[] = {
    {QkNorm::None, "none"}, {QkNorm::RmsNorm, "rms_norm"}, {QkNorm::LayerNorm, "layer_norm"}};

[[noreturn]] void refuse(const std::string& key, const char* expected, const Json& value) {
  base::fail(kFunction, key, expected,
             value.dump(-1, ' ', false, Json::error_handler_t::replace).substr(0, 40));
}

// The fields, once: what writes them and what reads them both walk this list.
template <typename Config, typename Visit>
void visit_fields(Config& config, const Visit& visit) {
  visit("num_heads", config.num_heads);
  visit("num_kv_heads", config.num_kv_heads);
  visit("key_dim", config.key_dim);
  visit("value_dim", config.value_dim);
  visit("query_features", config.query_features);
  visit("key_features", config.key_features);
  visit("value_features", config.value_features);
  visit("output_features", config.output_features);
  visit("use_bias", config.use_bias);
  visit("use_output_bias", config.use_output_bias);
  visit("dropout", config.dropout);
  visit("scale", config.scale);
  visit("softcap", config.softcap);
  visit("use_gate", config.use_gate);
  visit("qk_norm", config.qk_norm);
  visit("qk_norm_epsilon", config.qk_norm_epsilon);
  visit("add_bias_kv", config.add_bias_kv);
  visit("add_zero_attn", config.add_zero_attn);
  visit("seed", config.seed);
}

// ---- Writing --------------------------------------------------------------------------------------

template <typename T>
Json json_of(const T& value) {
  return value;
}
// A float written as the double that it is comes back as the same float.
Json json_of(float value) { return static_cast<double>(value); }
Json json_of(QkNorm norm) {
  for (const NormName& entry : kNorms) {
    if (entry.norm == norm) return entry.name;
  }
  return nullptr;
}
template <typename T>
Json json_of(const std::optional<T>& value) {
  return json_of(*value);
}

template <typename T>
bool is_given(const T&) {
  return true;
}
template <typename T>
bool is_given(const std::optional<T>& value) {
  return value.has_value();
}

// ---- Reading --------------------------------------------------------------------------------------

void read(const std::string& key, const Json& json, std::int64_t& value) {
  // Beyond int64 nlohmann gives an unsigned number, which would wrap.
  if (!json.is_number_integer() ||
      (json.is_number_unsigned() &&
       json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())) {
    refuse(key, "a whole number", json);
  }
  value = json.get<std::int64_t>();
}
void read(const std::string& key, const Json& json, std::uint64_t& value) {
  if (!json.is_number_unsigned()) refuse(key, "a whole number ≥ 0", json);
  value = json.get<std::uint64_t>();
}
void read(const std::string& key, const Json& json, float& value) {
  if (!json.is_number()) refuse(key, "a number", json);
  value = static_cast<float>(json.get<double>());
}
void read(const std::string& key, const Json& json, bool& value) {
  if (!json.is_boolean()) refuse(key, "true or false", json);
  value = json.get<bool>();
}
void read(const std::string& key, const Json& json, QkNorm& value) {
  for (const NormName& entry : kNorms) {
    if (json == entry.name) {
      value = entry.norm;
      return;
    }
  }
  refuse(key, "none, rms_norm or layer_norm", json);
}
template <typename T>
void read(const std::string& key, const Json& json, std::optional<T>& value) {
  read(key, json, value.emplace());
}

}  // namespace

std::string metadata_key(const std::string& layer_name) { return "headwise:" + layer_name; }

std::string to_json(const AttentionConfig& config) {
  Json json = Json::object();
  visit_fields(config, [&](const char* name, const auto& value) {
    if (is_given(value)) json[name] = json_of(value);
  });
  return json.dump();
}

AttentionConfig config_from_json(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) base::fail(kFunction, "text", "a JSON object", "something else");
  AttentionConfig config;
  std::size_t known = 0;
  visit_fields(config, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    ++known;
    read(name, *found, value);
  });
  if (known != json.size()) {
    base::fail(kFunction, "text", "options of a layer", "an option that is not known");
  }
  validate(config);
  return config;
}

}  // namespace headwise::layouts
