#include "terminal/printable.h"

#include <cstddef>

namespace headwise::terminal {

namespace {

unsigned char byte_at(std::string_view text, std::size_t place) {
  return place < text.size() ? static_cast<unsigned char>(text[place]) : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned char byte = byte_at(text, i);
    const unsigned char next = byte_at(text, i + 1);
    const bool two_bytes = byte == 0xC2 && next >= 0x80 && next < 0xA0;  // U+0080 … U+009F
    const bool control = byte < 0x20 || byte == 0x7F || two_bytes;
    shown += control ? '?' : text[i];
    if (two_bytes) ++i;
  }
  return shown;
}

}  // namespace headwise::terminal
