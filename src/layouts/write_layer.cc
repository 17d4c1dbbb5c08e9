#include <set>
#include <string>

#include "headwise/layouts.h"
#include "layouts/config_json.h"
#include "layouts/dialects.h"
#include "layouts/pack_layer.h"

namespace headwise {

namespace {

// Between the parts of a name: as paths in Keras and Flax, as attributes in PyTorch.
char separator_of(WeightLayout layout) {
  using enum WeightLayout;
  return layout == Headwise || layout == Keras || layout == Flax ? '/' : '.';
}

// Hugging Face's loaders want to know which framework a safetensors file is of.
bool is_of_pytorch(WeightLayout layout) { return separator_of(layout) == '.'; }

}  // namespace

StoredLayer write_layer(const LayerParts& layer, WeightLayout layout, const std::string& name) {
  check_layout_holds(layout, layer.config);
  validate(layer.config, layer.weights);
  StoredLayer stored;
  const std::string front = name.empty() ? "" : name + separator_of(layout);
  stored.tensors = layouts::pack_layer(layer, layouts::written_dialect(layout), front);
  stored.metadata[layouts::metadata_key(name)] = layouts::to_json(layer.config);
  if (is_of_pytorch(layout)) stored.metadata["format"] = "pt";
  return stored;
}

}  // namespace headwise
