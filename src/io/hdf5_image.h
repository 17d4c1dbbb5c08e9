// Opens an HDF5 file that is in memory. For the isolated child only.
#pragma once

#include "io/hdf5.h"
#include "io/hdf5_handle.h"

namespace headwise::io {

// For libhdf5, which wants a name and makes sure that no such file exists. None can.
inline constexpr const char* kHdf5ImageName = "/dev/null/image";

// Nothing is copied: `file` must outlive the handle, and is never written to. Throws Malformed.
Hdf5Handle open_hdf5_image(Bytes file);

}  // namespace headwise::io
