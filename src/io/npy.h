// npy: one array.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/npy_header.h"
#include "io/reader.h"

namespace headwise::io {

// Both throw FileError or Malformed; the second reads from memory that must stay.
std::unique_ptr<Reader> open_npy(const std::string& path);
std::unique_ptr<Reader> parse_npy(const std::string& name, std::span<const std::byte> bytes);

// The numbers after a header whose data are known to be there, and nothing after them. Throws
// Malformed.
AnyTensor read_npy_numbers(ByteSource& source, const NpyHeader& header);

}  // namespace headwise::io
