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
#include "terminal/text.h"
#include "usage_error.h"

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
  double peak = 0.0;  // FLOP/s of the machine on as many threads; 0: not known for the target
};

double peak_of(const Call& call, double seconds) {
  constexpr std::size_t kNoReads = 0;
  if (call.target == "reference") return 0.0;  // made to be read, not to be fast
  return Yardsticks(call.target, kNoReads).peak(call.threads, seconds);
}

Timed run_timed(const Call& call, int repeat) {
  constexpr double kPeakSeconds = 0.05;
  const MultiHeadAttention layer(call.layer.parts.config, call.layer.parts.weights);
  Context context(call.threads, call.target);
  ForwardOptions options = call.options;
  options.context = &context;
  Timed timed;
  // The first call makes threads and scratch memory; it is the one that counts only if nobody asked
  // for more.
  const int calls = repeat > 1 ? repeat + 1 : 1;
  for (int i = 0; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    timed.result = layer.forward(call.inputs(), options);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    if (i > 0 || calls == 1) timed.seconds.push_back(elapsed.count());
  }
  timed.report = context.last_call();
  timed.peak = peak_of(call, kPeakSeconds);
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
    return terminal::duration(seconds.front()) + ", a first call; --repeat 20 times later ones";
  }
  return terminal::duration(quantile(seconds, 0.5)) + ", median of " +
         std::to_string(seconds.size()) + " calls (" +
         terminal::duration(*std::min_element(seconds.begin(), seconds.end())) + " … " +
         terminal::duration(*std::max_element(seconds.begin(), seconds.end())) + ")";
}

std::string rate_text(const Timed& timed, const Call& call, double flops) {
  const double rate = flops / quantile(timed.seconds, 0.5);
  std::string text = terminal::short_number(rate / 1e9) + " GFLOP/s";
  if (timed.peak <= 0.0) return text;
  return text + ", " + terminal::percent(rate / timed.peak) + " of this machine's " +
         terminal::short_number(timed.peak / 1e9) + " on " + std::to_string(call.threads) +
         (call.threads == 1 ? " thread" : " threads");
}

// Without the reasons, which are in the JSON.
std::string kernel_text(const CallReport& report) {
  std::string text = std::string(report.target) + ", register tile " +
                     std::to_string(report.tile_rows) + "×" + std::to_string(report.tile_columns) +
                     ", " + std::to_string(report.threads) +
                     (report.threads == 1 ? " thread" : " threads");
  if (!report.attention.empty()) text += "; " + std::string(report.attention);
  return text;
}

std::string report_text(const Call& call, const Timed& timed, const LayerCost& cost) {
  const std::string how = call.random_input ? "  random" : "";
  std::string text = line("layer", call.layer.title) + line("", sizes_of(call.layer.parts.config)) +
                     line("query", call.query.shape().to_string() + how);
  if (call.key) text += line("key", call.key->shape().to_string() + how);
  if (call.value) text += line("value", call.value->shape().to_string() + how);
  text += line("output", timed.result.output.shape().to_string());
  if (timed.result.weights.size() > 0) {
    text += line("weights", timed.result.weights.shape().to_string());
  }
  return text + "\n" + cost.weights.to_string() + "\n" + line("time", time_text(timed.seconds)) +
         line("rate", rate_text(timed, call, static_cast<double>(cost.flops()))) +
         line("kernel", kernel_text(timed.report));
}

std::string report_json(const Call& call, const Timed& timed, const LayerCost& cost) {
  const double seconds = quantile(timed.seconds, 0.5);
  const auto flops = static_cast<double>(cost.flops());
  Json report = {
      {"layer", call.layer.title},
      {"query", {{"shape", shape_json(call.query.shape())}, {"random", call.random_input}}},
      {"output", {{"shape", shape_json(timed.result.output.shape())}}},
      {"parameters", cost.weights.total},
      {"flops", cost.flops()},
      {"seconds", seconds},
      {"seconds_of_calls", timed.seconds},
      {"flops_per_second", flops / seconds},
      {"peak_flops_per_second", timed.peak},
      {"share_of_peak", timed.peak > 0.0 ? flops / seconds / timed.peak : 0.0},
      {"threads", call.threads},
      {"target", std::string(timed.report.target)},
      {"kernel", timed.report.to_string()}};
  for (const WeightRow& row : cost.weights.rows) {
    report["weights"][row.name] = std::vector<std::int64_t>(row.shape.begin(), row.shape.end());
  }
  return report.dump(2) + "\n";
}

void run(const RunOptions& options) {
  if (options.repeat < 1) {
    throw UsageError("--repeat: expected 1 or more, got " + std::to_string(options.repeat));
  }
  const bool output_is_stdout = options.output == "-" || options.attention_weights == "-";
  if (options.output == "-" && options.attention_weights == "-") {
    throw UsageError("--output and --attention-weights cannot both be standard output");
  }
  Call call = make_call(options.call);
  if (!options.attention_weights.empty()) call.options.weights = all_weights();
  const Timed timed = run_timed(call, options.repeat);
  const LayerCost cost = cost_of(call);
  if (!options.output.empty()) write_array(options.output, timed.result.output);
  if (!options.attention_weights.empty()) {
    write_array(options.attention_weights, timed.result.weights);
  }
  const std::string text =
      options.json ? report_json(call, timed, cost) : report_text(call, timed, cost);
  std::fputs(text.c_str(), output_is_stdout ? stderr : stdout);
}

}  // namespace

void declare_run(CLI::App& command) {
  auto options = std::make_shared<RunOptions>();
  declare_call_options(command, options->call);
  const auto file = [&](const char* name, std::string& value, const char* text) {
    command.add_option(name, value, text)->type_name("FILE")->group("Output");
  };
  file("--output", options->output, "write the output as npy; - for standard output");
  file("--attention-weights", options->attention_weights,
       "write the weights of all heads, (B,H,T,S), as npy");
  command.add_flag("--json", options->json, "the report as JSON")->group("Output");
  command.add_option("--repeat", options->repeat, "calls to time; the first one is left out (1)")
      ->type_name("N")
      ->group("Machine");
  command.callback([options] { run(*options); });
}

}  // namespace headwise::cli
