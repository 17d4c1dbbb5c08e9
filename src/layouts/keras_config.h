// The documents of a .keras file.
#pragma once

#include <span>
#include <string>

#include "headwise/layouts.h"

namespace headwise::layouts {

// A functional model in which every layer has inputs and an output of its own.
std::string keras_config_json(std::span<const NamedLayer> layers);

// The version of Keras whose format this is.
std::string keras_metadata_json();

}  // namespace headwise::layouts
