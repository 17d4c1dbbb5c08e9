#include "layer_source.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "headwise/error.h"
#include "library_words.h"
#include "suggestion.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

// Hugging Face keeps a model's sizes in a file of this name beside the weights.
std::string config_beside(const std::string& path) {
  constexpr std::uintmax_t kLargest = 1U << 20U;
  std::error_code error;
  std::filesystem::path folder = path;
  if (!std::filesystem::is_directory(folder, error)) folder = folder.parent_path();
  const std::filesystem::path config = folder / "config.json";
  const std::uintmax_t size = std::filesystem::file_size(config, error);
  if (error || size > kLargest) return "";
  std::ifstream file(config, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

LayerHints hints_beside(const std::string& path) {
  const std::string config_json = config_beside(path);
  try {
    return config_json.empty() ? LayerHints() : hints_from_config(config_json);
  } catch (const ArgumentError&) {
    return {};  // some other program's config.json
  }
}

// Sizes of a file and of the command line are not mixed: 6 heads of the one do not go with the head
// size of the other.
LayerHints with_sizes(LayerHints hints, const LayerHints& given) {
  hints.num_heads = given.num_heads;
  hints.num_kv_heads = given.num_kv_heads;
  hints.key_dim = given.key_dim;
  return hints;
}

// A layer without a name has its place alone.
std::string names_of(const std::vector<FoundLayer>& layers) {
  constexpr std::size_t kMost = 8;
  std::string text;
  for (std::size_t i = 0; i < layers.size() && i < kMost; ++i) {
    const std::string name = layers[i].name.empty() ? std::to_string(i) + " (without a name)"
                                                    : "'" + layers[i].name + "'";
    text += (i == 0 ? "" : ", ") + name;
  }
  if (layers.size() > kMost) text += ", … (" + std::to_string(layers.size()) + " in all)";
  return text;
}

const FoundLayer* at_place(const std::vector<FoundLayer>& layers, const std::string& text) {
  std::size_t place = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, place);
  return error == std::errc() && stop == end && place < layers.size() ? &layers[place] : nullptr;
}

}  // namespace

std::string title_of(const FoundLayer& layer) {
  const std::string name = layer.name.empty() ? "the layer" : "layer '" + layer.name + "'";
  return name + " (" + std::string(name_of(layer.layout)) + ")";
}

LayerSource LayerSource::open(const std::string& path, const LayerHints& hints) {
  LayerSource source(TensorFile::open(path), hints);
  std::vector<NamedShape> tensors;
  for (const TensorInfo& tensor : source.file_.tensors()) {
    tensors.push_back({tensor.name, tensor.shape});
  }
  const Metadata& metadata = source.file_.metadata();
  const LayerHints told = hints_beside(path);
  try {
    source.layers_ = find_layers(tensors, metadata, told);
    if (!hints.num_heads && !hints.num_kv_heads && !hints.key_dim) return source;
    const std::vector<FoundLayer> again = find_layers(tensors, metadata, with_sizes(told, hints));
    for (std::size_t i = 0; i < again.size(); ++i) {
      if (!source.layers_[i].config) source.layers_[i] = again[i];
    }
  } catch (const ArgumentError& error) {
    throw FileError(path, problem_of(error));
  }
  return source;
}

const AttentionConfig& LayerSource::config_of(const FoundLayer& layer) const {
  if (!layer.config) {
    // What would help is an option of this program, of which the library knows nothing.
    const bool heads = layer.missing.find("number of heads") != std::string::npos;
    throw FileError(file_.path(), title_of(layer) + ": " + layer.missing +
                                      (heads ? "; say it by --heads N" : ""));
  }
  const auto expect = [&](const char* option, std::optional<std::int64_t> said, std::int64_t is) {
    if (said.value_or(is) == is) return;
    throw UsageError(std::string(option) + ": expected " + std::to_string(is) + ", which " +
                     title_of(layer) + " has, got " + std::to_string(*said));
  };
  expect("--heads", given_.num_heads, layer.config->num_heads);
  expect("--kv-heads", given_.num_kv_heads, layer.config->kv_heads());
  expect("--key-dim", given_.key_dim, layer.config->key_dim);
  return *layer.config;
}

const FoundLayer& LayerSource::choose(const std::string& name) const {
  if (layers_.empty()) {
    throw FileError(file_.path(), "no attention layer among its " +
                                      std::to_string(file_.tensors().size()) + " tensors");
  }
  if (name.empty() && layers_.size() == 1) return layers_.front();
  if (name.empty()) {
    throw UsageError("--layer: " + file_.path() +
                     " has several layers, say which: " + names_of(layers_));
  }
  std::vector<const FoundLayer*> partly;
  std::vector<std::string> names;
  for (const FoundLayer& layer : layers_) {
    if (layer.name == name) return layer;
    if (layer.name.find(name) != std::string::npos) partly.push_back(&layer);
    names.push_back(layer.name);
  }
  if (const FoundLayer* layer = at_place(layers_, name)) return *layer;
  if (partly.size() == 1) return *partly.front();
  if (partly.size() > 1) {
    throw UsageError("--layer: '" + name + "' is part of several names, such as '" +
                     partly[0]->name + "' and '" + partly[1]->name + "'");
  }
  const std::string near = nearest(name, names);
  throw UsageError(
      "--layer: no layer '" + name + "'" +
      (near.empty() ? "; there are " + names_of(layers_) : "; did you mean '" + near + "'?"));
}

LayerParts LayerSource::read(const FoundLayer& layer) const {
  (void)config_of(layer);
  try {
    return read_layer(layer, [&](const std::string& tensor) { return file_.read(tensor); });
  } catch (const ArgumentError& error) {
    throw FileError(file_.path(), title_of(layer) + ": " + problem_of(error));
  }
}

}  // namespace headwise::cli
