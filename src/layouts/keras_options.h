// What a Keras model's own description says of its attention layers, beyond their weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace headwise::layouts {

struct KerasOptions {
  std::optional<std::int64_t> sliding_window = {};
  std::string attention_axes = {};  // as the document has them, "[1]"; empty: not told
  std::size_t input_axes = 0;       // of the query, with the batch; 0: not told
  float dropout = 0.0F;

  // Whether it attends over the tokens of (batch, tokens, features), as all layers do that Keras is
  // not told otherwise of.
  [[nodiscard]] bool attends_tokens() const;
};

// Layer name → its options, from a .keras file's config.json. Nothing for a text that is no such
// document.
std::map<std::string, KerasOptions> keras_options(std::string_view config_json);

}  // namespace headwise::layouts
