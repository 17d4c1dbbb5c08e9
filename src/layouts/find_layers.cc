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
#include "layouts/keras_options.h"
#include "layouts/natural_order.h"
#include "layouts/own_hints.h"

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

// What the layer's model does to queries, keys and scores that is the caller's to do.
void add_notes(const LayerHints& hints, FoundLayer& layer) {
  std::vector<std::string>& notes = layer.notes;
  if (layer.layout == WeightLayout::Llama) {
    notes.emplace_back("rotary positions, if its model has them, are outside the weights");
  } else if (hints.rotary) {
    notes.emplace_back("rotary positions, which its model has, are outside the weights");
  }
  layer.rotary = layer.layout == WeightLayout::Llama || hints.rotary;
  if (layer.layout == WeightLayout::Gpt2) {
    notes.emplace_back("a causal mask, which GPT-2 has, is outside the weights");
  } else if (hints.causal && !layouts::is_cross_attention(layer.name)) {
    notes.emplace_back("a causal mask, which its model has, is outside the weights");
  }
  notes.insert(notes.end(), hints.notes.begin(), hints.notes.end());
  const auto place = layouts::place_of(layer.name);
  if (place && *place < hints.place_notes.size() && !hints.place_notes[*place].empty()) {
    notes.push_back(hints.place_notes[*place]);
  }
}

// Keras's output may have several axes, which its kernel's shape shows: heads, their size, the others.
void set_output_axes(const Group& group, FoundLayer& layer) {
  const Member* output = group.find("attention_output/kernel");
  if (output == nullptr || output->stored->axes != layer::Axes::ByHead) return;
  const Shape& shape = output->tensor->shape;
  constexpr int kOne = 3;
  if (shape.rank() <= kOne) return;
  layer.output_axes.assign(shape.begin() + 2, shape.end());
  const Shape axes(std::span<const std::int64_t>(layer.output_axes));
  layer.notes.push_back("its output has axes " + axes.to_string() + ", which are one axis here");
}

FoundLayer found_layer(const Group& group, const Metadata& metadata, const LayerHints& hints) {
  FoundLayer layer;
  layer.name = layouts::is_keras_file(*group.dialect) ? layouts::users_name(group.front, metadata)
                                                      : std::string(group.front);
  layer.layout = group.dialect->layout;
  const LayerHints& own = *layouts::own_hints(group.front, hints);
  Inferred inferred = configuration(group, metadata, own);
  layer.config = inferred.config;
  layer.missing = std::move(inferred.missing);
  for (const Member& member : group.members) {
    layer.tensors.emplace(layouts::key_of(*member.stored), member.tensor->name);
  }
  if (layer.layout != WeightLayout::Keras) add_notes(own, layer);
  set_output_axes(group, layer);
  return layer;
}

// A mask is the caller's to pass; silence would turn the layer into another one.
void add_keras_options(std::vector<FoundLayer>& layers, const Metadata& metadata) {
  const auto document = metadata.find("config.json");
  if (document == metadata.end()) return;
  const auto options = layouts::keras_options(document->second);
  for (FoundLayer& layer : layers) {
    const auto found = options.find(layer.name.substr(layer.name.rfind('/') + 1));
    if (layer.layout != WeightLayout::Keras || found == options.end()) continue;
    const layouts::KerasOptions& own = found->second;
    if (layer.config) layer.config->dropout = own.dropout;
    if (own.sliding_window) {
      layer.notes.push_back("layer '" + layer.name + "' has sliding_window " +
                            std::to_string(*own.sliding_window) +
                            ", a mask that is outside the weights");
    }
    if (!own.attends_tokens()) {
      layer.notes.push_back("layer '" + layer.name + "' has attention_axes " + own.attention_axes +
                            " of " + std::to_string(own.input_axes) +
                            " axes; here it attends over the tokens of (batch, tokens, features)");
    }
  }
}

}  // namespace

std::vector<FoundLayer> find_layers(std::span<const NamedShape> tensors, const Metadata& metadata,
                                    const LayerHints& hints) {
  const std::vector<Group> groups = layouts::group_by_name(tensors);
  std::vector<FoundLayer> layers;
  layers.reserve(groups.size());
  for (const Group& group : groups) layers.push_back(found_layer(group, metadata, hints));

  add_keras_options(layers, metadata);
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
