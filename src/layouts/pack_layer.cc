#include "layouts/pack_layer.h"

#include <set>

namespace headwise::layouts {

TensorMap pack_layer(const LayerParts& parts, const Dialect& dialect, const std::string& front) {
  TensorMap tensors;
  std::set<const WeightField*> done;
  for (const layer::StoredTensor& stored : dialect.tensors) {
    const auto fields = layer::fields_of(stored);
    if (done.contains(fields.front()) || !layer::is_stored(stored, parts.config)) continue;
    tensors.emplace(front + stored.name, layer::pack(stored, parts.config, parts.weights));
    done.insert(fields.begin(), fields.end());
  }
  return tensors;
}

}  // namespace headwise::layouts
