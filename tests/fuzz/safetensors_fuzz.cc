// Any bytes as a safetensors file: refused in one sentence, or read and written again to the bit.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fuzz/read_everything.h"
#include "io/safetensors.h"

namespace headwise::fuzz {
namespace {

std::string written(const TensorMap& tensors, const Metadata& metadata) {
  std::string bytes = io::safetensors_head(tensors, metadata);
  for (const auto& [name, tensor] : tensors) {
    const auto numbers = std::as_bytes(tensor.values());
    bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size());
  }
  return bytes;
}

void check(std::span<const std::byte> bytes) {
  const auto reader = io::parse_safetensors("input", bytes);
  const TensorMap tensors = read_everything(*reader);
  const std::string again = written(tensors, reader->metadata());
  const auto second = io::parse_safetensors("again", std::as_bytes(std::span(again)));
  require_same(*second, tensors);
  require(second->metadata() == reader->metadata(), "metadata is kept");
  require(written(tensors, second->metadata()) == again, "written twice is the same");
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
