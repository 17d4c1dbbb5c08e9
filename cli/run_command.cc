// headwise run: one layer on one input, timed.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "call_options.h"
#include "commands.h"
#include "headwise/cost.h"
#include "headwise/machine.h"
#include "layer_json.h"
#include "option_checks.h"
#include "outputs.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

struct RunOptions {
  CallOptions call = {};
  int repeat = 1;
  std::string output = {};
  std::string attention_weights = {};
  bool json = false;
};

struct Timed {
  AttentionResult result;
  std::vector<double> seconds;  // one for each repetition
  CallReport report;
  double peak = 0.0;  // FLOP/s of the machine on the threads used; 0: not known for the target
};

double peak_of(const CallReport& report, double seconds) {
  constexpr std::size_t kNoReads = 0;
  if (report.target == "reference") return 0.0;  // made to be read, not to be fast
  return Yardsticks(std::string(report.target), kNoReads).peak(report.threads, seconds);
}

Timed run_timed(const Call& call, int repeat) {
  constexpr double kPeakSeconds = 0.05;
  const MultiHeadAttention layer(call.layer.parts.config, call.layer.parts.weights);
  Context context = call.context();
  ForwardOptions options = call.options;
  options.context = &context;
  Timed timed;
  // A first call makes threads and scratch memory: it does not count.
  for (int i = 0; i <= repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    timed.result = layer.forward(call.inputs(), options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i > 0) timed.seconds.push_back(elapsed.count());
  }
  timed.report = context.last_call();
  timed.peak = peak_of(timed.report, kPeakSeconds);
  return timed;
}

std::string sizes_of(const AttentionConfig& config) {
  std::string text = std::to_string(config.num_heads) + " heads";
  if (config.kv_heads() != config.num_heads) {
    text += " (" + std::to_string(config.kv_heads()) + " key/value heads)";
  }
  text += " of key_dim " + std::to_string(config.key_dim);
  if (config.value_size() != config.key_dim) {
    text += ", value_dim " + std::to_string(config.value_size());
  }
  return text + ", " + std::to_string(config.query_features) + " → " +
         std::to_string(config.outputs()) + " features";
}

std::string line(const std::string& name, const std::string& text) {
  return terminal::left(name, 8) + " " + text + "\n";
}

LayerCost cost_of(const Call& call) {
  const Tensor& query = call.query;
  const Tensor& key = call.key ? *call.key : query;
  const bool batched = query.rank() == 3;
  return layer_cost(call.layer.parts.config, {.batch = batched ? query.extent(0) : 1,
                                              .queries = query.extent(batched ? 1 : 0),
                                              .keys = key.extent(batched ? 1 : 0),
                                              .mask = call.options.mask});
}

std::string time_text(const std::vector<double>& seconds) {
  if (seconds.size() == 1) {
    return terminal::duration(seconds.front()) +
           ", one call after a first one; --repeat 20 for a median";
  }
  return terminal::duration(quantile(seconds, 0.5)) + ", median of " +
         std::to_string(seconds.size()) + " calls (" +
         terminal::duration(*std::min_element(seconds.begin(), seconds.end())) + " … " +
         terminal::duration(*std::max_element(seconds.begin(), seconds.end())) + ")";
}

std::string threads_text(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string rate_text(const Timed& timed, double flops) {
  const double rate = flops / quantile(timed.seconds, 0.5);
  std::string text = terminal::short_number(rate / 1e9) + " GFLOP/s";
  if (timed.peak <= 0.0) return text;
  return text + ", " + terminal::percent(rate / timed.peak) + " of this machine's " +
         terminal::short_number(timed.peak / 1e9) + " on " + threads_text(timed.report.threads);
}

// Without the reasons, which are in the JSON.
std::string kernel_text(const CallReport& report) {
  std::string text = std::string(report.target) + ", register tile " +
                     std::to_string(report.tile_rows) + "×" + std::to_string(report.tile_columns) +
                     ", " + threads_text(report.threads);
  if (!report.attention.empty()) text += "; " + std::string(report.attention);
  return text;
}

std::vector<OutputFile> outputs_of(const RunOptions& options) {
  return {{"--output", options.output, {".npy"}},
          {"--attention-weights", options.attention_weights, {".npy"}}};
}

std::string written_text(const RunOptions& options) {
  std::string text;
  for (const OutputFile& output : outputs_of(options)) {
    if (!output.path.empty() && output.path != "-") text += line("wrote", output.path);
  }
  return text;
}

std::string report_text(const RunOptions& options, const Call& call, const Timed& timed,
                        const LayerCost& cost) {
  const std::string how = call.random_input ? "  random" : "";
  std::string text = line("layer", call.layer.title) + line("", sizes_of(call.layer.parts.config));
  for (const std::string& note : call.layer.notes) text += line("note", note);
  text += line("query", call.query.shape().to_string() + how);
  if (call.key) text += line("key", call.key->shape().to_string() + how);
  if (call.value) text += line("value", call.value->shape().to_string() + how);
  text += line("output", timed.result.output.shape().to_string());
  if (!options.attention_weights.empty()) {
    text += line("weights", timed.result.weights.shape().to_string());
  }
  return text + "\n" + cost.weights.to_string() + "\n" + line("time", time_text(timed.seconds)) +
         line("rate", rate_text(timed, static_cast<double>(cost.flops()))) +
         line("kernel", kernel_text(timed.report)) + written_text(options);
}

// `path` is null where the array was not written to a file.
Json array_json(const Tensor& tensor, const std::string& path) {
  return {{"shape", shape_json(tensor.shape())}, {"file", path.empty() ? Json() : Json(path)}};
}

Json inputs_json(const Call& call) {
  const Tensor& key = call.key ? *call.key : call.query;
  const auto input = [&](const Tensor& tensor) -> Json {
    return {{"shape", shape_json(tensor.shape())}, {"random", call.random_input}};
  };
  return {{"query", input(call.query)},
          {"key", input(key)},
          {"value", input(call.value ? *call.value : key)}};
}

std::string report_json(const RunOptions& options, const Call& call, const Timed& timed,
                        const LayerCost& cost) {
  const double seconds = quantile(timed.seconds, 0.5);
  const auto flops = static_cast<double>(cost.flops());
  Json report = inputs_json(call);
  report.update({{"layer", call.layer.title},
                 {"notes", call.layer.notes},
                 {"config", config_json(call.layer.parts.config)},
                 {"output", array_json(timed.result.output, options.output)},
                 {"attention_weights", nullptr},
                 {"parameters", cost.weights.total},
                 {"flops", cost.flops()},
                 {"seconds", seconds},
                 {"seconds_of_calls", timed.seconds},
                 {"flops_per_second", flops / seconds},
                 {"peak_flops_per_second", timed.peak},
                 {"share_of_peak", timed.peak > 0.0 ? flops / seconds / timed.peak : 0.0},
                 {"threads", timed.report.threads},
                 {"threads_allowed", call.threads},
                 {"target", std::string(timed.report.target)},
                 {"kernel", timed.report.to_string()}});
  if (!options.attention_weights.empty()) {
    report["attention_weights"] = array_json(timed.result.weights, options.attention_weights);
  }
  for (const WeightRow& row : cost.weights.rows) {
    report["weights"][row.name] = std::vector<std::int64_t>(row.shape.begin(), row.shape.end());
  }
  // Paths and names may be any bytes: what is no UTF-8 becomes U+FFFD.
  return report.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

void run(const RunOptions& options) {
  const std::vector<OutputFile> outputs = outputs_of(options);
  check_outputs(outputs);
  Call call = make_call(options.call);
  if (!options.attention_weights.empty()) call.options.weights = all_weights();
  const Timed timed = run_timed(call, options.repeat);
  const LayerCost cost = cost_of(call);
  if (!options.output.empty()) write_array(options.output, timed.result.output);
  if (!options.attention_weights.empty()) {
    write_array(options.attention_weights, timed.result.weights);
  }
  const std::string text = options.json ? report_json(options, call, timed, cost)
                                        : report_text(options, call, timed, cost);
  std::fputs(text.c_str(), any_to_standard_output(outputs) ? stderr : stdout);
}

}  // namespace

void declare_run(CLI::App& command) {
  constexpr std::int64_t kMostCalls = 1'000'000;
  auto options = std::make_shared<RunOptions>();
  declare_call_options(command, options->call);
  const auto file = [&](const char* name, std::string& value, const char* text) {
    command.add_option(name, value, text)->type_name("FILE")->group("Output");
  };
  file("--output", options->output, "write the output as npy; - for standard output");
  file("--attention-weights", options->attention_weights,
       "write the weights of all heads, (B,H,T,S), as npy");
  command.add_flag("--json", options->json, "the report as JSON")->group("Output");
  command.add_option("--repeat", options->repeat, "calls to time, after one that is not (1)")
      ->type_name("N")
      ->group("Machine")
      ->check(whole_number(1, kMostCalls));
  command.callback([options] { run(*options); });
}

}  // namespace headwise::cli
