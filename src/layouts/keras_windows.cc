#include "layouts/keras_windows.h"

#include <vector>

#include <nlohmann/json.hpp>

namespace headwise::layouts {

namespace {

using Json = nlohmann::json;

bool is_text(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string();
}

}  // namespace

std::map<std::string, std::int64_t> sliding_windows(std::string_view config_json) {
  std::map<std::string, std::int64_t> windows;
  const Json document = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  // Models hold layers and models. A stack of our own: a document may be as deep as it is long.
  std::vector<const Json*> open = {&document};
  while (!open.empty()) {
    const Json& node = *open.back();
    open.pop_back();
    if (node.is_object() && is_text(node, "name")) {
      const auto window = node.find("sliding_window");
      if (window != node.end() && window->is_number_integer()) {
        windows[node.at("name").get<std::string>()] = window->get<std::int64_t>();
      }
    }
    if (!node.is_structured()) continue;
    for (const Json& child : node) open.push_back(&child);
  }
  return windows;
}

}  // namespace headwise::layouts
