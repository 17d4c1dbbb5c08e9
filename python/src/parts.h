// headwise.LayerParts: a configuration and its dict of weights.
#pragma once

#include <utility>

#include "headwise/transforms.h"
#include "weights.h"

namespace headwise::python {

struct PartsValue {
  PartsValue(const AttentionConfig& config_, nb::object weights_)
      : config(config_), weights(std::move(weights_)) {}
  explicit PartsValue(LayerParts&& parts)
      : config(parts.config), weights(to_dict(std::move(parts.weights))) {}

  [[nodiscard]] LayerParts parts() const {
    return {config, weights_of(weights, config, {"LayerParts", "weights"})};
  }

  AttentionConfig config;
  nb::object weights;
};

}  // namespace headwise::python
