#include "io/hdf5_attribute.h"

#include <cstddef>
#include <cstring>
#include <string_view>

#include "io/hdf5_contents.h"
#include "io/malformed.h"
#include "io/quoted.h"

namespace headwise::io {
namespace {

[[noreturn]] void refuse_length(const std::string& path) {
  malformed(quoted(path) + ": a text of more than " + std::to_string(kMaxHdf5TextBytes) + " bytes");
}

// Its bytes lie in a heap of the file, and libhdf5 makes memory for it.
std::string read_variable(hid_t attribute, hid_t type, const std::string& path) {
  char* text = nullptr;
  if (H5Aread(attribute, type, static_cast<void*>(&text)) < 0) fail_hdf5(path, "cannot be read");
  if (text == nullptr) return {};
  const std::size_t length = strnlen(text, kMaxHdf5TextBytes + 1);
  if (length > kMaxHdf5TextBytes) refuse_length(path);
  std::string copy(text, length);
  (void)H5free_memory(text);
  return copy;
}

std::string read_fixed(hid_t attribute, hid_t type, const std::string& path) {
  const std::size_t size = H5Tget_size(type);
  if (size > kMaxHdf5TextBytes) refuse_length(path);
  std::string text(size, '\0');
  if (H5Aread(attribute, type, text.data()) < 0) fail_hdf5(path, "cannot be read");
  text.resize(std::strlen(text.c_str()));
  if (H5Tget_strpad(type) == H5T_STR_SPACEPAD) text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::optional<std::string> read_hdf5_text(hid_t object, const std::string& name,
                                          const std::string& path) {
  const Hdf5Handle attribute = opened(H5Aopen(object, name.c_str(), H5P_DEFAULT), H5Aclose, path);
  const Hdf5Handle type = opened(H5Aget_type(attribute.get()), H5Tclose, path);
  if (H5Tdetect_class(type.get(), H5T_REFERENCE) != 0) {
    malformed(quoted(path) + ": holds references, which are not followed");
  }
  if (H5Tget_class(type.get()) != H5T_STRING) return std::nullopt;
  const Hdf5Handle space = opened(H5Aget_space(attribute.get()), H5Sclose, path);
  if (H5Sget_simple_extent_npoints(space.get()) != 1) return std::nullopt;
  return H5Tis_variable_str(type.get()) > 0 ? read_variable(attribute.get(), type.get(), path)
                                            : read_fixed(attribute.get(), type.get(), path);
}

}  // namespace headwise::io
