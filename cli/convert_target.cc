#include "convert_target.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>

#include "headwise/error.h"
#include "headwise/io.h"
#include "library_words.h"
#include "random_inputs.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

constexpr std::pair<const char*, Container> kExtensions[] = {
    {".safetensors", Container::Safetensors},
    {".npz", Container::Npz},
    {".weights.h5", Container::KerasWeights},
    {".keras", Container::KerasModel},
};

Container container_of(const std::string& path) {
  for (const auto& [extension, container] : kExtensions) {
    if (path.ends_with(extension)) return container;
  }
  throw UsageError(
      "OUT: expected a name that ends in .safetensors, .npz, .weights.h5 or .keras, got '" + path +
      "'");
}

bool is_keras_file(Container container) {
  return container == Container::KerasWeights || container == Container::KerasModel;
}

// What an npz, which holds no text, would forget of a layer; empty if nothing.
std::string forgotten(const AttentionConfig& config, WeightLayout layout) {
  AttentionConfig plain;
  plain.key_dim = config.key_dim;
  if (config.score_scale() != plain.score_scale()) return "scale";
  if (config.softcap) return "softcap";
  if (config.add_zero_attn) return "add_zero_attn";
  if (config.qk_norm == QkNorm::None) return "";
  if (layout == WeightLayout::Headwise) return "qk_norm";
  return config.qk_norm_epsilon != plain.qk_norm_epsilon ? "qk_norm_epsilon" : "";
}

std::string title(const NamedLayer& layer) {
  return layer.name.empty() ? "the layer" : "layer '" + layer.name + "'";
}

std::vector<NamedShape> shapes_of(const TensorFile& file) {
  std::vector<NamedShape> shapes;
  for (const TensorInfo& tensor : file.tensors()) shapes.push_back({tensor.name, tensor.shape});
  return shapes;
}

[[noreturn]] void fail_check(const NamedLayer& layer, const std::string& problem) {
  throw std::runtime_error(title(layer) + " was not written: read back, " + problem);
}

// As whoever opens the file will find it. An npz does not tell the number of heads: that reader will
// have to.
FoundLayer found_again(const FoundLayer& found, const std::vector<NamedShape>& shapes,
                       const NamedLayer& layer) {
  if (found.config) return found;
  const AttentionConfig& config = layer.parts.config;
  std::set<std::string> names;
  for (const auto& [key, name] : found.tensors) names.insert(name);
  std::vector<NamedShape> own;
  std::copy_if(shapes.begin(), shapes.end(), std::back_inserter(own),
               [&](const NamedShape& tensor) { return names.contains(tensor.name); });
  const auto again = find_layers(own, {},
                                 {.num_heads = config.num_heads,
                                  .num_kv_heads = config.kv_heads(),
                                  .key_dim = config.key_dim});
  if (again.size() != 1 || !again.front().config) fail_check(layer, found.missing);
  return again.front();
}

// Reads every layer back from the new file and runs it beside the one that it was made from: the same
// bits come out, or this throws std::runtime_error.
void check_written(const ConvertTarget& target, const TensorFile& file,
                   const std::vector<NamedLayer>& layers) {
  const std::vector<NamedShape> shapes = shapes_of(file);
  std::map<std::string, FoundLayer> found;
  for (FoundLayer& layer : find_layers(shapes, file.metadata())) {
    found.emplace(layer.name, std::move(layer));
  }
  for (const NamedLayer& layer : layers) {
    const auto entry = found.find(layer.name);
    if (entry == found.end()) fail_check(layer, "it is not found");
    const FoundLayer again = found_again(entry->second, shapes, layer);
    if (again.layout != target.layout) fail_check(layer, "it has another layout");
    const LayerParts parts =
        read_layer(again, [&](const std::string& name) { return file.read(name); });
    const RandomInputs inputs(layer.parts.config);
    const LayerDifference difference =
        compare_layers(layer.parts, inputs.views(), parts, inputs.views());
    if (!difference.same_bits) {
      fail_check(layer, "it gives other numbers for the same input");
    }
  }
}

}  // namespace

std::string extension_of(Container container) {
  for (const auto& [extension, known] : kExtensions) {
    if (known == container) return extension;
  }
  return "";
}

std::string ConvertTarget::name_for(const std::string& name) const {
  return name.empty() && is_keras_file(container) ? "attention" : name;
}

bool tells_heads(WeightLayout layout) {
  return layout == WeightLayout::Keras || layout == WeightLayout::Flax;
}

ConvertTarget convert_target(const std::string& path, const std::string& layout) {
  const auto named = weight_layout_named(layout);  // which one_of has checked
  const Container container = container_of(path);
  if (is_keras_file(container) && *named != WeightLayout::Keras) {
    throw UsageError("--to " + layout + ": " + path +
                     " holds a Keras model; write .safetensors or .npz, or --to keras");
  }
  return {path, container, *named};
}

StoredLayer stored_as(const ConvertTarget& target, const std::vector<NamedLayer>& layers) {
  StoredLayer all;
  for (const NamedLayer& layer : layers) {
    const std::string lost = forgotten(layer.parts.config, target.layout);
    if (target.container == Container::Npz && !lost.empty()) {
      throw UsageError(title(layer) + ": an npz holds no text and would forget its " + lost +
                       "; write .safetensors");
    }
    try {
      check_layout_holds(target.layout, layer.parts.config);
    } catch (const ArgumentError& error) {
      throw UsageError(title(layer) + " cannot be written as " +
                       std::string(name_of(target.layout)) + ": " + problem_of(error));
    }
    if (is_keras_file(target.container)) continue;  // a model is made of all of them at once
    StoredLayer one = write_layer(layer.parts, target.layout, layer.name);
    all.tensors.merge(one.tensors);
    all.metadata.merge(one.metadata);
    if (!one.tensors.empty()) {
      throw UsageError("two layers would have a tensor '" + one.tensors.begin()->first +
                       "'; pick one with --layer");
    }
  }
  if (is_keras_file(target.container)) all = keras_model_of(layers);
  if (target.container == Container::Npz) all.metadata.clear();
  if (target.container == Container::KerasWeights) {
    std::erase_if(all.metadata, [](const auto& entry) { return entry.first.ends_with(".json"); });
  }
  return all;
}

void write(const ConvertTarget& target, const StoredLayer& stored,
           const std::vector<NamedLayer>& layers) {
  const auto check = [&](const TensorFile& written) { check_written(target, written, layers); };
  switch (target.container) {
    case Container::Safetensors:
      return write_safetensors(target.path, stored.tensors, stored.metadata, check);
    case Container::Npz:
      return write_npz(target.path, stored.tensors, check);
    case Container::KerasWeights:
      return write_keras_weights(target.path, stored.tensors, stored.metadata, check);
    case Container::KerasModel:
      return write_keras_model(target.path, stored.tensors, stored.metadata, check);
  }
}

}  // namespace headwise::cli
