// What a Keras model's own description says of its attention layers, beyond their weights.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace headwise::layouts {

// Layer name → its sliding_window, of the layers that have one, from a .keras file's config.json.
// Nothing for a text that is no such document.
std::map<std::string, std::int64_t> sliding_windows(std::string_view config_json);

}  // namespace headwise::layouts
