#include "layouts/keras_names.h"

#include <algorithm>
#include <cstddef>

namespace headwise::layouts {

namespace {

constexpr std::string_view kFirstOfLayer = "query_dense/vars/0";
constexpr std::string_view kFirstOfGroupedLayer = "_query_dense/vars/0";

const std::string* name_at(std::string_view path,
                           const std::map<std::string, std::string>& metadata) {
  const std::string group = path.empty() ? "vars" : std::string(path) + "/vars";
  const auto found = metadata.find(group + "@name");
  return found == metadata.end() || found->second.empty() ? nullptr : &found->second;
}

}  // namespace

bool is_keras_file(const Dialect& dialect) {
  const std::string& first = dialect.tensors.front().name;
  return first == kFirstOfLayer || first == kFirstOfGroupedLayer;
}

const Dialect& keras_file_dialect(bool grouped) {
  const auto& all = dialects();
  return *std::find_if(all.begin(), all.end(), [&](const Dialect& dialect) {
    return dialect.tensors.front().name == (grouped ? kFirstOfGroupedLayer : kFirstOfLayer);
  });
}

std::string users_name(std::string_view path, const std::map<std::string, std::string>& metadata) {
  constexpr std::ptrdiff_t kDeepest = 64;  // models in models; a deeper path is not worth the walk
  const std::string* own = name_at(path, metadata);
  if (own == nullptr || std::count(path.begin(), path.end(), '/') > kDeepest) {
    return std::string(path);
  }
  std::string name;
  for (std::size_t end = path.find('/'); end != std::string_view::npos;
       end = path.find('/', end + 1)) {
    // A step without a name is an attribute or a list, such as "layers".
    if (const std::string* step = name_at(path.substr(0, end), metadata)) name += *step + "/";
  }
  return name + *own;
}

}  // namespace headwise::layouts
