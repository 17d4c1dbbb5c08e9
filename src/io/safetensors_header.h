// The header of a safetensors file, checked against the size of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headwise/io.h"

namespace headwise::io {

struct SafetensorsEntry {
  TensorInfo info;
  std::uint64_t begin = 0;  // bytes of the data that follows the header
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // sorted by name
  Metadata metadata;
};

// `json` is the header's text, `data_bytes` the number of bytes that follow it. Throws Malformed
// unless the entries are sound, cover the data without holes and overlaps, and each name is unique.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes);

}  // namespace headwise::io
