// HDF5 files as trees of tensors and texts. No type of libhdf5 appears here, and none of its code
// runs in the calling process (hdf5_isolation.h). Where libhdf5 is missing, hdf5_missing.cc stands in.
//
// Accepted is what a file of weights needs: groups and datasets, reached by hard links, each by one,
// and texts as attributes. Whatever else HDF5 offers (links to other places and files, data outside
// the file, references, filters beyond deflate) is refused by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "headwise/io.h"
#include "io/tensor_decoder.h"

namespace headwise::io {

using Bytes = std::span<const std::byte>;

struct Hdf5Dataset {
  TensorInfo info;  // the name is the path from the root: "layers/dense/vars/0"
  // How its numbers are stored. None: they are no numbers, info.dtype says what.
  std::optional<NumberFormat> format;
  // Where they lie in the file, one after the other. None: libhdf5 must unpack them.
  std::optional<std::uint64_t> offset;
  std::uint64_t bytes = 0;         // of all numbers
  std::uint64_t stored_bytes = 0;  // in the file, before unpacking
};

struct Hdf5Contents {
  std::vector<Hdf5Dataset> datasets;  // sorted by name
  Metadata attributes;                // "group/path@attribute"; no attribute has an @ in its name
};

// What a file holds, checked: shapes fit the bytes that are there, which lie in the file. Throws
// Malformed.
Hdf5Contents list_hdf5(Bytes file);

// Hands the numbers of one of those datasets to `receive`, some whole numbers at a time. Throws
// Malformed.
void read_hdf5(Bytes file, const Hdf5Dataset& dataset, const std::function<void(Bytes)>& receive);

// Makes a file and hands it to `receive`, piece by piece. The same input gives the same bytes.
// Attributes are named as above. Names must be those of a tree, as hdf5_names.h checks it.
void write_hdf5(const TensorMap& tensors, const Metadata& attributes,
                const std::function<void(Bytes)>& receive);

}  // namespace headwise::io
