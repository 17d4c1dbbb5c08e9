// safetensors: eight bytes of length, a JSON header of names, types, shapes and offsets, then the
// numbers. https://github.com/huggingface/safetensors
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/reader.h"

namespace headwise::io {

// A JSON document that a file may have: more is refused before it is looked at. The limit of the
// reference implementation.
inline constexpr std::uint64_t kLargestHeader = 100'000'000;
// Names and shapes of a million tensors take 200 MB; models of today have some ten thousand.
inline constexpr std::size_t kMostTensors = 1'000'000;

// Both throw FileError or Malformed; the second reads from memory that must stay.
std::unique_ptr<Reader> open_safetensors(const std::string& path);
std::unique_ptr<Reader> parse_safetensors(const std::string& name,
                                          std::span<const std::byte> bytes);

// Length and header of a file with these tensors, whose numbers follow in the order of the map: the
// very bytes that the reference implementation writes. Throws ArgumentError.
std::string safetensors_head(const TensorMap& tensors, const Metadata& metadata);

}  // namespace headwise::io
