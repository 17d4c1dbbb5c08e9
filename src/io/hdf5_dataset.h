// One dataset of an HDF5 file. For the isolated child only.
#pragma once

#include <string>

#include "io/hdf5_handle.h"
#include "io/hdf5_isolation.h"
#include "io/hdf5_type.h"

namespace headwise::io {

// Its record for the table of contents. Throws Malformed for storage that is not accepted.
std::string describe_hdf5_dataset(hid_t dataset, const std::string& path, const Hdf5Types& types,
                                  bool says_bfloat16);

// Sends the numbers of one, as they are stored, unpacked: `bytes` of them. Messages do not name it:
// whoever asked for it knows.
void send_hdf5_numbers(hid_t file, const std::string& path, std::size_t bytes, ChildOutput& output);

}  // namespace headwise::io
