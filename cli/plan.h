// headwise plan: from options to layers with their costs, and from those to text and JSON.
//
//   PlanOptions → PlanRequest → Plan (costs, predictions, timings) → plan_text or plan_json
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/cost.h"
#include "headwise/machine.h"
#include "layer_options.h"
#include "position_options.h"

namespace CLI {
class App;
}

namespace headwise::cli {

struct PlanOptions {
  LayerOptions layer = {};
  std::string shape = {};
  std::optional<std::int64_t> keys = {};
  std::optional<std::int64_t> key_features = {};
  std::optional<std::int64_t> value_features = {};
  PositionOptions positions = {};
  bool training = false;
  std::optional<int> threads = {};
  std::string target = {};
  std::string machine = {};  // a file that describes another machine
  bool measure = false;
  std::string compare = {};
  bool json = false;
};
void declare_plan_options(CLI::App& command, PlanOptions& options);

// A layer that is planned for, and what to call it.
struct PlanLayer {
  std::string label = {};
  LayerRun run = {};
};

struct PlanRequest {
  std::vector<PlanLayer> layers = {};
  int threads = 1;
  std::string target = {};
};
// Throws UsageError for what is missing or does not fit.
PlanRequest plan_request(const PlanOptions& options);

struct PlannedLayer {
  std::string label = {};
  LayerCost cost = {};
  Prediction prediction = {};
  std::optional<LayerTiming> timing = {};
};

// Of the call, and what training would add to it, whether or not the call is one of training.
MemoryCost memory_with_training(const LayerCost& cost);

// The same layer with one size changed.
struct Knob {
  std::string change = {};  // "num_heads 8 → 16"
  PlannedLayer layer = {};
};
std::vector<Knob> knobs_of(const PlannedLayer& planned, const Machine& machine, int threads);

struct Plan {
  Machine machine = {};
  int threads = 1;
  std::vector<PlannedLayer> layers = {};
  std::vector<Knob> knobs = {};  // of a single layer; none for a comparison
};

// "2.15 G", "65.5 M", "12"
std::string count_text(std::int64_t count);

std::string plan_text(const Plan& plan);
// "What each knob changes", of a single layer.
std::string knobs_text(const Plan& plan);
std::string comparison_text(const Plan& plan);

std::string plan_json(const Plan& plan);
// The machine of an earlier plan's JSON. Throws FileError.
Machine read_machine(const std::string& path);

}  // namespace headwise::cli
