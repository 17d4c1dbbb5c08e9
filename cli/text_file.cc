#include "text_file.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <system_error>

#include "headwise/io.h"

namespace headwise::cli {

std::string read_text(const std::string& path) {
  constexpr std::size_t kMost = std::size_t{64} << 20U;  // a million tokens have less
  const auto fail = [&] {
    throw FileError(path, "cannot be read: " + std::generic_category().message(errno));
  };
  const auto close = [](std::FILE* file) { (void)std::fclose(file); };
  const std::unique_ptr<std::FILE, decltype(close)> file(std::fopen(path.c_str(), "rb"), close);
  if (!file) fail();
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) throw FileError(path, "is a folder");
  std::string text;
  std::array<char, 65536> block{};
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), file.get())) {
    text.append(block.data(), count);
    if (text.size() > kMost) throw FileError(path, "more than 64 MB of text");
  }
  if (std::ferror(file.get()) != 0) fail();
  return text;
}

bool has_extension(std::string_view path, std::string_view extension) {
  if (path.size() < extension.size()) return false;
  const std::string_view end = path.substr(path.size() - extension.size());
  return std::equal(end.begin(), end.end(), extension.begin(), [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  });
}

}  // namespace headwise::cli
