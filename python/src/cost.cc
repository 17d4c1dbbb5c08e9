// What a layer costs: layer_cost(), predict(), measure_layers().
#include "headwise/cost.h"

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "call.h"
#include "masks.h"
#include "types.h"

namespace headwise::python {

namespace {

// headwise.LayerCall.
struct CallValue {
  LayerCall call;
  nb::object mask;  // what call.mask looks at
};

// headwise.LayerCost.
struct CostValue {
  LayerCost cost;
  CallValue call;
};

// headwise.LayerRun.
struct RunValue {
  AttentionConfig config;
  CallValue call;
};

CostValue cost_of(const AttentionConfig& config, const CallValue& call) {
  return {layer_cost(config, call.call), call};
}

std::vector<LayerTiming> measure(const std::vector<RunValue>& layers, const Yardsticks& yardsticks,
                                 int threads, const std::string& target, int rounds,
                                 double layer_seconds) {
  std::vector<LayerRun> runs;
  runs.reserve(layers.size());
  for (const RunValue& run : layers) runs.push_back({run.config, run.call.call});
  const MeasureOptions options{
      .threads = threads, .target = target, .rounds = rounds, .layer_seconds = layer_seconds};
  return without_gil([&] { return measure_layers(runs, options, yardsticks); });
}

constexpr const char* kCallDoc =
    R"(One call of a layer, by its sizes: queries and keys of every sequence (keys: as many as queries).
training: a forward that saves, and its backward.

>>> import headwise
>>> headwise.LayerCall(queries=128, batch=32, mask=headwise.causal()).keys
128
)";
constexpr const char* kStageDoc = R"(Parts of the work, in the order of a forward call.

>>> import headwise
>>> headwise.Stage.Scores.name
'Scores'
)";
constexpr const char* kPassDoc = R"(Forward or Backward.

>>> import headwise
>>> call = headwise.LayerCall(queries=128, training=True)
>>> headwise.layer_cost(headwise.presets.paper(), call).stages[-1].pass_
Pass.Backward
)";
constexpr const char* kBoundDoc = R"(What a stage's time follows from.

>>> import headwise
>>> [bound.name for bound in headwise.Bound]
['Compute', 'Memory']
)";
constexpr const char* kStageCostDoc = R"(One stage of a LayerCost.

>>> import headwise
>>> cost = headwise.layer_cost(headwise.presets.paper(), headwise.LayerCall(queries=128))
>>> scores = cost.stages[3]
>>> scores.stage.name, scores.flops
('Scores', 16777216)
)";
constexpr const char* kStageTimeDoc = R"(One stage of a Prediction.

>>> import headwise
>>> plan = headwise.plan(headwise.presets.paper(), queries=128, threads=1)
>>> first = plan.prediction.stages[0]
>>> first.stage.name, first.seconds > 0
('QueryProjection', True)
)";
constexpr const char* kMemoryDoc = R"(Bytes of a LayerCost.

>>> import headwise
>>> cost = headwise.layer_cost(headwise.presets.paper(), headwise.LayerCall(queries=128))
>>> cost.memory.parameters, cost.memory.output
(4194304, 262144)
)";
constexpr const char* kRanksDoc = R"(What no choice of weights gives a head more of.

>>> import headwise
>>> cost = headwise.layer_cost(headwise.presets.paper(), headwise.LayerCall(queries=128))
>>> cost.ranks.scores, cost.ranks.factored_scores, cost.ranks.merged_scores
(64, 65536, 262144)
)";
constexpr const char* kPredictionDoc = R"(What predict() returns.

>>> import headwise
>>> prediction = headwise.plan(headwise.presets.paper(), queries=128, threads=1).prediction
>>> prediction.seconds > prediction.overhead > 0
True
)";
constexpr const char* kTimingDoc = R"(What measure_layers() returns of each layer.

>>> import headwise
>>> run = headwise.LayerRun(headwise.presets.paper(8, 2), headwise.LayerCall(queries=3))
>>> yardsticks = headwise.Yardsticks(headwise.default_target(), largest_bytes=1 << 16)
>>> timing, = headwise.measure_layers([run], yardsticks, rounds=3)
>>> timing.rounds <= 3
True
)";
constexpr const char* kCostDoc =
    R"(What layer_cost() counts; `flops`, `operations` and `bytes` of all stages together.

>>> import headwise
>>> cost = headwise.layer_cost(headwise.presets.paper(), headwise.LayerCall(queries=128))
>>> cost.weights.total, cost.memory.cache_per_token
(1048576, 4096)
)";
constexpr const char* kLayerCostDoc =
    R"(Everything that follows from a layer's sizes, counted exactly.

>>> import headwise
>>> call = headwise.LayerCall(queries=128, batch=32, mask=headwise.causal())
>>> cost = headwise.layer_cost(headwise.presets.paper(), call)
>>> cost.pairs, cost.all_pairs  # of a query and a key: attended, and were nothing masked
(2113536, 4194304)
>>> [(stage.stage.name, stage.flops) for stage in cost.stages][0]
('QueryProjection', 2147483648)
)";
constexpr const char* kPredictDoc =
    R"(How long the call should take on a machine: a roofline, stage by stage.

>>> import headwise
>>> cost = headwise.layer_cost(headwise.presets.paper(), headwise.LayerCall(queries=128))
>>> reads = [headwise.ReadSpeed("memory", bytes=1 << 24, holds=1 << 62, bytes_per_second=1e10)]
>>> machine = headwise.Machine(target="AVX2", lanes=8, call_seconds=0.0,
...                            yardsticks=[headwise.ThreadYardsticks(threads=1, peak=5e10, reads=reads)])
>>> 1e-3 < headwise.predict(cost, machine, threads=1).seconds < 1e-1
True
)";
constexpr const char* kRunDoc = R"(A layer to be timed, with random weights and input.

>>> import headwise
>>> run = headwise.LayerRun(headwise.presets.paper(8, 2), headwise.LayerCall(queries=3))
>>> run.config.num_heads
2
)";
constexpr const char* kMeasureDoc =
    R"(Times layers for real, one timing for each; they take turns, so that a bad moment hits all of them.

>>> import headwise
>>> run = headwise.LayerRun(headwise.presets.paper(8, 2), headwise.LayerCall(queries=3))
>>> yardsticks = headwise.Yardsticks(headwise.default_target(), largest_bytes=1 << 16)
>>> timing, = headwise.measure_layers([run], yardsticks, rounds=3)
>>> 0 < timing.seconds_low <= timing.seconds <= timing.seconds_high
True
)";

void bind_call(nb::module_& module) {
  using nb::arg;
  nb::class_<CallValue>(module, "LayerCall", kCallDoc)
      .def(
          "__init__",
          [](CallValue* self, std::int64_t queries, std::optional<std::int64_t> keys,
             std::int64_t batch, MaskGiven mask, bool training) {
            new (self) CallValue{{batch, queries, keys, mask_of(mask, "LayerCall"), training},
                                 nb::borrow(mask)};
          },
          nb::kw_only(), arg("queries"), arg("keys") = nb::none(), arg("batch") = 1,
          arg("mask") = nb::none(), arg("training") = false)
      .def_prop_ro("queries", [](const CallValue& self) { return self.call.queries; })
      .def_prop_ro("keys", [](const CallValue& self) { return self.call.key_count(); })
      .def_prop_ro("batch", [](const CallValue& self) { return self.call.batch; })
      .def_prop_ro("mask",
                   [](const CallValue& self) { return Made<"Mask | None">(nb::borrow(self.mask)); })
      .def_prop_ro("training", [](const CallValue& self) { return self.call.training; });
}

void bind_stages(nb::module_& module) {
  nb::enum_<Stage>(module, "Stage", kStageDoc)
      .value("QueryProjection", Stage::QueryProjection)
      .value("KeyProjection", Stage::KeyProjection)
      .value("ValueProjection", Stage::ValueProjection)
      .value("Gate", Stage::Gate)
      .value("Scores", Stage::Scores)
      .value("Softmax", Stage::Softmax)
      .value("Values", Stage::Values)
      .value("OutputProjection", Stage::OutputProjection);
  nb::enum_<Pass>(module, "Pass", kPassDoc)
      .value("Forward", Pass::Forward)
      .value("Backward", Pass::Backward);
  nb::enum_<Bound>(module, "Bound", kBoundDoc)
      .value("Compute", Bound::Compute)
      .value("Memory", Bound::Memory);
  nb::class_<StageCost>(module, "StageCost", kStageCostDoc)
      .def_ro("stage", &StageCost::stage)
      .def_ro("pass_", &StageCost::pass)
      .def_ro("flops", &StageCost::flops, "Of matrix products; a multiply-add counts two.")
      .def_ro("operations", &StageCost::operations, "Of everything else.")
      .def_ro("bytes", &StageCost::bytes, "Every input read once, every output written once.");
  nb::class_<StageTime>(module, "StageTime", kStageTimeDoc)
      .def_ro("stage", &StageTime::stage)
      .def_ro("pass_", &StageTime::pass)
      .def_ro("seconds", &StageTime::seconds)
      .def_ro("bound", &StageTime::bound);
}

void bind_memory(nb::module_& module) {
  nb::class_<MemoryCost>(module, "MemoryCost", kMemoryDoc)
      .def_ro("parameters", &MemoryCost::parameters)
      .def_ro("packed_kernels", &MemoryCost::packed_kernels,
              "The layer's second copy, in the order that the products read.")
      .def_ro("inputs", &MemoryCost::inputs)
      .def_ro("output", &MemoryCost::output)
      .def_ro("activations", &MemoryCost::activations, "Linear in T and S.")
      .def_ro(
          "score_matrices", &MemoryCost::score_matrices,
          "One T×S matrix for every head, which Headwise makes only if all weights are asked for.")
      .def_ro("cache_per_token", &MemoryCost::cache_per_token, "Key and value of one token.")
      .def_ro("saved", &MemoryCost::saved, "Training: from forward to backward.")
      .def_ro("gradients", &MemoryCost::gradients, "Training: of inputs and parameters.")
      .def_ro("backward_buffers", &MemoryCost::backward_buffers, "Training.");
  nb::class_<RankBounds>(module, "RankBounds", kRanksDoc)
      .def_ro("scores", &RankBounds::scores, "min(key_dim, query features, key features)")
      .def_ro("values", &RankBounds::values, "min(value_dim, value features, output features)")
      .def_ro("factored_scores", &RankBounds::factored_scores, "Numbers in a head's W_q and W_k.")
      .def_ro("merged_scores", &RankBounds::merged_scores,
              "And in the one matrix W_q·W_kᵀ that they stand for.");
}

void bind_cost_value(nb::module_& module) {
  const auto field = [](auto LayerCost::*member) {
    return [member](const CostValue& self) -> const auto& { return self.cost.*member; };
  };
  nb::class_<CostValue>(module, "LayerCost", kCostDoc)
      .def_prop_ro("config", field(&LayerCost::config))
      .def_ro("call", &CostValue::call)
      .def_prop_ro("weights", field(&LayerCost::weights))
      .def_prop_ro("all_pairs", field(&LayerCost::all_pairs), "Were nothing masked.")
      .def_prop_ro("pairs", field(&LayerCost::pairs), "Attended, exactly.")
      .def_prop_ro("range_pairs", field(&LayerCost::range_pairs), "That the kernels compute.")
      .def_prop_ro("stages", field(&LayerCost::stages), "Forward, then backward.")
      .def_prop_ro("memory", field(&LayerCost::memory))
      .def_prop_ro("ranks", field(&LayerCost::ranks))
      .def_prop_ro("flops", [](const CostValue& self) { return self.cost.flops(); })
      .def_prop_ro("operations", [](const CostValue& self) { return self.cost.operations(); })
      .def_prop_ro("bytes", [](const CostValue& self) { return self.cost.bytes(); })
      .def("__repr__", [](const CostValue& self) {
        return "<LayerCost: " + std::to_string(self.cost.weights.total) + " parameters, " +
               std::to_string(self.cost.flops()) + " FLOP, " + std::to_string(self.cost.bytes()) +
               " bytes read and written>";
      });
}

void bind_times(nb::module_& module) {
  using nb::arg;
  nb::class_<Prediction>(module, "Prediction", kPredictionDoc)
      .def_ro("stages", &Prediction::stages, "As in LayerCost.")
      .def_ro("overhead", &Prediction::overhead, "Seconds: calls, tasks, waking threads.")
      .def_ro("seconds", &Prediction::seconds, "Of all.");
  nb::class_<RunValue>(module, "LayerRun", kRunDoc)
      .def(
          "__init__",
          [](RunValue* self, const AttentionConfig& config, const CallValue& call) {
            new (self) RunValue{config, call};
          },
          arg("config"), arg("call"))
      .def_ro("config", &RunValue::config)
      .def_ro("call", &RunValue::call);
  nb::class_<LayerTiming>(module, "LayerTiming", kTimingDoc)
      .def_ro("seconds", &LayerTiming::seconds, "Median of the rounds that nobody disturbed.")
      .def_ro("seconds_low", &LayerTiming::seconds_low, "Their lower quartile.")
      .def_ro("seconds_high", &LayerTiming::seconds_high, "Their upper quartile.")
      .def_ro("peak", &LayerTiming::peak, "FLOP/s at those moments.")
      .def_ro("rounds", &LayerTiming::rounds, "That it is a median of.")
      .def_ro("disturbed", &LayerTiming::disturbed, "All of them were: the time is too long.");
}

}  // namespace

void bind_cost(nb::module_& module) {
  using nb::arg;
  bind_call(module);
  bind_stages(module);
  bind_memory(module);
  bind_cost_value(module);
  bind_times(module);
  module.def("layer_cost", &cost_of, arg("config"), arg("call"), kLayerCostDoc);
  module.def(
      "predict",
      [](const CostValue& cost, const Machine& machine, int threads) {
        return predict(cost.cost, machine, threads);
      },
      arg("cost"), arg("machine"), arg("threads"), kPredictDoc);
  module.def("measure_layers", &measure, arg("layers"), arg("yardsticks"), nb::kw_only(),
             arg("threads") = 1, arg("target") = "", arg("rounds") = MeasureOptions{}.rounds,
             arg("layer_seconds") = MeasureOptions{}.layer_seconds, kMeasureDoc);
}

}  // namespace headwise::python
