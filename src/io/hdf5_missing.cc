// Stands in for the files that need libhdf5, where it is missing.
#include "io/hdf5.h"
#include "io/malformed.h"

namespace headwise::io {
namespace {

[[noreturn]] void refuse() { malformed("HDF5 cannot be read or written: libhdf5 is missing"); }

}  // namespace

Hdf5Contents list_hdf5(Bytes /*file*/) { refuse(); }

void read_hdf5(Bytes /*file*/, const Hdf5Dataset& /*dataset*/,
               const std::function<void(Bytes)>& /*receive*/) {
  refuse();
}

void write_hdf5(const TensorMap& /*tensors*/, const Metadata& /*attributes*/,
                const std::function<void(Bytes)>& /*receive*/) {
  refuse();
}

}  // namespace headwise::io
