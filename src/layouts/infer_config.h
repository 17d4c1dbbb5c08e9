// Shapes → configuration of a layer.
#pragma once

#include <optional>
#include <string>

#include "headwise/layouts.h"
#include "layouts/grouping.h"

namespace headwise::layouts {

// A configuration, or why there is none.
struct Inferred {
  std::optional<AttentionConfig> config = {};
  std::string missing = {};
};

// From the shapes, and from the hints where shapes do not tell.
Inferred infer_config(const Group& group, const LayerHints& hints);

// Of a configuration that came with the file: whether the tensors are those of such a layer.
Inferred checked_config(const Group& group, const AttentionConfig& config);

}  // namespace headwise::layouts
