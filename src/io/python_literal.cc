#include "io/python_literal.h"

#include <algorithm>
#include <charconv>

namespace headwise::io {

void PythonLiteral::unexpected() const {
  malformed("the npy header cannot be understood at its character " +
            std::to_string(text_.size() - rest_.size()));
}

void PythonLiteral::skip_space() {
  rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\n\r"), rest_.size()));
}

bool PythonLiteral::take(char c) {
  skip_space();
  if (!rest_.starts_with(c)) return false;
  rest_.remove_prefix(1);
  return true;
}

bool PythonLiteral::take_word(std::string_view word) {
  skip_space();
  if (!rest_.starts_with(word)) return false;
  rest_.remove_prefix(word.size());
  return true;
}

void PythonLiteral::expect(char c) {
  if (!take(c)) unexpected();
}

std::string PythonLiteral::quoted_text() {
  const bool is_single = take('\'');
  if (!is_single) expect('"');
  const std::size_t end = rest_.find(is_single ? '\'' : '"');
  if (end == std::string_view::npos) unexpected();
  std::string text(rest_.substr(0, end));
  if (text.find('\\') != std::string::npos) unexpected();  // no name or type has one
  rest_.remove_prefix(end + 1);
  return text;
}

std::string PythonLiteral::text_or_list() {
  skip_space();
  return rest_.starts_with('[') ? list() : quoted_text();
}

std::string PythonLiteral::list() {
  const std::string_view begin = rest_;
  int depth = 0;
  do {
    if (rest_.empty()) unexpected();
    if (rest_.front() == '\'' || rest_.front() == '"') {
      (void)quoted_text();
      continue;
    }
    if (rest_.front() == '[') ++depth;
    if (rest_.front() == ']') --depth;
    rest_.remove_prefix(1);
  } while (depth > 0);
  return std::string(begin.substr(0, begin.size() - rest_.size()));
}

bool PythonLiteral::boolean() {
  if (take_word("True")) return true;
  if (!take_word("False")) unexpected();
  return false;
}

std::uint64_t PythonLiteral::number() {
  skip_space();
  if (rest_.starts_with('-')) malformed("the npy header has a negative dimension");
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
  if (error == std::errc::result_out_of_range) {
    malformed("the npy header has a dimension of more than 64 bits");
  }
  if (error != std::errc()) unexpected();
  rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
  if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2 wrote 3L
  return value;
}

std::vector<std::uint64_t> PythonLiteral::tuple() {
  std::vector<std::uint64_t> numbers;
  expect('(');
  bool has_comma = true;  // (3) is a number, (3,) is a tuple
  while (!take(')')) {
    if (!has_comma) unexpected();
    numbers.push_back(number());
    has_comma = take(',');
    if (numbers.size() == 1 && !has_comma) unexpected();
  }
  return numbers;
}

}  // namespace headwise::io
