#include <cmath>
#include <limits>

#include "headwise/io.h"
#include "headwise/version.h"
#include "layer_json.h"
#include "plan.h"
#include "text_file.h"

namespace headwise::cli {

namespace {

const char* pass_name(Pass pass) { return pass == Pass::Forward ? "forward" : "backward"; }

Json machine_json(const Machine& machine) {
  Json json = {{"cpu", machine.cpu},
               {"cpus", machine.cpus},
               {"target", machine.target},
               {"lanes", machine.lanes},
               {"call_seconds", machine.call_seconds},
               {"yardsticks", Json::array()}};
  for (const ThreadYardsticks& y : machine.yardsticks) {
    Json reads = Json::array();
    for (const ReadSpeed& read : y.reads) {
      // The last place holds everything: no number says that in JSON.
      const bool all = read.holds == std::numeric_limits<std::size_t>::max();
      reads.push_back({{"place", read.place},
                       {"buffer_bytes", read.bytes},
                       {"holds_bytes", all ? Json(nullptr) : Json(read.holds)},
                       {"bytes_per_second", read.bytes_per_second}});
    }
    json["yardsticks"].push_back(
        {{"threads", y.threads}, {"peak_flops_per_second", y.peak}, {"reads", reads}});
  }
  return json;
}

Json weights_json(const WeightTable& table) {
  Json rows = Json::array();
  for (const WeightRow& row : table.rows) {
    rows.push_back({{"name", row.name},
                    {"shape", shape_json(row.shape)},
                    {"flat_shape", shape_json(row.flat_shape)},
                    {"count", row.count}});
  }
  return rows;
}

Json stages_json(const PlannedLayer& layer) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < layer.cost.stages.size(); ++i) {
    const StageCost& stage = layer.cost.stages[i];
    const StageTime& time = layer.prediction.stages[i];
    stages.push_back({{"stage", name_of(stage.stage)},
                      {"pass", pass_name(stage.pass)},
                      {"flops", stage.flops},
                      {"operations", stage.operations},
                      {"bytes", stage.bytes},
                      {"predicted_seconds", time.seconds},
                      {"bound_by", time.bound == Bound::Compute ? "compute" : "memory"}});
  }
  return stages;
}

Json memory_json(const MemoryCost& memory) {
  return {{"parameters", memory.parameters},
          {"packed_kernels", memory.packed_kernels},
          {"inputs", memory.inputs},
          {"output", memory.output},
          {"activations", memory.activations},
          {"score_matrices", memory.score_matrices},
          {"cache_per_token", memory.cache_per_token},
          {"saved_for_backward", memory.saved},
          {"gradients", memory.gradients},
          {"backward_buffers", memory.backward_buffers}};
}

Json measurement_json(const PlannedLayer& layer) {
  if (!layer.timing) return nullptr;
  const LayerTiming& timing = *layer.timing;
  return {{"seconds", timing.seconds},
          {"quartiles", {timing.seconds_low, timing.seconds_high}},
          {"rounds", timing.rounds},
          {"disturbed", timing.disturbed},
          {"peak_flops_per_second", timing.peak},
          {"predicted_over_measured", layer.prediction.seconds / timing.seconds}};
}

Json layer_json(const PlannedLayer& layer) {
  const LayerCost& cost = layer.cost;
  return {
      {"label", layer.label},
      {"config", config_json(cost.config)},
      {"call",
       {{"batch", cost.call.batch},
        {"queries", cost.call.queries},
        {"keys", cost.call.key_count()},
        {"training", cost.call.training}}},
      {"weights", weights_json(cost.weights)},
      {"parameters", cost.weights.total},
      {"pairs", {{"attended", cost.pairs}, {"all", cost.all_pairs}}},
      {"flops", cost.flops()},
      {"operations", cost.operations()},
      {"bytes_moved", cost.bytes()},
      {"stages", stages_json(layer)},
      {"memory_bytes", memory_json(memory_with_training(cost))},
      {"rank_bounds", {{"scores", cost.ranks.scores}, {"values", cost.ranks.values}}},
      {"prediction",
       {{"seconds", layer.prediction.seconds}, {"overhead_seconds", layer.prediction.overhead}}},
      {"measurement", measurement_json(layer)}};
}

// What a damaged file may lack, as one message. Never trusts a number: it must be usable.
Machine machine_from(const Json& json) {
  const auto positive = [](const Json& value) {
    const auto number = value.get<double>();
    if (!(std::isfinite(number) && number > 0.0)) throw std::invalid_argument("a speed is not > 0");
    return number;
  };
  Machine machine{.cpu = json.at("cpu").get<std::string>(),
                  .cpus = json.at("cpus").get<int>(),
                  .target = json.at("target").get<std::string>(),
                  .lanes = json.at("lanes").get<int>(),
                  .call_seconds = positive(json.at("call_seconds")),
                  .yardsticks = {}};
  for (const Json& y : json.at("yardsticks")) {
    ThreadYardsticks yardsticks{.threads = y.at("threads").get<int>(),
                                .peak = positive(y.at("peak_flops_per_second"))};
    for (const Json& read : y.at("reads")) {
      const Json& holds = read.at("holds_bytes");
      yardsticks.reads.push_back({.place = read.at("place").get<std::string>(),
                                  .bytes = read.at("buffer_bytes").get<std::size_t>(),
                                  .holds = holds.is_null() ? std::numeric_limits<std::size_t>::max()
                                                           : holds.get<std::size_t>(),
                                  .bytes_per_second = positive(read.at("bytes_per_second"))});
    }
    if (yardsticks.threads < 1 || yardsticks.reads.empty()) {
      throw std::invalid_argument("a yardstick has no threads or no read speeds");
    }
    machine.yardsticks.push_back(std::move(yardsticks));
  }
  if (machine.yardsticks.empty()) throw std::invalid_argument("no yardsticks");
  return machine;
}

}  // namespace

std::string plan_json(const Plan& plan) {
  Json json = {
      {"headwise", {HEADWISE_VERSION_MAJOR, HEADWISE_VERSION_MINOR, HEADWISE_VERSION_PATCH}},
      {"machine", machine_json(plan.machine)},
      {"threads", plan.threads},
      {"layers", Json::array()},
      {"knobs", Json::array()}};
  for (const PlannedLayer& layer : plan.layers) json["layers"].push_back(layer_json(layer));
  for (const Knob& knob : plan.knobs) {
    Json layer = layer_json(knob.layer);
    layer.erase("measurement");
    layer.erase("label");
    json["knobs"].push_back({{"change", knob.change}, {"layer", std::move(layer)}});
  }
  // A file's layer may have any name: what is no UTF-8 becomes U+FFFD.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Machine read_machine(const std::string& path) {
  const std::string text = read_text(path);
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string problem = "no machine as headwise plan --json writes it";
  if (json.is_discarded()) throw FileError(path, problem + ": not JSON");
  try {
    return machine_from(json.at("machine"));
  } catch (
      const Json::exception& error) {  // "[json.exception.out_of_range.403] key 'cpu' not found"
    const std::string words = error.what();
    throw FileError(path, problem + ": " + words.substr(words.find("] ") + 2));
  } catch (const std::exception& error) {
    throw FileError(path, problem + ": " + error.what());
  }
}

}  // namespace headwise::cli
