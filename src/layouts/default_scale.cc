#include <cmath>

#include "headwise/layouts.h"

namespace headwise {

LayerParts with_default_scale(const LayerParts& layer) {
  validate(layer.config);
  validate(layer.config, layer.weights);
  LayerParts result = layer;
  if (!layer.config.scale) return result;
  const double root = std::sqrt(static_cast<double>(layer.config.key_dim));
  const double factor = static_cast<double>(*layer.config.scale) * root;
  const auto multiply = [&](Tensor& tensor) {
    for (float& x : tensor.values()) x = static_cast<float>(static_cast<double>(x) * factor);
  };
  // A norm undoes whatever its input was multiplied by, so its own scale takes the factor.
  if (layer.config.qk_norm != QkNorm::None) {
    multiply(result.weights.query_norm);
  } else {
    multiply(result.weights.query_kernel);
    multiply(result.weights.query_bias);
  }
  result.config.scale.reset();
  return result;
}

}  // namespace headwise
