#include "headwise/cost.h"

#include <algorithm>
#include <string>

#include "analyze/attended_pairs.h"
#include "analyze/count.h"
#include "kernels/gemm/gemm.h"

namespace headwise {

namespace {

using analyze::Count;

constexpr std::int64_t kFloat = sizeof(float);

// Floating-point operations as the kernels take them (src/kernels/math): a multiply-add counts two,
// shifts, comparisons and selections none.
constexpr std::int64_t kSoftmaxOperations = 18;  // maximum, 2^x by a polynomial of degree 5, sum
constexpr std::int64_t kSoftcapOperations = 24;  // tanh, and two products
constexpr std::int64_t kSigmoidOperations = 22;
constexpr std::int64_t kNormOperations = 4;          // square, add, two products
constexpr std::int64_t kMeanOperations = 2;          // add, subtract: LayerNorm alone
constexpr std::int64_t kWeightOperations = 16;       // backward: P again, its maximum and sum known
constexpr std::int64_t kGradientOperations = 3;      // dS = P ∘ (dP − δ) · scale
constexpr std::int64_t kGateGradientOperations = 5;  // of both factors, and the sigmoid's slope

// Numbers in rows of the call, all sequences together.
struct Rows {
  Rows(const AttentionConfig& config, const LayerCall& call)
      : queries(Count(call.batch) * call.queries),
        keys(Count(call.batch) * call.key_count()),
        stored_keys(Count(call.batch) * (Count(call.key_count()) + config.extra_keys())),
        statistics(queries * config.num_heads),
        q(queries * config.num_heads * config.key_dim),
        k(stored_keys * config.kv_heads() * config.key_dim),
        v(stored_keys * config.kv_heads() * config.value_size()),
        heads(queries * config.num_heads * config.value_size()) {}

  Count queries, keys;
  Count stored_keys;  // with those that the layer adds
  Count statistics;   // one number for each row of each head
  Count q, k, v, heads;
};

// Collects the stages of one call.
class StageList {
 public:
  StageList(const AttentionConfig& config, const LayerCall& call, Count pairs)
      : config_(config), rows_(config, call), pairs_(pairs) {}

  void add_forward();
  void add_backward();
  std::vector<StageCost> stages = {};

 private:
  // rows × inputs → rows × outputs.
  struct Projection {
    Stage stage;
    Count rows, inputs, outputs;
    bool bias;
  };
  [[nodiscard]] Projection query() const {
    return {Stage::QueryProjection, rows_.queries, config_.query_features,
            Count(config_.num_heads) * config_.key_dim, config_.use_bias};
  }
  [[nodiscard]] Projection key() const {
    return {Stage::KeyProjection, rows_.keys, config_.key_inputs(),
            Count(config_.kv_heads()) * config_.key_dim, config_.use_bias};
  }
  [[nodiscard]] Projection value() const {
    return {Stage::ValueProjection, rows_.keys, config_.value_inputs(),
            Count(config_.kv_heads()) * config_.value_size(), config_.use_bias};
  }
  [[nodiscard]] Projection gate() const {
    return {Stage::Gate, rows_.queries, config_.query_features,
            Count(config_.num_heads) * config_.value_size(), config_.use_bias};
  }
  [[nodiscard]] Projection output() const {
    return {Stage::OutputProjection, rows_.queries, Count(config_.num_heads) * config_.value_size(),
            config_.outputs(), config_.has_output_bias()};
  }
  // `each`: further operations for every number of the result.
  void project(const Projection& p, std::int64_t each = 0);
  void project_back(const Projection& p, std::int64_t each = 0);
  void add(Stage stage, Pass pass, Count flops, Count operations, Count numbers) {
    stages.push_back({stage, pass, flops.value(), operations.value(), (numbers * kFloat).value()});
  }
  [[nodiscard]] std::int64_t norm_operations() const {
    if (config_.qk_norm == QkNorm::None) return 0;
    return kNormOperations + (config_.qk_norm == QkNorm::LayerNorm ? kMeanOperations : 0);
  }

  const AttentionConfig& config_;
  Rows rows_;
  Count pairs_;
};

void StageList::project(const Projection& p, std::int64_t each) {
  const Count results = p.rows * p.outputs;
  add(p.stage, Pass::Forward, Count(2) * results * p.inputs, results * ((p.bias ? 1 : 0) + each),
      p.rows * p.inputs + p.inputs * p.outputs + (p.bias ? p.outputs : 0) + results);
}

// dx = dy·Wᵀ and dW = xᵀ·dy; the bias's gradient sums dy up.
void StageList::project_back(const Projection& p, std::int64_t each) {
  const Count results = p.rows * p.outputs;
  add(p.stage, Pass::Backward, Count(4) * results * p.inputs, results * ((p.bias ? 1 : 0) + each),
      Count(2) * (p.rows * p.inputs + p.inputs * p.outputs) + (p.bias ? p.outputs : 0) + results);
}

void StageList::add_forward() {
  project(query(), norm_operations());
  project(key(), norm_operations());
  project(value());
  if (config_.use_gate) project(gate(), kSigmoidOperations + 1);
  const std::int64_t score_operations =
      kSoftmaxOperations + (config_.softcap ? kSoftcapOperations : 0);
  add(Stage::Scores, Pass::Forward, Count(2) * pairs_ * config_.key_dim, 0, rows_.q + rows_.k);
  add(Stage::Softmax, Pass::Forward, 0, pairs_ * score_operations, Count(3) * rows_.statistics);
  add(Stage::Values, Pass::Forward, Count(2) * pairs_ * config_.value_size(), 0,
      rows_.v + rows_.heads);
  project(output());
}

void StageList::add_backward() {
  project_back(output());
  // dP = dO·Vᵀ and dV = Pᵀ·dO; δ = rowsum(dO ∘ O).
  add(Stage::Values, Pass::Backward, Count(4) * pairs_ * config_.value_size(),
      Count(2) * rows_.heads, Count(2) * (rows_.v + rows_.heads) + rows_.statistics);
  const std::int64_t score_operations =
      kWeightOperations + kGradientOperations + (config_.softcap ? kSoftcapOperations : 0);
  add(Stage::Softmax, Pass::Backward, 0, pairs_ * score_operations, Count(3) * rows_.statistics);
  // The scores once more, dQ = dS·K and dK = dSᵀ·Q.
  add(Stage::Scores, Pass::Backward, Count(6) * pairs_ * config_.key_dim, 0,
      Count(2) * (rows_.q + rows_.k));
  if (config_.use_gate) project_back(gate(), kGateGradientOperations);
  project_back(value());
  project_back(key(), 2 * norm_operations());
  project_back(query(), 2 * norm_operations());
}

MemoryCost memory_of(const AttentionConfig& config, const LayerCall& call,
                     const WeightTable& weights) {
  const Rows rows(config, call);
  const auto bytes = [](Count numbers) { return (numbers * kFloat).value(); };
  const std::int64_t query_width = (Count(config.num_heads) * config.key_dim).value();
  const std::int64_t key_width = (Count(config.kv_heads()) * config.key_dim).value();
  const std::int64_t value_width = (Count(config.kv_heads()) * config.value_size()).value();
  const std::int64_t head_width = (Count(config.num_heads) * config.value_size()).value();
  const Count gate_panels =
      config.use_gate ? kernels::packed_size(config.query_features, head_width) : 0;
  const bool one_input = !call.keys && config.key_inputs() == config.query_features;
  const Count inputs =
      rows.queries * config.query_features +
      (one_input ? Count(0) : rows.keys * config.key_inputs()) +
      (config.value_inputs() == config.key_inputs() ? Count(0) : rows.keys * config.value_inputs());
  const Count gates = config.use_gate ? rows.heads : 0;
  const Count raw = config.qk_norm == QkNorm::None ? Count(0) : rows.q + rows.k;
  const Count projected = rows.q + rows.k + rows.v + rows.heads + gates;
  const Count statistics = Count(3) * rows.statistics;  // log-sum-exp, reference, sum

  MemoryCost memory;
  memory.parameters = bytes(weights.total);
  memory.packed_kernels = bytes(Count(kernels::packed_size(config.query_features, query_width)) +
                                kernels::packed_size(config.key_inputs(), key_width) +
                                kernels::packed_size(config.value_inputs(), value_width) +
                                gate_panels + kernels::packed_size(head_width, config.outputs()));
  memory.inputs = bytes(inputs);
  memory.output = bytes(rows.queries * config.outputs());
  memory.activations = bytes(projected + gates + statistics);  // the gated heads beside the heads
  memory.score_matrices = bytes(rows.statistics * (Count(call.key_count()) + config.extra_keys()));
  memory.cache_per_token = bytes(Count(key_width) + value_width);
  if (!call.training) return memory;
  memory.saved = bytes(projected + raw + statistics);
  memory.gradients = bytes(rows.queries * config.query_features + rows.keys * config.key_inputs() +
                           rows.keys * config.value_inputs() + weights.total);
  const std::int64_t largest_kernel =
      std::max({kernels::packed_size(query_width, config.query_features),
                kernels::packed_size(key_width, config.key_inputs()),
                kernels::packed_size(value_width, config.value_inputs()),
                kernels::packed_size(head_width, config.query_features),
                kernels::packed_size(config.outputs(), head_width)});
  memory.backward_buffers = bytes(projected + gates + rows.statistics + largest_kernel);
  return memory;
}

RankBounds ranks_of(const AttentionConfig& config) {
  const Count query = config.query_features;
  const Count key = config.key_inputs();
  return {.scores = std::min({config.key_dim, config.query_features, config.key_inputs()}),
          .values = std::min({config.value_size(), config.value_inputs(), config.outputs()}),
          .factored_scores = ((query + key) * config.key_dim).value(),
          .merged_scores = (query * key).value()};
}

void require_size(const char* argument, std::int64_t value) {
  if (value < 0) base::fail("layer_cost", argument, "a number ≥ 0", std::to_string(value));
}

template <typename Part>
std::int64_t sum_of(const std::vector<StageCost>& stages, Part part) {
  Count sum;
  for (const StageCost& stage : stages) sum += stage.*part;
  return sum.value();
}

}  // namespace

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::QueryProjection:
      return "query_projection";
    case Stage::KeyProjection:
      return "key_projection";
    case Stage::ValueProjection:
      return "value_projection";
    case Stage::Gate:
      return "gate";
    case Stage::Scores:
      return "scores";
    case Stage::Softmax:
      return "softmax";
    case Stage::Values:
      return "values";
    case Stage::OutputProjection:
      return "output_projection";
  }
  return "";
}

std::int64_t LayerCost::flops() const { return sum_of(stages, &StageCost::flops); }
std::int64_t LayerCost::operations() const { return sum_of(stages, &StageCost::operations); }
std::int64_t LayerCost::bytes() const { return sum_of(stages, &StageCost::bytes); }

LayerCost layer_cost(const AttentionConfig& config, const LayerCall& call) {
  require_size("call.batch", call.batch);
  require_size("call.queries", call.queries);
  require_size("call.keys", call.key_count());
  LayerCost cost{.config = config,
                 .call = call,
                 .weights = describe(config),  // checks the configuration
                 .stages = {},
                 .memory = {},
                 .ranks = {}};
  const analyze::AttendedPairs pairs = analyze::count_pairs(config, call);
  cost.all_pairs = (Count(call.batch) * call.queries * config.num_heads *
                    (Count(call.key_count()) + config.extra_keys()))
                       .value();
  cost.pairs = pairs.attended.value();
  cost.range_pairs = pairs.in_ranges.value();
  cost.cut_ends = pairs.cut_ends.value();
  StageList list(config, call, pairs.attended);
  list.add_forward();
  if (call.training) list.add_backward();
  cost.stages = std::move(list.stages);
  cost.memory = memory_of(config, call, cost.weights);
  cost.ranks = ranks_of(config);
  // Every sum fits, or this throws here and not where the sums are asked for.
  static_cast<void>(cost.flops());
  static_cast<void>(cost.operations());
  static_cast<void>(cost.bytes());
  return cost;
}

}  // namespace headwise
