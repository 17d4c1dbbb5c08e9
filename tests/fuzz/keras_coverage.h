// What libFuzzer cannot see by itself: the reader of HDF5 runs in a process apart, whose counters end
// with it. So every reason for which a file is refused counts as a place that was reached.
#pragma once

#include <cctype>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace headwise::fuzz {

inline constexpr std::size_t kReasons = 4096;
__attribute__((section("__libfuzzer_extra_counters"))) inline std::uint8_t reasons[kReasons];

// Numbers and names, in quotes, are of one input; the other words are the reason.
inline void count_reason(std::string_view message) {
  std::string words;
  bool is_quoted = false;
  for (const char c : message) {
    if (c == '\'') is_quoted = !is_quoted;
    if (!is_quoted && std::isdigit(static_cast<unsigned char>(c)) == 0) words += c;
  }
  ++reasons[std::hash<std::string>{}(words) % kReasons];
}

}  // namespace headwise::fuzz
