#include "io/hdf5_names.h"

#include <algorithm>
#include <cstddef>

namespace headwise::io {

bool is_hdf5_name(std::string_view name) {
  constexpr std::string_view kForbidden("/\0", 2);
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(kForbidden) == std::string_view::npos;
}

std::vector<std::string_view> hdf5_steps(std::string_view path) {
  std::vector<std::string_view> steps;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    steps.push_back(path.substr(0, end));
    // A slash at the end leads to one more step, without a name.
    if (end + 1 == path.size()) steps.emplace_back();
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return steps;
}

}  // namespace headwise::io
