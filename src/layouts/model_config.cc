#include "layouts/model_config.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace headwise::layouts {

namespace {

using Json = nlohmann::json;

const Json* value_of(const Json& part, const char* name) {
  const auto found = part.find(name);
  return found == part.end() || found->is_null() ? nullptr : &*found;
}

std::vector<double> numbers(const std::vector<const Json*>& parts, ModelConfig::Names names) {
  std::vector<double> found;
  for (const Json* part : parts) {
    for (const char* name : names) {
      const Json* value = value_of(*part, name);
      if (value != nullptr && value->is_number()) found.push_back(value->get<double>());
    }
  }
  return found;
}

bool all_the_same(const std::vector<double>& numbers) {
  return std::adjacent_find(numbers.begin(), numbers.end(), std::not_equal_to<>()) == numbers.end();
}

template <typename T>
bool somebody_says(const std::vector<const Json*>& parts, const char* name, const T& value) {
  return std::any_of(parts.begin(), parts.end(), [&](const Json* part) {
    const Json* found = value_of(*part, name);
    return found != nullptr && *found == Json(value);
  });
}

}  // namespace

ModelConfig::ModelConfig(const Json& config) : parts_{&config} {
  for (const auto& [name, value] : config.items()) {
    if (value.is_object() && name.ends_with("_config")) parts_.push_back(&value);
  }
}

std::optional<double> ModelConfig::number(Names names) const {
  const std::vector<double> found = numbers(parts_, names);
  return found.empty() || !all_the_same(found) ? std::nullopt : std::optional(found.front());
}

std::optional<std::int64_t> ModelConfig::size(Names names) const {
  const auto value = number(names);
  constexpr double kLargest = 1e9;  // far beyond any layer, and a whole number in a double
  if (!value || !(*value >= 1.0 && *value <= kLargest) || *value != std::floor(*value)) return {};
  return static_cast<std::int64_t>(*value);
}

bool ModelConfig::differs(Names names) const { return !all_the_same(numbers(parts_, names)); }

bool ModelConfig::has(const char* name) const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [&](const Json* part) { return value_of(*part, name) != nullptr; });
}

bool ModelConfig::is_true(const char* name) const { return somebody_says(parts_, name, true); }

bool ModelConfig::is_false(const char* name) const { return somebody_says(parts_, name, false); }

bool ModelConfig::is_text(const char* name, std::string_view value) const {
  return somebody_says(parts_, name, value);
}

std::vector<std::string> ModelConfig::list(const char* name) const {
  for (const Json* part : parts_) {
    const Json* found = value_of(*part, name);
    if (found == nullptr || !found->is_array()) continue;
    std::vector<std::string> texts;
    for (const Json& entry : *found) {
      texts.push_back(entry.is_string()           ? entry.get<std::string>()
                      : entry.is_number_integer() ? entry.dump()
                                                  : "");
    }
    return texts;
  }
  return {};
}

bool ModelConfig::type_begins_with(std::string_view family) const {
  return std::any_of(parts_.begin(), parts_.end(), [&](const Json* part) {
    const Json* type = value_of(*part, "model_type");
    return type != nullptr && type->is_string() &&
           type->get_ref<const std::string&>().starts_with(family);
  });
}

}  // namespace headwise::layouts
