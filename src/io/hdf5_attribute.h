// Texts beside the data of an HDF5 file. For the isolated child only.
#pragma once

#include <optional>
#include <string>

#include "io/hdf5_handle.h"

namespace headwise::io {

// One attribute of an object, if it is one text; others are of no interest. `path` is for messages.
// Throws Malformed for references, which could lead anywhere, and for texts beyond all measure.
std::optional<std::string> read_hdf5_text(hid_t object, const std::string& name,
                                          const std::string& path);

}  // namespace headwise::io
