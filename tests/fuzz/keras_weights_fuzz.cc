// Any bytes as an HDF5 file: refused in one sentence, or read and written again to the bit. Three
// processes are forked for a sound file, so some hundred inputs are tried in a second.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fuzz/keras_coverage.h"
#include "fuzz/read_everything.h"
#include "io/hdf5.h"
#include "io/keras.h"

namespace headwise::fuzz {
namespace {

std::string written(const TensorMap& tensors, const Metadata& metadata) {
  std::string bytes;
  io::write_hdf5(tensors, metadata, [&](io::Bytes piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  return bytes;
}

void check(std::span<const std::byte> bytes) {
  const auto reader = io::parse_keras_weights("input", bytes);
  const TensorMap tensors = read_everything(*reader);
  const std::string again = written(tensors, reader->metadata());
  const auto second = io::parse_keras_weights("again", std::as_bytes(std::span(again)));
  require_same(*second, tensors);
  require(second->metadata() == reader->metadata(), "texts are kept");
}

}  // namespace
}  // namespace headwise::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    headwise::fuzz::check(std::as_bytes(std::span(data, size)));
  } catch (const headwise::io::Malformed& error) {
    headwise::fuzz::count_reason(error.what());
  }
  return 0;
}
