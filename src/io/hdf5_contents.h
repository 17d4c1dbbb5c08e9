// The table of contents that the isolated child sends, as bytes: written there, checked here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "io/hdf5.h"

namespace headwise::io {

// Of one file. Keras's largest models stay below a hundredth of each.
inline constexpr std::size_t kMaxHdf5Objects = 200'000;  // groups, datasets and attributes
inline constexpr std::size_t kMaxHdf5Depth = 64;         // groups within groups
inline constexpr std::size_t kMaxHdf5PathBytes = 4096;
inline constexpr std::size_t kMaxHdf5TextBytes = std::size_t{16} << 20U;  // of one attribute

// What is claimed by one dataset, in the child's words.
struct Hdf5Claim {
  std::string_view name;
  std::string_view dtype;  // "F32", or what it is instead of a number
  bool big_endian = false;
  std::span<const std::uint64_t> extents;
  std::uint64_t offset = 0;  // 0, where every file has its signature: libhdf5 must unpack it
  std::uint64_t stored_bytes = 0;
};

std::string encode(const Hdf5Claim& dataset);
std::string encode_attribute(std::string_view key, std::string_view text);

// Puts the records together and checks what they claim against a file of this size. Throws
// Malformed.
Hdf5Contents decode_hdf5_contents(std::string_view records, std::uint64_t file_bytes);

// How many bytes of records a file of this size may give.
std::size_t max_hdf5_records(std::uint64_t file_bytes);

}  // namespace headwise::io
