// Any bytes as a zip of npy arrays: refused, or read and written again to the bit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fuzz/read_everything.h"
#include "io/npz.h"
#include "io/zip_archive.h"

namespace headwise::fuzz {
namespace {

std::string written(const TensorMap& tensors) {
  std::string bytes;
  io::write_npz(
      [&](std::uint64_t offset, std::span<const std::byte> part) {
        bytes.resize(std::max<std::size_t>(bytes.size(), offset + part.size()));
        std::copy_n(reinterpret_cast<const char*>(part.data()), part.size(),
                    bytes.begin() + static_cast<std::ptrdiff_t>(offset));
      },
      tensors);
  return bytes;
}

void check(std::span<const std::byte> bytes) {
  const auto reader = io::open_npz("input", io::ZipArchive::borrow(bytes));
  const TensorMap tensors = read_everything(*reader);
  const std::string again = written(tensors);
  require_same(*io::open_npz("again", io::ZipArchive::borrow(std::as_bytes(std::span(again)))),
               tensors);
  require(written(tensors) == again, "written twice is the same");
}

}  // namespace
}  // namespace headwise::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    headwise::fuzz::check(std::as_bytes(std::span(data, size)));
  } catch (const headwise::io::Malformed&) {
    return 0;
  }
  return 0;
}
