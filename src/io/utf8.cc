#include "io/utf8.h"

#include <cstdint>

namespace headwise::io {

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return 0;
  std::uint32_t code = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80) return 0;
    code = (code << 6U) | (byte(i) & 0x3FU);
  }
  // Longer than needed, half of a UTF-16 pair, or beyond the last character there is.
  const bool is_overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return is_overlong || is_surrogate || code > 0x10FFFF ? 0 : length;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace headwise::io
