// The header of an npy array: a magic number, a version and a Python dictionary.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "headwise/tensor.h"
#include "io/byte_source.h"
#include "io/tensor_decoder.h"

namespace headwise::io {

inline constexpr std::string_view kNpyMagic = "\x93NUMPY";

struct NpyHeader {
  std::string dtype;                    // "F32"; in numpy's words where it cannot be read
  std::optional<NumberFormat> numbers;  // none: not of a kind that can be read
  Shape shape;
  std::uint64_t bytes = 0;  // of the header, from the magic number to the first number

  [[nodiscard]] std::uint64_t data_bytes() const;  // needs numbers; throws Malformed
};

// Reads up to the first number. Throws Malformed.
NpyHeader read_npy_header(ByteSource& source);

// Throws Malformed that says why the numbers cannot be read.
void require_readable(const NpyHeader& header);

// The header of row-major float32, as numpy writes it.
std::string npy_header_text(const Shape& shape);

}  // namespace headwise::io
