// headwise convert: the same layers in another library's layout.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "arrays.h"
#include "commands.h"
#include "convert_changes.h"
#include "convert_report.h"
#include "convert_target.h"
#include "headwise/error.h"
#include "layer_source.h"
#include "library_words.h"
#include "option_checks.h"
#include "outputs.h"
#include "terminal/progress.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

struct ConvertOptions {
  std::string in = {};
  std::string out = {};
  std::string to = {};
  std::string layer = {};
  std::optional<std::string> name = {};
  LayerHints hints = {};
  std::optional<std::int64_t> key_dim = {};
  std::string fold = {};
  std::string fold_shift = {};
  std::optional<std::string> fold_into = {};
  bool force = false;
};

ConvertChanges changes_of(const ConvertOptions& options) {
  ConvertChanges changes;
  changes.key_dim = options.key_dim;
  if (options.fold.empty()) {
    if (!options.fold_shift.empty()) throw UsageError("--fold-shift: needs --fold MAP");
    if (options.fold_into) throw UsageError("--fold-into: needs --fold MAP");
    return changes;
  }
  changes.fold_into = projections("--fold-into", options.fold_into.value_or("query,key,value"));
  changes.map = read_floats("--fold", options.fold);
  if (changes.map.rank() != 2 || changes.map.size() == 0) {
    throw UsageError("--fold: expected a matrix (new features, old features), got shape " +
                     changes.map.shape().to_string());
  }
  if (!options.fold_shift.empty()) changes.shift = read_floats("--fold-shift", options.fold_shift);
  return changes;
}

// A file is not replaced by accident, nor is the work done for a folder that is not there.
void check_out(const ConvertOptions& options, const ConvertTarget& target) {
  check_outputs({{"OUT", target.path, {extension_of(target.container)}}});
  std::error_code error;
  if (options.force || !std::filesystem::exists(options.out, error)) return;
  const bool same = std::filesystem::equivalent(options.in, options.out, error);
  throw UsageError("OUT: " + options.out + (same ? " is IN itself" : " exists") +
                   "; --force replaces it");
}

std::vector<const FoundLayer*> chosen(const LayerSource& source, const ConvertOptions& options) {
  if (!options.layer.empty() || source.layers().size() <= 1) {
    return {&source.choose(options.layer)};
  }
  if (options.name) throw UsageError("--name: the file has several layers; pick one with --layer");
  std::vector<const FoundLayer*> all;
  for (const FoundLayer& layer : source.layers()) all.push_back(&layer);
  return all;
}

// Rotary positions turn pairs of numbers of a head; a smaller head mixes those, and a norm's too.
void check_key_dim(const FoundLayer& layer, const ConvertChanges& changes) {
  if (!changes.key_dim) return;
  if (layer.rotary) {
    throw UsageError("--key-dim: not for " + title_of(layer) +
                     ", whose rotary positions act on the numbers that smaller heads mix");
  }
  if (layer.config && layer.config->qk_norm != QkNorm::None) {
    throw UsageError("--key-dim: not for " + title_of(layer) +
                     ", whose norms act on the numbers that smaller heads mix");
  }
}

// A Keras model is made with outputs of one axis.
void check_output_axes(const FoundLayer& layer, const ConvertTarget& target) {
  if (target.layout != WeightLayout::Keras || layer.output_axes.empty()) return;
  throw UsageError("--to keras: not for " + title_of(layer) + ", whose output_shape " +
                   Shape(std::span(layer.output_axes)).to_string() +
                   " has several axes and would become one");
}

// Throws FileError if the layer is not what it should be afterwards.
ChangedLayer checked_change(const LayerSource& source, const FoundLayer& layer,
                            const LayerParts& parts, const ConvertChanges& changes,
                            bool default_scale) {
  const auto fail = [&](const std::string& problem) {
    throw FileError(source.file().path(), title_of(layer) + ": " + problem);
  };
  try {
    ChangedLayer result = changed(parts, changes, default_scale);
    if (const std::string problem = result.problem(); !problem.empty()) fail(problem);
    return result;
  } catch (const ArgumentError& error) {
    if (error.argument() == "layer") fail(problem_of(error).substr(std::string("layer: ").size()));
    throw;  // the map or the size, which options brought
  }
}

void convert(const ConvertOptions& options) {
  const ConvertTarget target = convert_target(options.out, options.to);
  check_out(options, target);
  const ConvertChanges changes = changes_of(options);
  const LayerSource source = LayerSource::open(options.in, options.hints);
  const std::vector<const FoundLayer*> found = chosen(source, options);

  ConvertReport report(source, target);
  std::vector<NamedLayer> layers;
  {
    terminal::ProgressBar progress("reading", static_cast<std::int64_t>(found.size()));
    for (const FoundLayer* layer : found) {
      check_key_dim(*layer, changes);
      check_output_axes(*layer, target);
      LayerParts parts = source.read(*layer);
      if (changes.any()) {
        ChangedLayer result =
            checked_change(source, *layer, parts, changes, target.layout != WeightLayout::Headwise);
        parts = std::move(result.parts);
        report.add_change(layer->name, result);
      }
      report.add_source(*layer);
      const std::string name = options.name.value_or(layer->name);
      layers.push_back({target.name_for(name), std::move(parts)});
      report.add_name(name, layers.back().name);
      progress.show(static_cast<std::int64_t>(layers.size()), layer->name);
    }
  }
  const StoredLayer stored = stored_as(target, layers);
  write(target, stored, layers);
  std::fputs(report.to_string(layers).c_str(), stdout);
}

}  // namespace

void declare_convert(CLI::App& command) {
  auto options = std::make_shared<ConvertOptions>();
  command
      .add_option("IN", options->in,
                  "safetensors, npz, .weights.h5, .keras, or a Hugging Face folder")
      ->required();
  command
      .add_option(
          "OUT", options->out,
          "the new file; its extension says what it is: .safetensors, .npz, .weights.h5, .keras")
      ->required();
  command
      .add_option("--to", options->to,
                  "layout: keras, torch, flax, d2l, bert, llama, gpt2 or headwise")
      ->type_name("LAYOUT")
      ->required()
      ->check(one_of({"keras", "torch", "flax", "d2l", "bert", "llama", "gpt2", "headwise"}));
  command
      .add_option("--layer", options->layer,
                  "this layer alone: its name, place or part of the name")
      ->type_name("NAME");
  command
      .add_option("--name", options->name,
                  "what the layer is called in OUT (as in IN); '' for tensors without a name in "
                  "front, as a torch layer's own state_dict has them")
      ->type_name("NAME");
  command
      .add_option("--heads", options->hints.num_heads, "query heads, where IN does not tell them")
      ->type_name("N")
      ->check(whole_number(1));
  command
      .add_option("--kv-heads", options->hints.num_kv_heads,
                  "key/value heads, where IN does not tell them")
      ->type_name("N")
      ->check(whole_number(1));
  command.add_flag("--force", options->force, "replace OUT if it exists; IN may be OUT");
  const std::string group = "Changes";
  command
      .add_option("--key-dim", options->key_dim,
                  "re-factor every head to this key_dim by a truncated SVD; prints the error")
      ->type_name("N")
      ->group(group)
      ->check(whole_number(1));
  command
      .add_option("--fold", options->fold,
                  "fold a linear map (new features, old features), npy: OUT gives for x what IN "
                  "gives for x·map")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--fold-into", options->fold_into,
                  "the projections that take it (query,key,value)")
      ->type_name("LIST")
      ->group(group);
  command.add_option("--fold-shift", options->fold_shift, "also fold this: x·map + shift")
      ->type_name("FILE")
      ->group(group);
  command.callback([options] { convert(*options); });
}

}  // namespace headwise::cli
