// What a Hugging Face config.json says of a model, or of the parts that it has.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace headwise::layouts {

// What all parts of a model say under one of some names; nullopt if nobody says anything, or two say
// different things: the vision tower of a model has heads of its own.
class ModelConfig {
 public:
  using Names = std::initializer_list<const char*>;

  explicit ModelConfig(const nlohmann::json& config);  // which has to live as long

  [[nodiscard]] std::optional<double> number(Names names) const;
  [[nodiscard]] std::optional<std::int64_t> size(Names names) const;  // a whole number ≥ 1
  [[nodiscard]] bool differs(Names names) const;   // two parts say different numbers
  [[nodiscard]] bool has(const char* name) const;  // somebody says something but null
  [[nodiscard]] bool is_true(const char* name) const;
  [[nodiscard]] bool is_false(const char* name) const;
  [[nodiscard]] bool is_text(const char* name, std::string_view value) const;
  // What the first part that has one lists under the name: its texts and whole numbers, as text.
  [[nodiscard]] std::vector<std::string> list(const char* name) const;

  // By the family that a model, or a part of it, belongs to.
  [[nodiscard]] bool type_begins_with(std::string_view family) const;

 private:
  std::vector<const nlohmann::json*> parts_;
};

}  // namespace headwise::layouts
