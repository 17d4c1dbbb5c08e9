#include "view/printable.h"

#include <glib.h>

#include <cstddef>

namespace headwise::view {

namespace {

constexpr gunichar kReplacement = 0xFFFD;
constexpr gunichar kOpenBox = 0x2423;  // ␣
constexpr gunichar kZeroWidthNonJoiner = 0x200C;
constexpr gunichar kZeroWidthJoiner = 0x200D;

bool is_joiner(gunichar c) { return c == kZeroWidthNonJoiner || c == kZeroWidthJoiner; }

bool is_visible(gunichar c) {
  if (is_joiner(c)) return true;
  switch (g_unichar_type(c)) {
    case G_UNICODE_CONTROL:
    case G_UNICODE_FORMAT:  // bidirectional controls, soft hyphens, tags, …
    case G_UNICODE_SURROGATE:
    case G_UNICODE_LINE_SEPARATOR:
    case G_UNICODE_PARAGRAPH_SEPARATOR:
      return false;
    default:
      return true;
  }
}

void append(std::string& text, gunichar c) {
  char bytes[6];
  text.append(bytes, static_cast<std::size_t>(g_unichar_to_utf8(c, bytes)));
}

// What stands for a character that must not reach a terminal or a page as it is.
void append_visible(std::string& text, gunichar c) {
  constexpr gunichar kAsciiEnd = 0x80;
  if (is_visible(c)) {
    append(text, c);
  } else if (c >= kAsciiEnd) {
    append(text, kReplacement);
  } else if (c == '\n' || c == '\t' || c == '\r') {
    text += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
  } else {
    constexpr const char* kDigits = "0123456789abcdef";
    text += {'\\', 'x', kDigits[c / 16], kDigits[c % 16]};
  }
}

// The next character, which advances `rest`; a byte that is not UTF-8 counts as one.
gunichar take(std::string_view& rest) {
  if (rest.front() == '\0') {  // which GLib takes for the end
    rest.remove_prefix(1);
    return 0;
  }
  const gunichar c = g_utf8_get_char_validated(rest.data(), static_cast<gssize>(rest.size()));
  constexpr auto kMalformed = static_cast<gunichar>(-1);
  constexpr auto kCutShort = static_cast<gunichar>(-2);
  if (c == kMalformed || c == kCutShort) {
    rest.remove_prefix(1);
    return kReplacement;
  }
  rest.remove_prefix(static_cast<std::size_t>(g_unichar_to_utf8(c, nullptr)));
  return c;
}

bool is_blank(std::string_view text) {
  while (!text.empty()) {
    if (g_unichar_type(take(text)) != G_UNICODE_SPACE_SEPARATOR) return false;
  }
  return true;
}

std::size_t columns_of(gunichar c) {
  if (g_unichar_iszerowidth(c) != 0) return 0;
  return g_unichar_iswide(c) != 0 ? 2 : 1;
}

}  // namespace

std::string printable(std::string_view text, std::size_t longest) {
  const bool blank = is_blank(text);
  std::string result;
  std::string_view rest = text;
  for (std::size_t count = 0; !rest.empty(); ++count) {
    if (count == longest) return result + "…";
    const gunichar c = take(rest);
    append_visible(result, blank ? kOpenBox : c);
  }
  return result;
}

std::string printable_token(std::string_view text) { return text.empty() ? "∅" : printable(text); }

std::string terminal_printable(std::string_view text, std::size_t columns) {
  std::string result;
  std::size_t used = 0;
  std::size_t before_dots = 0;  // bytes of the result that leave a column for the dots
  const std::string shown = printable(text, columns + 1);
  std::string_view rest = shown;
  while (!rest.empty()) {
    const gunichar c = take(rest);
    if (is_joiner(c)) continue;  // terminals disagree about the width of what they join
    used += columns_of(c);
    if (used > columns) return result.substr(0, before_dots) + (columns > 0 ? "…" : "");
    append(result, c);
    if (used < columns) before_dots = result.size();
  }
  return result;
}

std::size_t terminal_columns(std::string_view text) {
  std::size_t columns = 0;
  while (!text.empty()) columns += columns_of(take(text));
  return columns;
}

}  // namespace headwise::view
