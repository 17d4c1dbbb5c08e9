#include <algorithm>
#include <cstddef>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/layouts.h"
#include "layouts/config_json.h"
#include "layouts/grouping.h"
#include "layouts/infer_config.h"
#include "layouts/keras_names.h"
#include "layouts/keras_windows.h"
#include "layouts/natural_order.h"

namespace headwise {

namespace {

using layouts::Group;
using layouts::Inferred;
using layouts::Member;
using Metadata = std::map<std::string, std::string>;

// A configuration that Headwise wrote beside the tensors counts for more than any hint.
Inferred configuration(const Group& group, const Metadata& metadata, const LayerHints& hints) {
  const auto own = metadata.find(layouts::metadata_key(std::string(group.front)));
  if (own == metadata.end()) return layouts::infer_config(group, hints);
  try {
    return layouts::checked_config(group, layouts::config_from_json(own->second));
  } catch (const ArgumentError& error) {
    return {{}, std::string("its configuration in the metadata cannot be read: ") + error.what()};
  }
}

FoundLayer found_layer(const Group& group, const Metadata& metadata, const LayerHints& hints) {
  FoundLayer layer;
  layer.name = layouts::is_keras_file(*group.dialect) ? layouts::users_name(group.front, metadata)
                                                      : std::string(group.front);
  layer.layout = group.dialect->layout;
  Inferred inferred = configuration(group, metadata, hints);
  layer.config = inferred.config;
  layer.missing = std::move(inferred.missing);
  for (const Member& member : group.members) {
    layer.tensors.emplace(layouts::key_of(*member.stored), member.tensor->name);
  }
  if (layer.layout == WeightLayout::Llama) {
    layer.notes.emplace_back("rotary positions, if its model has them, are outside the weights");
  }
  if (layer.layout == WeightLayout::Gpt2) {
    layer.notes.emplace_back("a causal mask, which GPT-2 has, is outside the weights");
  }
  return layer;
}

// A window is a mask, which is the caller's to pass; silence would turn the layer into another one.
void note_windows(std::vector<FoundLayer>& layers, const Metadata& metadata) {
  const auto document = metadata.find("config.json");
  if (document == metadata.end()) return;
  const auto windows = layouts::sliding_windows(document->second);
  for (FoundLayer& layer : layers) {
    const auto window = windows.find(layer.name.substr(layer.name.rfind('/') + 1));
    if (layer.layout != WeightLayout::Keras || window == windows.end()) continue;
    layer.notes.push_back("layer '" + layer.name + "' has sliding_window " +
                          std::to_string(window->second) + ", a mask that is outside the weights");
  }
}

}  // namespace

std::vector<FoundLayer> find_layers(std::span<const NamedShape> tensors, const Metadata& metadata,
                                    const LayerHints& hints) {
  const std::vector<Group> groups = layouts::group_by_name(tensors);
  std::vector<FoundLayer> layers;
  layers.reserve(groups.size());
  for (const Group& group : groups) layers.push_back(found_layer(group, metadata, hints));

  note_windows(layers, metadata);
  // Keras lets two layers of different models have one name; their places in the file differ.
  std::unordered_map<std::string, int> uses;
  for (const FoundLayer& layer : layers) ++uses[layer.name];
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (uses.at(layers[i].name) > 1) layers[i].name = groups[i].front;
  }
  std::sort(layers.begin(), layers.end(), [](const FoundLayer& a, const FoundLayer& b) {
    return a.name == b.name ? a.layout < b.layout : layouts::natural_less(a.name, b.name);
  });
  return layers;
}

}  // namespace headwise
