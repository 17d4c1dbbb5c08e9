#include "layer_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "commands.h"
#include "layer_source.h"
#include "option_checks.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

constexpr std::int64_t kDefaultHeads = 8;

void refuse_with_weights(bool given, const char* option) {
  if (given) throw UsageError(std::string(option) + ": the file of --weights tells this itself");
}

// Of a path: what it leads to, be it a file or a folder.
std::string last_part(const std::string& path) {
  const std::filesystem::path whole = std::filesystem::absolute(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

ChosenLayer from_file(const LayerOptions& options) {
  refuse_with_weights(options.value_dim.has_value(), "--value-dim");
  refuse_with_weights(options.output_features.has_value(), "--output-features");
  refuse_with_weights(options.no_bias, "--no-bias");
  refuse_with_weights(options.gate, "--gate");
  const LayerSource source = LayerSource::open(options.weights, options.hints());
  const FoundLayer& layer = source.choose(options.layer);
  const std::string title = title_of(layer) + " of ";
  return {source.read(layer), title + options.weights, title + last_part(options.weights),
          notes_of(layer)};
}

AttentionConfig random_config(const LayerOptions& options, const InputFeatures& features) {
  if (!options.layer.empty()) throw UsageError("--layer: needs --weights FILE");
  if (!features.query) {
    throw UsageError(
        "an input is missing: give --input FILE.npy, or --shape B,T,FEATURES for a "
        "random one, or --weights FILE");
  }
  AttentionConfig config;
  config.num_heads = options.heads.value_or(kDefaultHeads);
  config.num_kv_heads = options.kv_heads;
  if (!options.key_dim && *features.query % config.num_heads != 0) {
    throw UsageError("--key-dim: say the size of a head; " + std::to_string(*features.query) +
                     " features are not a multiple of " + std::to_string(config.num_heads) +
                     " heads");
  }
  config.key_dim = options.key_dim ? *options.key_dim : *features.query / config.num_heads;
  config.value_dim = options.value_dim;
  config.query_features = *features.query;
  config.key_features = features.key;
  config.value_features = features.value;
  config.output_features = options.output_features;
  config.use_bias = !options.no_bias;
  config.use_gate = options.gate;
  config.seed = options.seed;
  validate(config);
  return config;
}

}  // namespace

LayerHints LayerOptions::hints() const { return {heads, kv_heads, key_dim}; }

void declare_layer_options(CLI::App& command, LayerOptions& options) {
  const std::string group = "Layer";
  command
      .add_option("--weights", options.weights,
                  "take the layer from a file: safetensors, npz, .weights.h5, .keras, or a "
                  "Hugging Face folder")
      ->type_name("FILE")
      ->group(group);
  command
      .add_option("--layer", options.layer,
                  "which of the file's layers: its name, its place, or a part of the name")
      ->type_name("NAME")
      ->group(group);
  const auto size = [&](const char* name, std::optional<std::int64_t>& value, const char* text) {
    command.add_option(name, value, text)->type_name("N")->group(group)->check(whole_number(1));
  };
  size("--heads", options.heads,
       "query heads; of a file that does not tell them, or of random "
       "weights (8)");
  size("--kv-heads", options.kv_heads, "key/value heads, a divisor of --heads (as many)");
  size("--key-dim", options.key_dim, "size of a query and key head (features / heads)");
  size("--value-dim", options.value_dim, "size of a value head (--key-dim)");
  size("--output-features", options.output_features, "features of the output (the query's)");
  command.add_flag("--no-bias", options.no_bias, "projections without biases")->group(group);
  command.add_flag("--gate", options.gate, "multiply the heads by a gate, sigmoid(query·W + b)")
      ->group(group);
  command.add_option("--seed", options.seed, "of random weights and inputs (0)")
      ->type_name("N")
      ->group(group)
      ->check(whole_number(0));
}

ChosenLayer choose_layer(const LayerOptions& options, const InputFeatures& features) {
  if (!options.weights.empty()) return from_file(options);
  const AttentionConfig config = random_config(options, features);
  const std::string title = "random weights, seed " + std::to_string(options.seed);
  return {{config, AttentionWeights::glorot(config, options.seed)}, title, title, {}};
}

}  // namespace headwise::cli
