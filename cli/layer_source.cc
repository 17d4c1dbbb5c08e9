#include "layer_source.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "headwise/error.h"
#include "library_words.h"
#include "suggestion.h"
#include "terminal/printable.h"
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
  for (LayerHints& tower : hints.towers) tower = with_sizes(std::move(tower), given);
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

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_separator(char c) { return c == '.' || c == '/'; }

// Whether `part` stands in `name` with an end of it, or something that `may_bound` allows, on both
// sides.
template <typename MayBound>
bool holds_within(const std::string& name, const std::string& part, const MayBound& may_bound) {
  for (std::size_t begin = name.find(part); begin != std::string::npos;
       begin = name.find(part, begin + 1)) {
    const std::size_t end = begin + part.size();
    const bool before = begin == 0 || may_bound(name[begin - 1], name[begin]);
    const bool behind = end == name.size() || may_bound(name[end], name[end - 1]);
    if (before && behind) return true;
  }
  return false;
}

// "layer.1" in "encoder.layer.1.attention".
bool holds_parts(const std::string& name, const std::string& part) {
  return holds_within(name, part, [](char outside, char) { return is_separator(outside); });
}

// "ayer.1" there too, but not in "encoder.layer.10.attention": half a number is another one.
bool holds_text(const std::string& name, const std::string& part) {
  return holds_within(name, part, [](char outside, char inside) {
    return !is_digit(outside) || !is_digit(inside);
  });
}

std::vector<const FoundLayer*> holding(const std::vector<FoundLayer>& layers,
                                       const std::string& part,
                                       bool (*holds)(const std::string&, const std::string&)) {
  std::vector<const FoundLayer*> found;
  for (const FoundLayer& layer : layers) {
    if (holds(layer.name, part)) found.push_back(&layer);
  }
  return found;
}

}  // namespace

std::string title_of(const FoundLayer& layer) {
  const std::string name =
      layer.name.empty() ? "the layer" : "layer '" + terminal::printable(layer.name) + "'";
  return name + " (" + std::string(name_of(layer.layout)) + ")";
}

std::vector<std::string> notes_of(const FoundLayer& layer) {
  std::vector<std::string> notes = layer.notes;
  for (std::string& note : notes) note = terminal::printable(note);
  return notes;
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
  for (const FoundLayer& layer : layers_) {
    if (layer.name == name) return layer;
  }
  if (const FoundLayer* layer = at_place(layers_, name)) return *layer;
  for (const auto& holds : {holds_parts, holds_text}) {
    const std::vector<const FoundLayer*> found = holding(layers_, name, holds);
    if (found.size() == 1) return *found.front();
    if (found.size() > 1) {
      throw UsageError("--layer: '" + name + "' is part of several names, such as '" +
                       found[0]->name + "' and '" + found[1]->name + "'");
    }
  }
  std::vector<std::string> names;
  names.reserve(layers_.size());
  for (const FoundLayer& layer : layers_) names.push_back(layer.name);
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
