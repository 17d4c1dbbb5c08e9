// The few Python literals that stand in the header of an npy array:
//   {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/malformed.h"

namespace headwise::io {

// Reads a text from left to right. Everything throws Malformed for what is not as expected.
class PythonLiteral {
 public:
  explicit PythonLiteral(std::string_view text) : text_(text), rest_(text) {}

  // A dictionary, and nothing after it: calls value(key) where the value of each key begins.
  template <typename Value>
  void dictionary(Value value) {
    expect('{');
    while (!take('}')) {
      const std::string key = quoted_text();
      expect(':');
      value(key);
      if (take('}')) break;
      expect(',');
    }
    skip_space();
    if (!rest_.empty()) unexpected();
  }

  bool boolean();
  std::vector<std::uint64_t> tuple();
  // 'text', or [a list of whatever], which is returned as it stands.
  std::string text_or_list();

 private:
  [[noreturn]] void unexpected() const;
  void skip_space();
  bool take(char c);  // skips c if it is next
  bool take_word(std::string_view word);
  void expect(char c);
  std::string quoted_text();
  std::string list();
  std::uint64_t number();

  std::string_view text_;
  std::string_view rest_;
};

}  // namespace headwise::io
