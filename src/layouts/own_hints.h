// What one layer's name says of the hints that its model gives.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

#include "headwise/layouts.h"

namespace headwise::layouts {

// Those of the tower that the layer is in, or of the whole model; never null.
const LayerHints* own_hints(std::string_view layer_name, const LayerHints& hints);

// "model.layers.3.self_attn" → 3: the last part of the name that is a number.
std::optional<std::size_t> place_of(std::string_view layer_name);

// Whether it looks at another sequence than that of its queries, as its name tells.
bool is_cross_attention(std::string_view layer_name);

}  // namespace headwise::layouts
