// What several commands say about a layer in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "headwise/config.h"
#include "headwise/tensor.h"

namespace headwise::cli {

using Json = nlohmann::ordered_json;

Json shape_json(const Shape& shape);
Json config_json(const AttentionConfig& config);

}  // namespace headwise::cli
