#include "io/quoted.h"

#include <array>
#include <cstddef>
#include <cstdio>

#include "io/utf8.h"

namespace headwise::io {
namespace {

// U+0000 … U+001F, U+007F and U+0080 … U+009F move cursors, ring bells and rename windows.
bool is_control(std::string_view character) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  return character.size() == 1 && (byte(0) < 0x20 || byte(0) == 0x7F);
}

}  // namespace

std::string quoted(std::string_view text) {
  constexpr std::size_t kMost = 100;
  std::string line = "'";
  while (!text.empty() && line.size() < kMost) {
    std::size_t length = utf8_length(text);
    if (length == 0 || is_control(text.substr(0, length))) {
      std::array<char, 8> escaped{};
      (void)std::snprintf(escaped.data(), escaped.size(), "\\x%02x",
                          static_cast<unsigned>(static_cast<unsigned char>(text[0])));
      line += escaped.data();
      length = 1;
    } else {
      line += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return line + (text.empty() ? "'" : "…'");
}

}  // namespace headwise::io
