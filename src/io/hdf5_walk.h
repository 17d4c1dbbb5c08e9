// Goes through an HDF5 file and says what it holds. For the isolated child only.
#pragma once

#include "io/hdf5.h"
#include "io/hdf5_isolation.h"

namespace headwise::io {

// Sends the records of hdf5_contents.h. Throws Malformed for what hdf5.h does not accept.
void walk_hdf5(Bytes file, ChildOutput& output);

}  // namespace headwise::io
