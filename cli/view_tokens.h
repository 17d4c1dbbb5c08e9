// Token text from a file, for the axes of attention weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headwise::cli {

struct TokenLists {
  std::vector<std::string> query;
  std::vector<std::string> key;  // empty: nothing is said of keys
};

// A file that ends in .json: an array of strings, {"tokens": […]} or {"query": […], "key": […]}; numbers
// (token ids) do as well. Any other: a token a line, or words between blanks if it is one line.
// Throws FileError.
TokenLists read_tokens(const std::string& path);

// Throws FileError that tells both numbers, if there is not one for each key.
void expect_key_count(const std::vector<std::string>& tokens, const std::string& path,
                      std::int64_t keys);

// What names T queries, of which the first stands at position `offset`, and S keys. Tokens of all
// keys name the queries too. Throws FileError that tells both numbers where they do not fit.
TokenLists fitted(TokenLists lists, const std::string& path, std::int64_t queries,
                  std::int64_t keys, std::int64_t offset);

}  // namespace headwise::cli
