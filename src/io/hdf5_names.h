// Names of things in an HDF5 file.
#pragma once

#include <string_view>
#include <vector>

namespace headwise::io {

// Whether it can name one thing in a group. HDF5 reads "/" as a path and "." as the group itself; a
// name that says ".." means no good.
bool is_hdf5_name(std::string_view name);

// The steps of a path, "a/b/0" → "a", "b", "0". An empty path, the root, has none.
std::vector<std::string_view> hdf5_steps(std::string_view path);

}  // namespace headwise::io
