// A configuration as JSON text: what Headwise adds to a file's metadata.
#pragma once

#include <string>
#include <string_view>

#include "headwise/config.h"

namespace headwise::layouts {

// The key under which a layer's configuration stands in the metadata.
std::string metadata_key(const std::string& layer_name);

std::string to_json(const AttentionConfig& config);

// Throws ArgumentError for what is no such text. An option that is not known is an error too: it may
// change what the layer computes.
AttentionConfig config_from_json(std::string_view text);

}  // namespace headwise::layouts
