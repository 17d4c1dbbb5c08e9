// Names in the files that Keras saves: paths of attributes, and beside them the names that users
// gave their layers.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "layouts/dialects.h"

namespace headwise::layouts {

// Whether it is the one of .weights.h5 and .keras: "query_dense/vars/0".
bool is_keras_file(const Dialect& dialect);

// "layers/functional/layers/multi_head_attention" → "encoder/attention", by the attribute `name` of
// the groups on the way; the path itself where the file does not say.
std::string users_name(std::string_view path, const std::map<std::string, std::string>& metadata);

// The dialect of a layer with as many key/value heads as query heads, and of one with fewer.
const Dialect& keras_file_dialect(bool grouped);

}  // namespace headwise::layouts
