// Numbers as people read them, and text in columns.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace headwise::terminal {

inline std::string fixed(double value, int digits) {
  char text[512];  // the largest double has 309 digits before the point
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Three digits that count: "1.23", "12.3", "123".
inline std::string short_number(double value) {
  return fixed(value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

// Three digits that count of a number of any size: "1.2e-07", "0.00345", "0".
inline std::string significant(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

inline std::string duration(double seconds) {
  if (seconds < 1e-3) return short_number(seconds * 1e6) + " µs";
  if (seconds < 1.0) return short_number(seconds * 1e3) + " ms";
  return short_number(seconds) + " s";
}

inline std::string percent(double share) { return fixed(share * 100.0, 0) + "%"; }

// "640 KB", "12.5 MB"
inline std::string bytes_text(double bytes) {
  if (bytes < 1e3) return fixed(bytes, 0) + " B";
  if (bytes < 1e6) return short_number(bytes / 1e3) + " KB";
  if (bytes < 1e9) return short_number(bytes / 1e6) + " MB";
  return short_number(bytes / 1e9) + " GB";
}

// "1,050,624"
inline std::string with_thousands(std::int64_t number) {
  std::string text = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t place = text.size(); place > first + 3; place -= 3) text.insert(place - 3, ",");
  return text;
}

// Columns on a terminal: UTF-8 bytes that continue a character take none.
inline std::size_t columns(std::string_view text) {
  std::size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0U) != 0x80U ? 1 : 0;
  return count;
}

inline std::string left(const std::string& text, std::size_t width) {
  const std::size_t used = columns(text);
  return used >= width ? text : text + std::string(width - used, ' ');
}

inline std::string right(const std::string& text, std::size_t width) {
  const std::size_t used = columns(text);
  return used >= width ? text : std::string(width - used, ' ') + text;
}

}  // namespace headwise::terminal
