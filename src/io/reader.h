// What stands behind a TensorFile: one class for each format.
//
// A reader checks everything that it lists when it is made, so that reading a tensor afterwards can
// fail only for its numbers, for memory, or because the file changed. Readers throw Malformed for
// what is wrong with a file's content; TensorFile adds the path, and the tensor's name to read().
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "headwise/io.h"

namespace headwise::io {

class Reader {
 public:
  virtual ~Reader() = default;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return contents_.path; }
  [[nodiscard]] std::string_view format() const noexcept { return contents_.format; }
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const noexcept {
    return contents_.tensors;
  }
  [[nodiscard]] const Metadata& metadata() const noexcept { return contents_.metadata; }

  // The tensor at this place in tensors(). Threads may call it at the same time.
  [[nodiscard]] virtual AnyTensor read(std::size_t index) const = 0;

 protected:
  struct Contents {
    std::string path;
    std::string_view format;          // a literal: "safetensors"
    std::vector<TensorInfo> tensors;  // sorted by name, each name once
    Metadata metadata = {};
  };
  explicit Reader(Contents contents) : contents_(std::move(contents)) {}

 private:
  Contents contents_;
};

}  // namespace headwise::io
