#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <utility>

#include "commands.h"
#include "headwise/context.h"
#include "headwise/error.h"
#include "inspect_report.h"
#include "layer_source.h"
#include "library_words.h"
#include "option_checks.h"
#include "plan.h"
#include "usage_error.h"
#include "values.h"

namespace headwise::cli {

namespace {

struct CallSizes {
  std::int64_t batch = 1;
  std::int64_t length = 0;
  std::optional<std::int64_t> features = {};
};

CallSizes sizes_of(const PlanOptions& options) {
  if (options.shape.empty()) {
    throw UsageError("--shape: missing; say BATCH,LENGTH,FEATURES, for example --shape 32,128,512");
  }
  const std::vector<std::int64_t> shape = integers("--shape", options.shape);
  const bool positive =
      std::all_of(shape.begin(), shape.end(), [](std::int64_t extent) { return extent >= 1; });
  const bool complete = shape.size() == 3 || (shape.size() == 2 && !options.layer.weights.empty());
  if (!positive || !complete) {
    throw UsageError("--shape: expected BATCH,LENGTH,FEATURES, for example 32,128,512, got '" +
                     options.shape + "'");
  }
  if (shape.size() == 2) return {shape[0], shape[1], std::nullopt};
  return {shape[0], shape[1], shape[2]};
}

LayerCall call_of(const PlanOptions& options, const CallSizes& sizes) {
  return {.batch = sizes.batch,
          .queries = sizes.length,
          .keys = options.keys,
          .mask = options.positions.mask(sizes.length, options.keys.value_or(sizes.length)),
          .training = options.training};
}

void refuse_with_weights(bool given, const char* option) {
  if (given) throw UsageError(std::string(option) + ": the file of --weights tells this itself");
}

AttentionConfig config_from_file(const PlanOptions& options, const CallSizes& sizes) {
  refuse_with_weights(options.layer.value_dim.has_value(), "--value-dim");
  refuse_with_weights(options.layer.output_features.has_value(), "--output-features");
  refuse_with_weights(options.key_features.has_value(), "--key-features");
  refuse_with_weights(options.value_features.has_value(), "--value-features");
  refuse_with_weights(options.layer.no_bias, "--no-bias");
  refuse_with_weights(options.layer.gate, "--gate");
  const LayerSource source = LayerSource::open(options.layer.weights, options.layer.hints());
  const FoundLayer& layer = source.choose(options.layer.layer);
  const AttentionConfig& config = source.config_of(layer);
  const std::int64_t features = config.query_features;
  if (sizes.features && *sizes.features != features) {
    throw UsageError("--shape: " + title_of(layer) + " has " + std::to_string(features) +
                     " features, not " + std::to_string(*sizes.features));
  }
  return config;
}

// What all layers of a comparison share; heads and their sizes are still open.
AttentionConfig shared_config(const PlanOptions& options, const CallSizes& sizes) {
  if (!options.layer.layer.empty()) throw UsageError("--layer: needs --weights FILE");
  AttentionConfig config;
  config.num_kv_heads = options.layer.kv_heads;
  config.query_features = *sizes.features;
  config.key_features = options.key_features;
  config.value_features = options.value_features;
  config.output_features = options.layer.output_features;
  config.use_bias = !options.layer.no_bias;
  config.use_gate = options.layer.gate;
  config.seed = options.layer.seed;
  return config;
}

AttentionConfig single_config(const PlanOptions& options, const CallSizes& sizes) {
  AttentionConfig config = shared_config(options, sizes);
  if (!options.layer.heads) {
    throw UsageError(
        "--heads: missing; say how many heads the layer has, or several choices by --compare "
        "4x128,8x64");
  }
  config.num_heads = *options.layer.heads;
  if (!options.layer.key_dim && config.query_features % config.num_heads != 0) {
    throw UsageError("--key-dim: say the size of a head; " + std::to_string(config.query_features) +
                     " features are not a multiple of " + std::to_string(config.num_heads) +
                     " heads");
  }
  config.key_dim = options.layer.key_dim.value_or(config.query_features / config.num_heads);
  config.value_dim = options.layer.value_dim;
  return config;
}

// Takes `name` and a number off the front of `text`; nothing if it begins otherwise.
std::optional<std::int64_t> take_number(std::string_view name, std::string_view& text) {
  if (!text.starts_with(name)) return std::nullopt;
  const std::string_view rest = text.substr(name.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), value);
  if (error != std::errc() || value < 1) return std::nullopt;
  text = rest.substr(static_cast<std::size_t>(end - rest.data()));
  return value;
}

// "8x64", "8x64v32", "8x64kv2", "8x64v32kv2"
AttentionConfig compared_config(AttentionConfig config, const std::string& label) {
  std::string_view text = label;
  const auto heads = take_number("", text);
  const auto key_dim = take_number("x", text);
  const auto value_dim = take_number("v", text);
  const auto kv_heads = take_number("kv", text);
  if (!heads || !key_dim || !text.empty()) {
    throw UsageError(
        "--compare: expected HEADSxKEY_DIM, with vVALUE_DIM and kvKV_HEADS behind it if you like, "
        "for example 8x64,16x32,8x64v32,8x64kv2, got '" +
        label + "'");
  }
  config.num_heads = *heads;
  config.key_dim = *key_dim;
  config.value_dim = value_dim;
  if (kv_heads) config.num_kv_heads = kv_heads;
  return config;
}

std::vector<PlanLayer> compared_layers(const PlanOptions& options, const CallSizes& sizes) {
  if (!options.layer.weights.empty() || options.layer.heads || options.layer.key_dim ||
      options.layer.value_dim) {
    throw UsageError(
        "--compare: says heads and sizes itself; leave out --weights, --heads, --key-dim and "
        "--value-dim");
  }
  const AttentionConfig shared = shared_config(options, sizes);
  std::vector<PlanLayer> layers;
  for (std::size_t begin = 0; begin <= options.compare.size();) {
    const std::size_t end = std::min(options.compare.find(',', begin), options.compare.size());
    const std::string label = options.compare.substr(begin, end - begin);
    const AttentionConfig config = compared_config(shared, label);
    try {
      validate(config);
    } catch (const ArgumentError& error) {
      throw UsageError("--compare: " + label + ": " + problem_of(error));
    }
    layers.push_back({label, {config, call_of(options, sizes)}});
    begin = end + 1;
  }
  return layers;
}

}  // namespace

void declare_plan_options(CLI::App& command, PlanOptions& options) {
  const auto text = [&](const char* name, std::string& value, const char* type, const char* meaning,
                        const char* group) {
    return command.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  const auto number = [&](const char* name, std::optional<std::int64_t>& value, const char* meaning,
                          const char* group) {
    command.add_option(name, value, meaning)->type_name("N")->group(group)->check(whole_number(1));
  };
  declare_layer_options(command, options.layer);
  command.get_option("--heads")->description(
      "query heads; needed unless --compare or the file of --weights tells them");
  command.get_option("--seed")->description("of the layer that --measure runs (0)");
  number("--key-features", options.key_features, "features of the key input (the query's)",
         "Layer");
  number("--value-features", options.value_features, "features of the value input (the key's)",
         "Layer");
  text(
      "--compare", options.compare, "LIST",
      "several layers as one table, HEADSxKEY_DIM[vVALUE_DIM][kvKV_HEADS] with commas between them",
      "Layer");
  const char* call = "Call";
  text("--shape", options.shape, "B,T,D", "batch, queries of a sequence, features of the query",
       call);
  number("--keys", options.keys, "keys and values of a sequence (T)", call);
  declare_position_options(command, options.positions, call);
  command.add_flag("--training", options.training, "forward and backward, and what they keep")
      ->group(call);
  const char* machine = "Machine";
  command.add_option("--threads", options.threads, "threads to plan for (all CPUs)")
      ->type_name("N")
      ->group(machine)
      ->check(whole_number(1, kMostThreads));
  text("--target", options.target, "NAME",
       "kernels to plan for: avx512, avx2, sse4, neon (the best this CPU has)", machine)
      ->check(one_of({"avx512", "avx2", "sse4", "neon"}));
  text("--machine", options.machine, "FILE",
       "predict for the machine of an earlier --json output instead of measuring this one",
       machine);
  command.add_flag("--measure", options.measure, "run the layer for real beside the prediction")
      ->group(machine);
  command.add_flag("--json", options.json, "everything as JSON");
}

PlanRequest plan_request(const PlanOptions& options) {
  if (options.measure && !options.machine.empty()) {
    throw UsageError("--measure: runs on this machine; leave out --machine");
  }
  if (!options.target.empty() && !options.machine.empty()) {
    throw UsageError("--target: the file of --machine tells this itself");
  }
  const CallSizes sizes = sizes_of(options);
  PlanRequest request;
  if (!options.compare.empty()) {
    request.layers = compared_layers(options, sizes);
  } else {
    const AttentionConfig config = options.layer.weights.empty() ? single_config(options, sizes)
                                                                 : config_from_file(options, sizes);
    request.layers = {{sizes_text(config), {config, call_of(options, sizes)}}};
  }
  request.threads = options.threads.value_or(Context().threads());
  // Throws for a number of threads or a target that cannot be.
  request.target = options.target.empty() ? std::string(default_target()) : options.target;
  return request;
}

}  // namespace headwise::cli
