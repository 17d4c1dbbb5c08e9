#include "layouts/keras_config.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <vector>

#include <nlohmann/json.hpp>

namespace headwise::layouts {

namespace {

using Json = nlohmann::ordered_json;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Names that every backend accepts: Keras allows no "/", PyTorch no ".", TensorFlow little else.
class Names {
 public:
  std::string accepted(const std::string& name) {
    std::string text = name.empty() ? "attention" : name;
    for (char& c : text) c = is_letter_or_digit(c) || c == '-' ? c : '_';
    if (!is_letter_or_digit(text.front())) text = "layer" + text;
    std::string unique = text;
    std::size_t& count = counts_[text];  // goes on where it stopped: many may have one name
    while (!used_.insert(unique).second) unique = text + "_" + std::to_string(++count);
    return unique;
  }

 private:
  std::set<std::string> used_;
  std::map<std::string, std::size_t> counts_;
};

struct Input {
  std::string name;
  std::int64_t features;
};

Json shape_of(std::int64_t features) { return {nullptr, nullptr, features}; }

Json input_layer(const Input& input) {
  return {{"module", "keras.layers"},
          {"class_name", "InputLayer"},
          {"config",
           {{"batch_shape", shape_of(input.features)}, {"dtype", "float32"}, {"name", input.name}}},
          {"registered_name", nullptr},
          {"name", input.name},
          {"inbound_nodes", Json::array()}};
}

Json tensor_of(const Input& input) {
  return {{"class_name", "__keras_tensor__"},
          {"config",
           {{"shape", shape_of(input.features)},
            {"dtype", "float32"},
            {"keras_history", {input.name, 0, 0}}}}};
}

// The shortest number that is this float: 0.1, not the 0.10000000149011612 that it is.
double shortest(float value) {
  char text[32];
  const char* end = std::to_chars(std::begin(text), std::end(text), value).ptr;
  double number = 0.0;
  std::from_chars(std::begin(text), end, number);
  return number;
}

Json multi_head_attention(const AttentionConfig& config) {
  Json output_shape = nullptr;
  if (config.outputs() != config.query_features) output_shape = config.outputs();
  return {{"num_heads", config.num_heads},    {"key_dim", config.key_dim},
          {"value_dim", config.value_size()}, {"dropout", shortest(config.dropout)},
          {"use_bias", config.use_bias},      {"use_gate", config.use_gate},
          {"output_shape", output_shape}};
}

Json group_query_attention(const AttentionConfig& config) {
  return {{"head_dim", config.key_dim},
          {"num_query_heads", config.num_heads},
          {"num_key_value_heads", config.kv_heads()},
          {"dropout", shortest(config.dropout)},
          {"use_bias", config.use_bias},
          {"use_gate", config.use_gate}};
}

Json attention_layer(const std::string& name, const AttentionConfig& config,
                     const std::vector<Input>& inputs) {
  const bool grouped = config.kv_heads() != config.num_heads;
  Json options = grouped ? group_query_attention(config) : multi_head_attention(config);
  options["name"] = name;
  options["dtype"] = "float32";
  Json arguments = Json::array();
  for (const Input& input : inputs) arguments.push_back(tensor_of(input));
  return {{"module", "keras.layers"},
          {"class_name", grouped ? "GroupQueryAttention" : "MultiHeadAttention"},
          {"config", options},
          {"registered_name", nullptr},
          {"build_config",
           {{"shapes_dict",
             {{"query_shape", shape_of(config.query_features)},
              {"value_shape", shape_of(config.value_inputs())},
              {"key_shape", shape_of(config.key_inputs())}}}}},
          {"name", name},
          {"inbound_nodes", Json::array({{{"args", arguments}, {"kwargs", Json::object()}}})}};
}

}  // namespace

std::string keras_config_json(std::span<const NamedLayer> layers) {
  Names names;
  Json all = Json::array();
  Json inputs = Json::array();
  Json outputs = Json::array();
  for (const auto& [given_name, parts] : layers) {
    const AttentionConfig& config = parts.config;
    const std::string name = names.accepted(given_name);
    const std::string front = layers.size() == 1 ? "" : name + "_";
    const std::vector<Input> own = {{names.accepted(front + "query"), config.query_features},
                                    {names.accepted(front + "value"), config.value_inputs()},
                                    {names.accepted(front + "key"), config.key_inputs()}};
    for (const Input& input : own) {
      all.push_back(input_layer(input));
      inputs.push_back({input.name, 0, 0});
    }
    all.push_back(attention_layer(name, config, own));
    outputs.push_back({name, 0, 0});
  }
  const Json model = {{"module", "keras.src.models.functional"},
                      {"class_name", "Functional"},
                      {"config",
                       {{"name", "headwise"},
                        {"trainable", true},
                        {"layers", all},
                        {"input_layers", inputs},
                        {"output_layers", outputs}}},
                      {"registered_name", "Functional"}};
  return model.dump();
}

std::string keras_metadata_json() {
  const Json metadata = {{"keras_version", "3.15.1"}, {"written_by", "headwise"}};
  return metadata.dump();
}

}  // namespace headwise::layouts
