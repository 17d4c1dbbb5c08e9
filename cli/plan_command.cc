// headwise plan: what a layer costs, predicted and measured.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <utility>

#include "commands.h"
#include "headwise/context.h"
#include "plan.h"
#include "terminal/progress.h"

namespace headwise::cli {

namespace {

std::vector<LayerTiming> measured(const PlanRequest& request, const Yardsticks& yardsticks) {
  MeasureOptions options{.threads = request.threads, .target = request.target};
  std::vector<LayerRun> runs;
  runs.reserve(request.layers.size());
  for (const PlanLayer& layer : request.layers) runs.push_back(layer.run);
  terminal::ProgressBar bar("measuring", options.rounds);
  options.on_round = [&](int round) { bar.show(round); };
  return measure_layers(runs, options, yardsticks);
}

// The peak as it was while the layer ran.
Machine at_that_time(Machine machine, int threads, double peak) {
  for (ThreadYardsticks& y : machine.yardsticks) {
    if (y.threads == threads) y.peak = peak;
  }
  return machine;
}

Plan make_plan(const PlanOptions& options) {
  const PlanRequest request = plan_request(options);
  Plan plan{.threads = request.threads};
  for (const PlanLayer& layer : request.layers) {  // before anything is measured: it may throw
    plan.layers.push_back({layer.label, layer_cost(layer.run.config, layer.run.call)});
  }
  std::vector<LayerTiming> timings;
  if (options.machine.empty()) {
    // Which knows the targets that can be planned for, the context others too.
    const Yardsticks yardsticks(request.target, largest_read_bytes());
    const Context checked(request.threads, request.target);
    plan.machine = describe_machine(request.target, {request.threads}, yardsticks);
    if (options.measure) timings = measured(request, yardsticks);
  } else {
    plan.machine = read_machine(options.machine);
    if (!options.threads) plan.threads = plan.machine.yardsticks.front().threads;
  }
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    PlannedLayer& layer = plan.layers[i];
    if (!timings.empty()) layer.timing = timings[i];
    const Machine machine =
        layer.timing ? at_that_time(plan.machine, plan.threads, layer.timing->peak) : plan.machine;
    layer.prediction = predict(layer.cost, machine, plan.threads);
  }
  if (options.compare.empty()) {
    plan.knobs = knobs_of(plan.layers.front(), plan.machine, plan.threads);
  }
  return plan;
}

void run_plan(const PlanOptions& options) {
  const Plan plan = make_plan(options);
  const std::string text = options.json              ? plan_json(plan)
                           : options.compare.empty() ? plan_text(plan)
                                                     : comparison_text(plan);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void declare_plan(CLI::App& command) {
  auto options = std::make_shared<PlanOptions>();
  declare_plan_options(command, *options);
  command.callback([options] { run_plan(*options); });
}

}  // namespace headwise::cli
