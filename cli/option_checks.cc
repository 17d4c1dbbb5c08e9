#include "option_checks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <string_view>

#include "terminal/text.h"

namespace headwise::cli {

namespace {

// The whole text, or nothing: " 8", "8 " and "8.0" are no whole numbers.
template <typename Number>
bool parse(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

std::string got(const std::string& expected, const std::string& text) {
  return "expected " + expected + ", got '" + text + "'";
}

std::string range_text(std::int64_t least, std::int64_t most) {
  const bool bounded_above = most < std::numeric_limits<std::int64_t>::max();
  if (bounded_above) return ", " + std::to_string(least) + " … " + std::to_string(most);
  if (least > std::numeric_limits<std::int64_t>::min()) {
    return ", " + std::to_string(least) + " or more";
  }
  return "";
}

// "light, dark or grey"
std::string choice(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

// What one_of says of itself is "|light|dark". CLI11 puts it and a colon behind the type, which may
// have colons of its own: "NAME:|light|dark", "FIRST:END".
constexpr char kBeforeWord = '|';
constexpr std::string_view kBehindType = ":|";

}  // namespace

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[=](std::string& text) {
            std::int64_t number = 0;
            const bool fits = parse(text, number) && number >= least && number <= most;
            return fits ? "" : got("a whole number" + range_text(least, most), text);
          },
          ""};
}

CLI::Validator number_within(double least, double most) {
  return {[=](std::string& text) {
            double number = 0.0;
            const bool fits = parse(text, number) && number >= least && number <= most;
            if (fits) return std::string();
            const std::string above =
                std::isinf(most) ? " or more" : " … " + terminal::fixed(most, 0);
            return got("a number, " + terminal::fixed(least, 0) + above, text);
          },
          ""};
}

CLI::Validator one_of(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) {
    all += kBeforeWord + word;
  }
  return {[words](std::string& text) {
            const bool known = std::find(words.begin(), words.end(), text) != words.end();
            return known ? "" : got(choice(words), text);
          },
          all};
}

void refuse_empty_values(CLI::App& command, const std::string& may_be_empty) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_expected_max() == 0 || option->get_name() == may_be_empty) continue;
    option->check([](const std::string& text) {
      return std::string(text.empty() ? "expected a value, got ''" : "");
    });
  }
}

std::string type_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  return name.substr(0, name.find(kBehindType));
}

std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string name = option.get_type_name();
  const std::size_t type_end = name.find(kBehindType);
  std::vector<std::string> words;
  if (type_end == std::string::npos) return words;
  for (std::size_t begin = type_end + 1; begin < name.size();) {
    const std::size_t end = std::min(name.find(kBeforeWord, begin + 1), name.size());
    words.push_back(name.substr(begin + 1, end - begin - 1));
    begin = end;
  }
  return words;
}

}  // namespace headwise::cli
