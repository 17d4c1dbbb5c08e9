// Names in the order in which people count: layer.2 before layer.10.
#pragma once

#include <string_view>

namespace headwise::layouts {

bool natural_less(std::string_view a, std::string_view b);

}  // namespace headwise::layouts
