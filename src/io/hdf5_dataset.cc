#include "io/hdf5_dataset.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "headwise/tensor.h"
#include "io/hdf5_contents.h"
#include "io/malformed.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

// libhdf5 unpacks whole chunks, whatever is asked for; h5py's own choice stays below a mebibyte.
constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{16} << 20U;

[[noreturn]] void refuse(const std::string& path, const std::string& problem) {
  malformed(quoted(path) + ": " + problem);
}

// Deflate, what prepares for it, and checksums: nothing that needs code from elsewhere. Each once,
// since packing what is packed multiplies the ratio.
void check_filters(hid_t properties, const std::string& path) {
  const int count = H5Pget_nfilters(properties);
  if (count < 0) fail_hdf5(path, "cannot be read");
  std::vector<H5Z_filter_t> seen;
  for (int i = 0; i < count; ++i) {
    unsigned flags = 0;
    unsigned settings = 0;
    size_t setting_count = 0;
    const H5Z_filter_t filter = H5Pget_filter2(properties, static_cast<unsigned>(i), &flags,
                                               &setting_count, nullptr, 0, nullptr, &settings);
    const bool is_known = filter == H5Z_FILTER_DEFLATE || filter == H5Z_FILTER_SHUFFLE ||
                          filter == H5Z_FILTER_FLETCHER32;
    if (!is_known) refuse(path, "is packed by filter " + std::to_string(filter));
    if (std::find(seen.begin(), seen.end(), filter) != seen.end()) refuse(path, "is packed twice");
    seen.push_back(filter);
  }
}

void check_chunk(hid_t properties, std::size_t element_bytes, const std::string& path) {
  std::array<hsize_t, kMaxRank> chunk{};
  const int rank = H5Pget_chunk(properties, kMaxRank, chunk.data());
  if (rank < 0) fail_hdf5(path, "cannot be read");
  auto bytes = std::optional(static_cast<std::int64_t>(element_bytes));
  for (int axis = 0; axis < std::min(rank, kMaxRank) && bytes; ++axis) {
    const auto extent = static_cast<std::int64_t>(chunk[static_cast<std::size_t>(axis)]);
    bytes = extent < 0 ? std::nullopt : base::checked_multiply(*bytes, extent);
  }
  if (!bytes || *bytes > static_cast<std::int64_t>(kMaxChunkBytes)) {
    refuse(path, "is stored in chunks of more than " + std::to_string(kMaxChunkBytes) + " bytes");
  }
}

// Where the numbers are: contiguous in the file (true), or to be unpacked.
bool check_storage(hid_t dataset, std::size_t element_bytes, const std::string& path) {
  const Hdf5Handle properties = opened(H5Dget_create_plist(dataset), H5Pclose, path);
  if (H5Pget_external_count(properties.get()) != 0) refuse(path, "is stored in another file");
  switch (H5Pget_layout(properties.get())) {
    case H5D_CONTIGUOUS:
      return true;
    case H5D_COMPACT:
      return false;
    case H5D_CHUNKED:
      check_filters(properties.get(), path);
      check_chunk(properties.get(), element_bytes, path);
      return false;
    case H5D_VIRTUAL:
      refuse(path, "is virtual: other datasets hold its numbers");
    default:
      fail_hdf5(path, "cannot be read");
  }
}

std::vector<std::uint64_t> extents_of(hid_t dataset, const std::string& path) {
  const Hdf5Handle space = opened(H5Dget_space(dataset), H5Sclose, path);
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 0) fail_hdf5(path, "cannot be read");
  if (H5Sget_simple_extent_type(space.get()) == H5S_NULL) refuse(path, "has no extent at all");
  if (rank > kMaxRank) {
    refuse(path, "has " + std::to_string(rank) + " axes, more than " + std::to_string(kMaxRank));
  }
  std::array<hsize_t, kMaxRank> extents{};
  if (H5Sget_simple_extent_dims(space.get(), extents.data(), nullptr) < 0) {
    fail_hdf5(path, "cannot be read");
  }
  return {extents.begin(), extents.begin() + rank};
}

}  // namespace

std::string describe_hdf5_dataset(hid_t dataset, const std::string& path, const Hdf5Types& types,
                                  bool says_bfloat16) {
  const Hdf5Handle type = opened(H5Dget_type(dataset), H5Tclose, path);
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) != 0) {
    refuse(path, "holds references, which are not followed");
  }
  // Before the shape, which libhdf5 would ask other files for.
  const bool is_contiguous = check_storage(dataset, H5Tget_size(type.get()), path);
  const std::vector<std::uint64_t> extents = extents_of(dataset, path);
  const Hdf5Type described = types.describe(type.get(), says_bfloat16);
  // Never written: no offset, and nothing stored.
  const haddr_t offset = is_contiguous ? H5Dget_offset(dataset) : HADDR_UNDEF;
  return encode({.name = path,
                 .dtype = described.dtype,
                 .big_endian = described.big_endian,
                 .extents = extents,
                 .offset = offset == HADDR_UNDEF ? 0 : offset,
                 .stored_bytes = H5Dget_storage_size(dataset)});
}

void send_hdf5_numbers(hid_t file, const std::string& path, std::size_t bytes,
                       ChildOutput& output) {
  const Hdf5Handle dataset = opened(H5Dopen2(file, path.c_str(), H5P_DEFAULT), H5Dclose, "");
  const Hdf5Handle type = opened(H5Dget_type(dataset.get()), H5Tclose, "");
  const Hdf5Handle space = opened(H5Dget_space(dataset.get()), H5Sclose, "");
  const auto elements = static_cast<std::uint64_t>(H5Sget_simple_extent_npoints(space.get()));
  if (elements * H5Tget_size(type.get()) != bytes) malformed("changed while the file was open");
  std::vector<std::byte> numbers(bytes);
  // Into the type that the file has: nothing is converted.
  if (H5Dread(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, numbers.data()) < 0) {
    fail_hdf5("", "cannot be unpacked");
  }
  output.send(numbers);
}

}  // namespace headwise::io
