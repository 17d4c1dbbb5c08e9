#include "layouts/keras_options.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <nlohmann/json.hpp>

namespace headwise::layouts {

namespace {

using Json = nlohmann::json;

// An entry of a kind; null if there is none.
const Json* entry(const Json& object, const char* key, bool (Json::*is_kind)() const noexcept) {
  const auto found = object.find(key);
  return found != object.end() && ((*found).*is_kind)() ? &*found : nullptr;
}

// What a layer was told when it was made.
void read_config(const Json& config, KerasOptions& options) {
  if (const Json* window = entry(config, "sliding_window", &Json::is_number_integer)) {
    options.sliding_window = window->get<std::int64_t>();
  }
  if (const Json* dropout = entry(config, "dropout", &Json::is_number)) {
    const auto rate = dropout->get<float>();
    if (rate > 0.0F && rate < 1.0F) options.dropout = rate;
  }
  if (const Json* axes = entry(config, "attention_axes", &Json::is_array)) {
    constexpr std::size_t kMost = 8;  // more than a tensor has
    const bool some = axes->size() <= kMost &&
                      std::all_of(axes->begin(), axes->end(),
                                  [](const Json& axis) { return axis.is_number_integer(); });
    options.attention_axes = some ? axes->dump() : "[…]";
  }
}

// What it saw when it was called first.
void read_build(const Json& build_config, KerasOptions& options) {
  const Json* shapes = entry(build_config, "shapes_dict", &Json::is_object);
  const Json* query = shapes == nullptr ? nullptr : entry(*shapes, "query_shape", &Json::is_array);
  if (query != nullptr) options.input_axes = query->size();
}

}  // namespace

bool KerasOptions::attends_tokens() const {
  constexpr std::size_t kPlain = 3;
  return (attention_axes.empty() || attention_axes == "[1]") &&
         (input_axes == 0 || input_axes == kPlain);
}

std::map<std::string, KerasOptions> keras_options(std::string_view config_json) {
  std::map<std::string, KerasOptions> layers;
  const Json document = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  // Models hold layers and models. A stack of our own: a document may be as deep as it is long.
  std::vector<const Json*> open = {&document};
  while (!open.empty()) {
    const Json& node = *open.back();
    open.pop_back();
    if (!node.is_structured()) continue;
    const Json* config = node.is_object() ? entry(node, "config", &Json::is_object) : nullptr;
    const Json* name = config == nullptr ? nullptr : entry(*config, "name", &Json::is_string);
    if (name != nullptr) {
      KerasOptions& options = layers[name->get<std::string>()];
      read_config(*config, options);
      if (const Json* build = entry(node, "build_config", &Json::is_object)) {
        read_build(*build, options);
      }
    }
    for (const Json& child : node) open.push_back(&child);
  }
  return layers;
}

}  // namespace headwise::layouts
