// Files put together byte by byte, so that any of them can be wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace headwise::test_support {

// A number as the file has it, least significant byte first.
template <typename T>
std::string little_endian(T value) {
  std::string bytes(sizeof value, '\0');
  std::memcpy(bytes.data(), &value, sizeof value);
  return bytes;
}

// A safetensors file; `length` if it is to lie about the length of its header.
inline std::string safetensors_bytes(std::string_view header, std::string_view data = "",
                                     std::optional<std::uint64_t> length = {}) {
  const std::uint64_t size = length.value_or(header.size());
  return little_endian(size) + std::string(header) + std::string(data);
}

// An npy array of this dictionary; `length` if it is to lie about it.
inline std::string npy_bytes(std::string_view dictionary, std::string_view data = "",
                             int version = 1, std::optional<std::uint32_t> length = {}) {
  const auto size = length.value_or(static_cast<std::uint32_t>(dictionary.size()));
  std::string bytes = "\x93NUMPY";
  bytes += {static_cast<char>(version), '\0'};
  bytes += version == 1 ? little_endian(static_cast<std::uint16_t>(size)) : little_endian(size);
  return bytes + std::string(dictionary) + std::string(data);
}

}  // namespace headwise::test_support
