#include "values.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

#include "usage_error.h"

namespace headwise::cli {

namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::optional<std::int64_t> integer(const std::string& text) {
  std::int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::vector<std::int64_t> integers(const std::string& option, const std::string& text) {
  std::vector<std::int64_t> values;
  for (const std::string& part : split(text)) {
    const auto value = integer(part);
    if (!value) {
      std::string problem = option + ": expected whole numbers with commas between them, got '";
      throw UsageError(problem.append(text).append("'"));
    }
    values.push_back(*value);
  }
  return values;
}

Window window_of(const std::string& option, const std::string& text) {
  const std::vector<std::string> sides = split(text);
  const auto side = [&](const std::string& part) -> std::optional<std::int64_t> {
    if (part.empty() || part == "inf") return std::nullopt;
    const auto value = integer(part);
    if (!value || *value < 0) {
      throw UsageError(option + ": expected LEFT,RIGHT (numbers of keys, or inf), got '" + text +
                       "'");
    }
    return value;
  };
  if (sides.size() != 2) {
    throw UsageError(option + ": expected LEFT,RIGHT, for example 64,0, got '" + text + "'");
  }
  return {side(sides[0]), side(sides[1])};
}

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace headwise::cli
