#include <string>
#include <utility>

#include "base/check.h"
#include "headwise/layouts.h"
#include "layouts/dialects.h"

namespace headwise {

LayerParts read_layer(const FoundLayer& found, const TensorSource& source) {
  if (!found.config) {
    base::fail("read_layer", "layer", "one whose configuration is known", found.missing);
  }
  LayerParts parts{*found.config, {}};
  validate(parts.config);
  for (const auto& [key, name] : found.tensors) {
    Tensor tensor = source(name);
    const layer::StoredTensor stored = layouts::stored_under_key(key, tensor.rank());
    if (!layer::is_stored(stored, parts.config)) {
      base::fail("read_layer", name, "no " + key + " under this configuration",
                 tensor.shape().to_string());
    }
    if (!layer::fits(stored, tensor.shape(), parts.config)) {
      base::fail("read_layer", name,
                 "shape " + layer::stored_shape(stored, parts.config).to_string(),
                 tensor.shape().to_string());
    }
    layer::unpack(stored, std::move(tensor), parts.config, parts.weights);
  }
  using W = AttentionWeights;
  for (const WeightField& field : weight_fields()) {
    Tensor& bias = parts.weights.*field.tensor;
    const bool may_be_absent = field.tensor == &W::query_bias || field.tensor == &W::key_bias ||
                               field.tensor == &W::value_bias;
    if (may_be_absent && field.present(parts.config) && bias.size() == 0) {
      bias = Tensor(field.flat_shape(parts.config));
    }
  }
  validate(parts.config, parts.weights);
  return parts;
}

}  // namespace headwise
