#include "io/hdf5_image.h"

#include <cstddef>

#include "io/malformed.h"

namespace headwise::io {
namespace {

// libhdf5 copies an image into its property lists and again when it opens it. These let it have the
// one there is.
void* image_allocate(size_t /*bytes*/, H5FD_file_image_op_t /*why*/, void* image) { return image; }
void* image_copy(void* to, const void* /*from*/, size_t /*bytes*/, H5FD_file_image_op_t /*why*/,
                 void* /*image*/) {
  return to;
}
void* image_reallocate(void* /*memory*/, size_t /*bytes*/, H5FD_file_image_op_t /*why*/,
                       void* /*image*/) {
  return nullptr;  // would make it longer, for writing
}
herr_t image_free(void* /*memory*/, H5FD_file_image_op_t /*why*/, void* /*image*/) { return 0; }
void* share_image(void* image) { return image; }
herr_t forget_image(void* /*image*/) { return 0; }

}  // namespace

Hdf5Handle open_hdf5_image(Bytes file) {
  if (file.empty()) malformed("is empty");  // to libhdf5 no image at all
  const Hdf5Handle access = opened(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "");
  constexpr std::size_t kGrowth = 4096;  // unused: the file is not written to
  auto* const image = const_cast<std::byte*>(file.data());
  H5FD_file_image_callbacks_t callbacks{
      image_allocate, image_copy, image_reallocate, image_free, share_image, forget_image, image};
  if (H5Pset_fapl_core(access.get(), kGrowth, false) < 0 ||
      H5Pset_file_image_callbacks(access.get(), &callbacks) < 0 ||
      H5Pset_file_image(access.get(), image, file.size()) < 0) {
    fail_hdf5("", "libhdf5 refuses a file in memory");
  }
  return opened(H5Fopen(kHdf5ImageName, H5F_ACC_RDONLY, access.get()), H5Fclose, "",
                "damaged: no readable HDF5 file");
}

}  // namespace headwise::io
