// headwise inspect: what a file holds, and what the heads of its attention layers do.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "inspect_report.h"
#include "layer_source.h"
#include "option_checks.h"
#include "outputs.h"
#include "terminal/progress.h"
#include "usage_error.h"

namespace headwise::cli {

namespace {

struct InspectOptions {
  std::string file = {};
  std::string layer = {};
  LayerHints hints = {};
  SpectraOptions spectra = {};
  ReportOptions report = {};
  bool json = false;
  std::string plot = {};
};

// A file without attention layers: what it has instead is the best hint.
[[noreturn]] void complain_of_no_layers(const TensorFile& file) {
  constexpr std::size_t kFirst = 3;
  std::string problem = "no attention layer";
  const auto& tensors = file.tensors();
  if (file.format() == "npy")
    throw FileError(file.path(), problem + " in one array without a name");
  for (std::size_t i = 0; i < std::min(tensors.size(), kFirst); ++i) {
    problem +=
        (i == 0 ? " among " : ", ") + ("'" + tensors[i].name) + "' " + tensors[i].shape.to_string();
  }
  if (tensors.size() > kFirst) problem += ", …";
  throw FileError(file.path(), problem + " (" + std::to_string(tensors.size()) +
                                   " tensors; --tensors lists them)");
}

std::vector<FoundLayer> layers_to_inspect(const LayerSource& source,
                                          const InspectOptions& options) {
  if (!options.layer.empty()) return {source.choose(options.layer)};
  if (source.layers().empty() && !options.report.list_tensors) complain_of_no_layers(source.file());
  return source.layers();
}

// One layer after the other: only one layer's weights are in memory.
void inspect_layers(const LayerSource& source, const SpectraOptions& options,
                    std::vector<InspectedLayer>& layers) {
  constexpr std::int64_t kStepsPerHead = 4;
  std::int64_t steps = 0;
  for (const InspectedLayer& layer : layers) {
    if (layer.found.config) steps += kStepsPerHead * layer.found.config->num_heads;
  }
  terminal::ProgressBar bar("inspect", steps);
  std::int64_t before = 0;
  for (InspectedLayer& layer : layers) {
    // One layer among others that cannot be read is part of the report; all of them, a failure.
    if (!layer.found.config && steps > 0) continue;
    const std::string& name = layer.found.name;
    bar.show(before, name);
    const LayerParts parts = source.read(layer.found);
    SpectraOptions with_progress = options;
    with_progress.progress = [&](std::int64_t done, std::int64_t) {
      bar.show(before + done, name);
    };
    layer.spectra = inspect_heads(parts, with_progress);
    before += kStepsPerHead * parts.config.num_heads;
  }
}

// The picture to its file or to standard output, the text to standard output or beside the picture.
void tell(const InspectReport& report, const InspectOptions& options) {
  std::FILE* said = options.plot == "-" ? stderr : stdout;
  if (options.plot == "-") {
    const std::string picture = inspect_plot(report);
    std::fwrite(picture.data(), 1, picture.size(), stdout);
  } else if (!options.plot.empty()) {
    write_file(options.plot, inspect_plot(report));
  }
  const std::string text =
      options.json ? inspect_json(report, options.report) : inspect_text(report, options.report);
  std::fputs(text.c_str(), said);
  if (!options.plot.empty() && options.plot != "-" && !options.json) {
    std::fprintf(said, "\nPicture: %s\n", options.plot.c_str());
  }
}

void inspect(const InspectOptions& options) {
  if (!options.plot.empty() && options.report.list_tensors) {
    throw UsageError("--plot: not with --tensors, which looks at no head");
  }
  check_outputs({{"--plot", options.plot, {".png"}}});
  const LayerSource source = LayerSource::open(options.file, options.hints);
  InspectReport report{source.file().path(),
                       std::string(source.file().format()),
                       source.file().tensors(),
                       source.layers().size(),
                       {},
                       options.spectra};
  for (FoundLayer& found : layers_to_inspect(source, options)) {
    report.layers.push_back({std::move(found)});
  }
  if (!options.report.list_tensors) inspect_layers(source, options.spectra, report.layers);
  tell(report, options);
}

}  // namespace

void declare_inspect(CLI::App& command) {
  auto options = std::make_shared<InspectOptions>();
  command
      .add_option("FILE", options->file,
                  "weights: safetensors, npz, .weights.h5, .keras, or a Hugging Face folder")
      ->type_name("FILE")
      ->required();
  command
      .add_option("--layer", options->layer,
                  "only this layer: its name, its place, or a part of the name")
      ->type_name("NAME");
  command.add_flag("--json", options->json, "everything as JSON, singular values too");
  command
      .add_option("--plot", options->plot,
                  "draw the singular values of all heads as a PNG; - for standard output")
      ->type_name("FILE");
  command.add_flag("--values", options->report.singular_values, "print all singular values");
  command.add_flag("--tensors", options->report.list_tensors,
                   "list the file's tensors and layers, and look at no head");
  constexpr double kUnlimited = std::numeric_limits<double>::infinity();
  const auto threshold = [&](const char* name, double& value, const char* text) {
    return command.add_option(name, value, text)->type_name("X")->group("Thresholds");
  };
  threshold("--dead", options->spectra.dead_below,
            "a head is dead below this part of the layer's median norm of W_v·W_o (0.01)")
      ->check(number_within(0.0, kUnlimited));
  threshold("--uniform", options->spectra.uniform_below,
            "a head is uniform if its scores spread less than this (0.01)")
      ->check(number_within(0.0, kUnlimited));
  threshold("--alike", options->spectra.alike_above,
            "two heads are alike from this similarity on, -1 to 1 (0.9)")
      ->check(number_within(-1.0, 1.0));
  const auto size = [&](const char* name, std::optional<std::int64_t>& value, const char* text) {
    command.add_option(name, value, text)
        ->type_name("N")
        ->group("Sizes that the file does not tell")
        ->check(whole_number(1));
  };
  size("--heads", options->hints.num_heads, "query heads");
  size("--kv-heads", options->hints.num_kv_heads, "key/value heads (as many)");
  size("--key-dim", options->hints.key_dim, "size of a query and key head");
  command.add_option("--threads", options->spectra.threads, "threads (as many as CPUs)")
      ->type_name("N")
      ->check(whole_number(1, kMostThreads));
  command.callback([options] { inspect(*options); });
}

}  // namespace headwise::cli
