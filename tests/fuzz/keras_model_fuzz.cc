// Any bytes as a .keras: refused in one sentence, or read.
#include <cstddef>
#include <cstdint>
#include <span>

#include "fuzz/keras_coverage.h"
#include "fuzz/read_everything.h"
#include "io/keras.h"
#include "io/utf8.h"

namespace headwise::fuzz {
namespace {

void check(std::span<const std::byte> bytes) {
  const auto reader = io::parse_keras_model("input", bytes);
  (void)read_everything(*reader);
  for (const auto& [key, text] : reader->metadata()) {
    require(io::is_utf8(key) && io::is_utf8(text), "metadata is text");
  }
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
