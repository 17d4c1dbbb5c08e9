// Any bytes as the table of contents that the process apart sends: refused, or of things that the
// file can hold. Nothing is forked here, so this is fast where the fuzzers of whole files are not.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "io/hdf5_contents.h"
#include "io/malformed.h"
#include "io/utf8.h"

namespace headwise::fuzz {
namespace {

constexpr std::uint64_t kFileBytes = 100'000;

void check(std::string_view records) {
  const io::Hdf5Contents contents = io::decode_hdf5_contents(records, kFileBytes);
  std::uint64_t total = 0;
  for (const io::Hdf5Dataset& dataset : contents.datasets) {
    require(io::is_utf8(dataset.info.name), "names are text");
    require(dataset.stored_bytes <= kFileBytes, "no more is stored than the file has");
    const std::uint64_t begin = dataset.offset.value_or(0);
    require(!dataset.offset || (begin <= kFileBytes && dataset.bytes <= kFileBytes - begin),
            "numbers lie in the file");
    total += dataset.bytes;
  }
  require(total <= (std::uint64_t{64} << 20U) + 200 * kFileBytes, "memory follows the file");
}

}  // namespace
}  // namespace headwise::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    headwise::fuzz::check({reinterpret_cast<const char*>(data), size});
  } catch (const headwise::io::Malformed&) {
    return 0;
  }
  return 0;
}
