// Bytes of a file → a tensor, piece by piece: the bytes never have to be in memory all at once.
#pragma once

#include <cstddef>
#include <span>

#include "headwise/io.h"
#include "io/number_type.h"

namespace headwise::io {

struct NumberFormat {
  NumberType type = NumberType::F32;
  bool big_endian = false;
  bool column_major = false;  // the first index runs fastest
};

class TensorDecoder {
 public:
  TensorDecoder(const NumberFormat& format, const Shape& shape);  // throws OutOfMemory

  // The next bytes, of whole numbers; together no more than the shape has. Throws Malformed for a
  // U64 that no int64 can hold.
  void append(std::span<const std::byte> bytes);

  // Once all bytes were given.
  AnyTensor finish() &&;

 private:
  NumberFormat format_;
  Shape shape_;
  AnyTensor tensor_;
  std::size_t count_ = 0;  // elements so far
};

}  // namespace headwise::io
