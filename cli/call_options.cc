#include "call_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <thread>
#include <utility>

#include "arrays.h"
#include "commands.h"
#include "option_checks.h"
#include "usage_error.h"
#include "values.h"

namespace headwise::cli {

namespace {

constexpr std::int64_t kDefaultLength = 128;
const std::vector<std::pair<std::string, Axes>>& axes_by_name() {
  static const std::vector<std::pair<std::string, Axes>> all = {
      {"query-key", Axes::QueryKey},          {"batch-query-key", Axes::BatchQueryKey},
      {"head-query-key", Axes::HeadQueryKey}, {"batch-key", Axes::BatchKey},
      {"batch-query", Axes::BatchQuery},      {"batch-head-query-key", Axes::BatchHeadQueryKey},
  };
  return all;
}

std::vector<std::string> axes_names() {
  std::vector<std::string> names;
  for (const auto& [name, axes] : axes_by_name()) names.push_back(name);
  return names;
}

std::optional<Axes> axes_of(const std::string& name) {
  for (const auto& [known, axes] : axes_by_name()) {
    if (name == known) return axes;
  }
  return std::nullopt;  // not said
}

// Rows of a sequence; whatever has another rank is refused by the layer.
std::int64_t rows_of(const Tensor& tensor) {
  return tensor.rank() < 2 ? 0 : tensor.extent(tensor.rank() - 2);
}

Mask mask_of(const CallOptions& options, const Call& call) {
  Mask mask =
      options.positions.mask(rows_of(call.query), rows_of(call.key ? *call.key : call.query));
  if (options.mask.empty()) return mask;
  return mask & keep(read_bools("--mask", options.mask), axes_of(options.mask_axes));
}

void check_inputs(const CallOptions& options) {
  if (!options.input.empty() && !options.query.empty()) {
    throw UsageError("--input and --query say the same: give one of them");
  }
  const bool has_query = !options.input.empty() || !options.query.empty();
  if (has_query && !options.shape.empty()) {
    throw UsageError("--shape: makes a random input, but --input or --query brings one");
  }
  if (!has_query && (!options.key.empty() || !options.value.empty())) {
    throw UsageError("--query: missing, though --key or --value is there");
  }
  if (has_query && options.keys)
    throw UsageError("--keys: only for random inputs; give --key FILE");
  if (!options.mask_axes.empty() && options.mask.empty()) {
    throw UsageError("--mask-axes: needs --mask FILE");
  }
  if (!options.bias_axes.empty() && options.bias.empty()) {
    throw UsageError("--bias-axes: needs --bias FILE");
  }
  const std::array<const std::string*, 6> files = {&options.input, &options.query, &options.key,
                                                   &options.value, &options.mask,  &options.bias};
  if (std::count_if(files.begin(), files.end(), [](const auto* file) { return *file == "-"; }) >
      1) {
    throw UsageError("'-': standard input holds one array, but several options ask for it");
  }
}

std::optional<std::int64_t> features_of(const std::optional<Tensor>& tensor) {
  if (!tensor || tensor->rank() == 0) return std::nullopt;
  return tensor->extent(tensor->rank() - 1);
}

struct Inputs {
  std::optional<Tensor> query, key, value;
};

Inputs read_inputs(const CallOptions& options) {
  Inputs inputs;
  const auto read = [](const char* option, const std::string& path, std::optional<Tensor>& to) {
    if (!path.empty()) to = read_floats(option, path);
  };
  read("--input", options.input, inputs.query);
  read("--query", options.query, inputs.query);
  read("--key", options.key, inputs.key);
  read("--value", options.value, inputs.value);
  return inputs;
}

// Extents of a random query, the last one (features) 0 if not said.
std::vector<std::int64_t> random_shape(const CallOptions& options) {
  if (options.shape.empty()) return {1, kDefaultLength, 0};
  std::vector<std::int64_t> shape = integers("--shape", options.shape);
  const bool layer_tells_features = !options.layer.weights.empty();
  const bool complete =
      shape.size() == 3 ? shape[2] >= 1 : shape.size() == 2 && layer_tells_features;
  if (shape.size() == 2) shape.push_back(0);
  if (!complete || shape[0] < 0 || shape[1] < 0) {
    throw UsageError("--shape: expected BATCH,LENGTH,FEATURES, for example 32,128,512, got '" +
                     options.shape + "'");
  }
  return shape;
}

// Inputs that no file brings, of the layer's sizes.
void make_random(Call& call, const CallOptions& options) {
  std::vector<std::int64_t> shape = random_shape(options);
  const AttentionConfig& config = call.layer.parts.config;
  if (shape[2] == 0) shape[2] = config.query_features;
  const std::uint64_t seed = options.layer.seed;
  call.random_input = true;
  call.query = Tensor::normal({shape[0], shape[1], shape[2]}, seed + 1);
  const bool self = !options.keys && config.key_inputs() == shape[2] &&
                    config.value_inputs() == config.key_inputs();
  if (self) return;
  const std::int64_t keys = options.keys.value_or(shape[1]);
  call.key = Tensor::normal({shape[0], keys, config.key_inputs()}, seed + 2);
  if (config.value_inputs() != config.key_inputs()) {
    call.value = Tensor::normal({shape[0], keys, config.value_inputs()}, seed + 3);
  }
}

}  // namespace

void declare_call_options(CLI::App& command, CallOptions& options) {
  declare_layer_options(command, options.layer);
  const auto text = [&](const char* name, std::string& value, const char* type, const char* meaning,
                        const char* group) {
    return command.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  const char* inputs = "Input";
  text("--input", options.input, "FILE",
       "query, key and value at once: npy, FILE:NAME of a file with several, or - for standard "
       "input",
       inputs);
  text("--query", options.query, "FILE", "(B,T,features), or (T,features) for one sequence",
       inputs);
  text("--key", options.key, "FILE", "(B,S,features) (the query)", inputs);
  text("--value", options.value, "FILE", "(B,S,features) (the key)", inputs);
  text("--shape", options.shape, "B,T,D",
       "a random normal input of this shape; D may be left out if the layer tells it", inputs);
  command.add_option("--keys", options.keys, "random keys and values of this length (T)")
      ->type_name("N")
      ->group(inputs)
      ->check(whole_number(0));
  const char* masks = "Masks";
  declare_position_options(command, options.positions, masks);
  text("--mask", options.mask, "FILE",
       "truth values, true = attend: (T,S), (B,H,T,S), or "
       "--mask-axes says",
       masks);
  text("--mask-axes", options.mask_axes, "AXES",
       "query-key, batch-query-key, head-query-key, batch-key, batch-query or batch-head-query-key",
       masks)
      ->check(one_of(axes_names()));
  text("--bias", options.bias, "FILE", "floats that are added to the scores, axes as for --mask",
       masks);
  text("--bias-axes", options.bias_axes, "AXES", "as --mask-axes", masks)
      ->check(one_of(axes_names()));
  const char* machine = "Machine";
  command.add_option("--threads", options.threads, "threads to use (all CPUs)")
      ->type_name("N")
      ->group(machine)
      ->check(whole_number(1, kMostThreads));
  text("--target", options.target, "NAME",
       "kernels to use: avx512, avx2, sse4, neon, reference (the "
       "best this CPU has)",
       machine)
      ->check(one_of({"avx512", "avx2", "sse4", "neon", "reference"}));
}

std::vector<std::string> given_call_options(const CLI::App& command) {
  const std::array<std::string, 4> groups = {"Layer", "Input", "Masks", "Machine"};
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    const bool of_call =
        std::find(groups.begin(), groups.end(), option->get_group()) != groups.end();
    if (of_call && option->count() > 0) names.push_back(option->get_name());
  }
  return names;
}

AttentionInputs Call::inputs() const {
  AttentionInputs inputs{.query = query};
  if (key) inputs.key = *key;
  if (value) inputs.value = *value;
  return inputs;
}

Context Call::context() const {
  return target.empty() ? Context(threads) : Context(threads, target);
}

Call make_call(const CallOptions& options) {
  check_inputs(options);
  Inputs inputs = read_inputs(options);
  InputFeatures features{features_of(inputs.query), features_of(inputs.key),
                         features_of(inputs.value)};
  if (!inputs.query && !options.shape.empty()) {
    const std::int64_t said = random_shape(options)[2];
    if (said > 0) features.query = said;
  }
  Call call{.layer = choose_layer(options.layer, features)};
  if (inputs.query) {
    call.query = std::move(*inputs.query);
    call.key = std::move(inputs.key);
    call.value = std::move(inputs.value);
  } else {
    make_random(call, options);
  }
  call.options.mask = mask_of(options, call);
  if (!options.bias.empty()) {
    call.options.bias.emplace_back(read_floats("--bias", options.bias), axes_of(options.bias_axes));
  }
  call.threads = options.threads.value_or(Context().threads());
  call.target = options.target;
  return call;
}

}  // namespace headwise::cli
