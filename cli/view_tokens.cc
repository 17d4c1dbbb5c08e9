#include "view_tokens.h"

#include <cstddef>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "headwise/io.h"
#include "text_file.h"

namespace headwise::cli {

namespace {

std::string content(const std::string& path) {
  std::string text = read_text(path);
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);  // a byte order mark
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  return {std::istream_iterator<std::string>(stream), {}};
}

std::vector<std::string> strings_of(const nlohmann::json& list, const std::string& path) {
  if (!list.is_array()) throw FileError(path, "expected an array of tokens");
  std::vector<std::string> tokens;
  for (const nlohmann::json& token : list) {
    if (!token.is_string() && !token.is_number_integer()) {
      throw FileError(path, "token " + std::to_string(tokens.size()) + ": expected a string, got " +
                                token.type_name());
    }
    tokens.push_back(token.is_string() ? token.get<std::string>() : token.dump());
  }
  return tokens;
}

TokenLists from_json(const std::string& text, const std::string& path) {
  nlohmann::json json;
  try {
    json = nlohmann::json::parse(text);
  } catch (const nlohmann::json::parse_error& error) {
    throw FileError(path, "not JSON: wrong at byte " + std::to_string(error.byte));
  }
  if (json.is_array()) return {strings_of(json, path), {}};
  if (json.is_object() && json.contains("tokens")) return {strings_of(json["tokens"], path), {}};
  if (json.is_object() && json.contains("query")) {
    TokenLists lists{strings_of(json["query"], path), {}};
    if (json.contains("key")) lists.key = strings_of(json["key"], path);
    return lists;
  }
  throw FileError(path,
                  "expected an array of strings, {\"tokens\": […]} or "
                  "{\"query\": […], \"key\": […]}");
}

struct Noun {
  const char* one;
  const char* many;
};

std::string counted(std::int64_t count, const Noun& noun) {
  return std::to_string(count) + " " + (count == 1 ? noun.one : noun.many);
}

void expect_count(const std::vector<std::string>& tokens, const std::string& path,
                  std::int64_t count, const Noun& noun) {
  if (std::ssize(tokens) == count) return;
  throw FileError(path, counted(std::ssize(tokens), {"token", "tokens"}) +
                            ", but the weights have " + counted(count, noun));
}

}  // namespace

TokenLists read_tokens(const std::string& path) {
  const std::string text = content(path);
  if (has_extension(path, ".json")) return from_json(text, path);
  std::vector<std::string> lines = lines_of(text);
  return {lines.size() == 1 ? words_of(text) : std::move(lines), {}};
}

void expect_key_count(const std::vector<std::string>& tokens, const std::string& path,
                      std::int64_t keys) {
  expect_count(tokens, path, keys, {"key", "keys"});
}

TokenLists fitted(TokenLists lists, const std::string& path, std::int64_t queries,
                  std::int64_t keys, std::int64_t offset) {
  const bool names_keys = lists.key.empty() && queries != keys && std::ssize(lists.query) == keys &&
                          offset >= 0 && offset + queries <= keys;
  if (names_keys) {
    lists.key = lists.query;
    lists.query = {lists.key.begin() + offset, lists.key.begin() + offset + queries};
  }
  expect_count(lists.query, path, queries, {"query", "queries"});
  if (!lists.key.empty()) expect_key_count(lists.key, path, keys);
  if (lists.key.empty() && queries == keys && offset == 0) lists.key = lists.query;
  return lists;
}

}  // namespace headwise::cli
