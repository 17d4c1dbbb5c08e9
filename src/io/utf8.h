// Which bytes are text.
#pragma once

#include <cstddef>
#include <string_view>

namespace headwise::io {

// Bytes of the UTF-8 character that `text` begins with; 0 if it begins with none.
std::size_t utf8_length(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;

}  // namespace headwise::io
