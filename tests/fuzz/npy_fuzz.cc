// Any bytes as an npy array, from memory and from a stream, which must agree.
#include <cstddef>
#include <cstdint>
#include <span>
#include <sstream>
#include <string>

#include "fuzz/read_everything.h"
#include "io/npy.h"

namespace headwise::fuzz {
namespace {

// A stream has no end that is known beforehand, so it may be followed by something else; but what
// is a whole file must be an array in a stream.
std::optional<AnyTensor> streamed(const std::string& bytes) {
  try {
    std::istringstream stream(bytes);
    return read_npy(stream, "stream");
  } catch (const FileError&) {
    return std::nullopt;
  }
}

void check(std::span<const std::byte> bytes) {
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::optional<AnyTensor> from_stream = streamed(text);
  const auto reader = io::parse_npy("input", bytes);
  const std::optional<AnyTensor> tensor = read_tensor(*reader, 0);
  require(tensor.has_value() == from_stream.has_value(), "files and streams agree");
  if (!tensor) return;
  require(same_bits(*tensor, *from_stream), "files and streams give the same bits");
  const auto* floats = std::get_if<Tensor>(&*tensor);
  if (floats == nullptr) return;
  std::ostringstream out;
  write_npy(out, *floats);
  const std::string again = out.str();
  require_same(*io::parse_npy("again", std::as_bytes(std::span(again))), {{"", *floats}});
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
