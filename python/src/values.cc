#include "values.h"

#include <charconv>

namespace headwise::python {

std::string text_of(float number) {
  char digits[32];
  char* const end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return {digits, end};
}

std::string text_of(const std::vector<std::int64_t>& numbers) {
  constexpr std::size_t kMost = 8;
  constexpr std::size_t kFirst = 3;
  std::string text;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool left_out = numbers.size() > kMost && i >= kFirst && i + 1 < numbers.size();
    if (left_out && i > kFirst) continue;
    text += (i == 0 ? "" : ", ") + (left_out ? "…" : std::to_string(numbers[i]));
  }
  return "[" + text + "]";
}

}  // namespace headwise::python
