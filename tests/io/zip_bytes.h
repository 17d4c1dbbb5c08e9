// Zip files put together byte by byte, so that any field can be wrong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace headwise::test_support {

inline std::uint32_t crc32(std::string_view bytes) {
  std::uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

struct ZipPart {
  std::string name;
  std::string bytes;                       // as they are in the archive
  std::uint16_t method = 0;                // 0: stored, 8: deflated
  std::uint16_t flags = 0;                 // 1: encrypted
  std::optional<std::uint32_t> size = {};  // unpacked; unless it is that of the bytes
  std::optional<std::uint32_t> crc = {};
  std::optional<std::uint32_t> offset = {};  // of its local header; unless it is its own
};

// What the local and the central header of an entry have in common.
inline std::string zip_fields(const ZipPart& part) {
  return little_endian<std::uint16_t>(20) + little_endian(part.flags) + little_endian(part.method) +
         little_endian<std::uint32_t>(0x00210000) +  // 1980-01-01
         little_endian(part.crc.value_or(crc32(part.bytes))) +
         little_endian(static_cast<std::uint32_t>(part.bytes.size())) +
         little_endian(part.size.value_or(static_cast<std::uint32_t>(part.bytes.size()))) +
         little_endian(static_cast<std::uint16_t>(part.name.size())) +
         little_endian<std::uint16_t>(0);
}

inline std::string zip_bytes(const std::vector<ZipPart>& parts) {
  std::string archive;
  std::string directory;
  for (const ZipPart& part : parts) {
    const auto offset = static_cast<std::uint32_t>(archive.size());
    archive += "PK\3\4" + zip_fields(part) + part.name + part.bytes;
    directory += "PK\1\2" + little_endian<std::uint16_t>(20) + zip_fields(part) +
                 std::string(10, '\0') + little_endian(part.offset.value_or(offset)) + part.name;
  }
  const auto count = static_cast<std::uint16_t>(parts.size());
  return archive + directory + std::string("PK\5\6\0\0\0\0", 8) + little_endian(count) +
         little_endian(count) + little_endian(static_cast<std::uint32_t>(directory.size())) +
         little_endian(static_cast<std::uint32_t>(archive.size())) +
         little_endian<std::uint16_t>(0);
}

}  // namespace headwise::test_support
