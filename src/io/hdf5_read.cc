// Reading HDF5: what the caller's process does around the isolated child.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/hdf5.h"
#include "io/hdf5_contents.h"
#include "io/hdf5_dataset.h"
#include "io/hdf5_handle.h"
#include "io/hdf5_image.h"
#include "io/hdf5_isolation.h"
#include "io/hdf5_walk.h"
#include "io/malformed.h"

namespace headwise::io {
namespace {

// For libhdf5's own tables, which do not grow with the file, and a chunk or two being unpacked.
constexpr std::uint64_t kTableBytes = std::uint64_t{512} << 20U;

// Objects are listed in less than 0.1 ms each, and a mebibyte has room for a few thousand. Loops in a
// damaged file never end.
ChildLimits listing(std::uint64_t file_bytes) {
  constexpr std::uint64_t kMostSeconds = 60;
  return {.memory_bytes = kTableBytes,
          .seconds = 1 + static_cast<int>(std::min(file_bytes >> 20U, kMostSeconds))};
}

// Unpacking gives some hundred megabytes a second.
ChildLimits reading(std::uint64_t bytes) {
  constexpr std::uint64_t kBytesPerSecond = std::uint64_t{10} << 20U;
  return {.memory_bytes = kTableBytes + bytes,
          .seconds = 1 + static_cast<int>(bytes / kBytesPerSecond)};
}

}  // namespace

Hdf5Contents list_hdf5(Bytes file) {
  std::string records;
  const std::size_t most = max_hdf5_records(file.size());
  run_isolated(
      listing(file.size()), [&](ChildOutput& output) { walk_hdf5(file, output); },
      [&](Bytes piece) {
        if (piece.size() > most - records.size()) malformed("holds too many names and texts");
        records.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      });
  return decode_hdf5_contents(records, file.size());
}

void read_hdf5(Bytes file, const Hdf5Dataset& dataset, const std::function<void(Bytes)>& receive) {
  const std::size_t number_bytes = bytes_of(dataset.format->type);
  std::uint64_t missing = dataset.bytes;
  if (missing == 0) return;
  run_isolated(
      reading(dataset.bytes),
      [&](ChildOutput& output) {
        prepare_libhdf5();
        const Hdf5Handle image = open_hdf5_image(file);
        send_hdf5_numbers(image.get(), dataset.info.name, dataset.bytes, output);
      },
      [&](Bytes piece) {
        if (piece.size() > missing || piece.size() % number_bytes != 0) {
          malformed("damaged: reading it gives nonsense");
        }
        missing -= piece.size();
        receive(piece);
      });
  if (missing > 0) malformed("damaged: reading it ends early");
}

}  // namespace headwise::io
