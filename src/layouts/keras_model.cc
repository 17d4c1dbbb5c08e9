// A Keras model of attention layers, as Keras itself saves one.
#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "headwise/layouts.h"
#include "layouts/keras_config.h"
#include "layouts/keras_names.h"
#include "layouts/pack_layer.h"

namespace headwise {

namespace {

bool is_grouped(const AttentionConfig& config) { return config.kv_heads() != config.num_heads; }

// Keras files layers under their class and a count, not under their names.
std::string next_path(bool grouped, std::size_t earlier_of_class) {
  std::string path = grouped ? "layers/grouped_query_attention" : "layers/multi_head_attention";
  if (earlier_of_class > 0) path += "_" + std::to_string(earlier_of_class);
  return path;
}

}  // namespace

StoredLayer keras_model_of(std::span<const NamedLayer> layers) {
  StoredLayer model;
  std::size_t grouped_so_far = 0;
  std::size_t plain_so_far = 0;
  for (const auto& [name, parts] : layers) {
    check_layout_holds(WeightLayout::Keras, parts.config);
    validate(parts.config, parts.weights);
    const bool grouped = is_grouped(parts.config);
    const std::string path = next_path(grouped, grouped ? grouped_so_far++ : plain_so_far++);
    model.tensors.merge(
        layouts::pack_layer(parts, layouts::keras_file_dialect(grouped), path + "/"));
    // Keras does not look at this name when it loads, so it may be one that Keras would not accept.
    if (!name.empty()) model.metadata[path + "/vars@name"] = name;
  }
  model.metadata["config.json"] = layouts::keras_config_json(layers);
  model.metadata["metadata.json"] = layouts::keras_metadata_json();
  return model;
}

}  // namespace headwise
