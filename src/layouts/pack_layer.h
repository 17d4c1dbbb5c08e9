// A layer's tensors under the names of a dialect.
#pragma once

#include <string>

#include "headwise/tensor.h"
#include "headwise/transforms.h"
#include "layouts/dialects.h"

namespace headwise::layouts {

// Each weight once: where a dialect has two names for it, under the first that can hold it. `front`
// stands before every name.
TensorMap pack_layer(const LayerParts& parts, const Dialect& dialect, const std::string& front);

}  // namespace headwise::layouts
