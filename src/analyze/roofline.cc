// From counts to seconds: each stage is as slow as its arithmetic or as its bytes.
#include <algorithm>
#include <cmath>

#include "analyze/kernel_shares.h"
#include "base/check.h"
#include "base/thread_count.h"
#include "headwise/cost.h"

namespace headwise {

namespace {

using analyze::KernelShares;

double real(std::int64_t value) { return static_cast<double>(value); }

double filled_panels(std::int64_t columns) {
  return real(base::divide_up(columns, analyze::kPanel) * analyze::kPanel);
}

// The slowest thread's part of tasks that are all alike, as threads that would do it evenly.
double usable_threads(double tasks, int threads) {
  if (tasks < 1.0) return 1.0;
  return tasks / std::ceil(tasks / threads);
}

// Work of one stage, in FLOPs at the full peak.
struct Work {
  double arithmetic = 0.0;
  double bytes = 0.0;
  double tasks = 1.0;
};

class Roofline {
 public:
  Roofline(const LayerCost& cost, const Machine& machine, int threads);
  [[nodiscard]] Prediction prediction() const;

 private:
  [[nodiscard]] bool worth_threads() const;
  [[nodiscard]] StageTime time_of(const StageCost& stage) const;
  [[nodiscard]] Work work_of(const StageCost& stage) const;
  [[nodiscard]] Work projection(const StageCost& stage) const;
  [[nodiscard]] Work scores(const StageCost& stage) const;
  [[nodiscard]] Work softmax(const StageCost& stage) const;
  [[nodiscard]] Work values(const StageCost& stage) const;
  struct Product {
    std::int64_t rows, inputs, outputs;
  };
  [[nodiscard]] Product product_of(Stage stage) const;
  [[nodiscard]] static double tasks_of(const Product& product);
  [[nodiscard]] double tasks_beside(Stage stage) const;
  [[nodiscard]] double computed_pairs(Pass pass) const;
  [[nodiscard]] double attention_tasks(Pass pass) const;
  [[nodiscard]] double overhead() const;
  [[nodiscard]] double cleared_bytes() const;

  const LayerCost& cost_;
  const AttentionConfig& config_;
  const LayerCall& call_;
  const Machine& machine_;
  const KernelShares& shares_;
  int threads_;            // that share the work
  double thread_peak_;     // FLOP/s of one
  double thread_reading_;  // bytes/s of one, from where the working set lives
};

// What a call touches: its parts come round again only after all the others.
double working_set(const MemoryCost& memory) {
  return real(memory.packed_kernels) + real(memory.inputs) + real(memory.output) +
         real(memory.activations) + real(memory.saved) + real(memory.gradients) +
         real(memory.backward_buffers);
}

// Of the machine, what was measured on that many threads, if a time can follow from it.
const ThreadYardsticks& checked_yardsticks(const Machine& machine, int threads) {
  const auto check = [](bool good, const char* expected, double got) {
    if (!good) base::fail("predict", "machine", expected, base::to_string(got));
  };
  const auto is_speed = [](double speed) { return std::isfinite(speed) && speed > 0.0; };
  base::checked_threads("predict", threads);
  const ThreadYardsticks& yardsticks = machine.at(threads);
  check(is_speed(yardsticks.peak), "a peak > 0", yardsticks.peak);
  check(!yardsticks.reads.empty(), "read speeds of one place or more", 0.0);
  for (const ReadSpeed& read : yardsticks.reads) {
    check(is_speed(read.bytes_per_second), "read speeds > 0", read.bytes_per_second);
  }
  check(std::isfinite(machine.call_seconds) && machine.call_seconds >= 0.0, "call_seconds ≥ 0",
        machine.call_seconds);
  return yardsticks;
}

Roofline::Roofline(const LayerCost& cost, const Machine& machine, int threads)
    : cost_(cost),
      config_(cost.config),
      call_(cost.call),
      machine_(machine),
      shares_(analyze::kernel_shares(machine.target)) {
  const ThreadYardsticks& yardsticks = checked_yardsticks(machine, threads);
  threads_ = worth_threads() ? threads : 1;
  thread_peak_ = yardsticks.peak / threads;
  thread_reading_ = yardsticks.read_speed(working_set(cost.memory)) / threads;
}

// Calls too small to share stay on one thread. The library does not look at the mask for that.
bool Roofline::worth_threads() const {
  double flops = 2.0 * real(cost_.all_pairs) * real(config_.key_dim + config_.value_size());
  for (const StageCost& stage : cost_.stages) {
    const bool counted = stage.stage != Stage::Scores && stage.stage != Stage::Values;
    if (stage.pass == Pass::Forward && counted) flops += real(stage.flops);
  }
  return flops >= analyze::kFlopsWorthThreads;
}

// Pairs that register tiles compute: those of the mask's ranges, a part of the tiles that its edges
// cut, and in the other rows the last panel of keys filled up.
double Roofline::computed_pairs(Pass pass) const {
  const std::int64_t keys = call_.key_count() + config_.extra_keys();
  const double filling = filled_panels(keys) - real(keys);
  const double rows = real(call_.batch) * real(call_.queries) * real(config_.num_heads);
  const double uncut = std::max(0.0, rows - real(cost_.cut_ends));
  const double cut_keys = analyze::cut_keys(shares_, pass == Pass::Backward);
  return real(cost_.range_pairs) + uncut * filling + real(cost_.cut_ends) * cut_keys;
}

double Roofline::attention_tasks(Pass pass) const {
  const std::int64_t group = config_.num_heads / config_.kv_heads();
  const std::int64_t parts =
      pass == Pass::Forward
          ? base::divide_up(call_.queries * group, analyze::kTaskRows)
          : base::divide_up(call_.key_count() + config_.extra_keys(), analyze::kBackwardTaskKeys);
  return real(call_.batch) * real(config_.kv_heads()) * real(parts);
}

// Blocks of rows, and of columns where rows are few.
double Roofline::tasks_of(const Product& product) {
  constexpr std::int64_t kWanted = 16;
  const std::int64_t row_blocks = base::divide_up(product.rows, analyze::kProjectionRows);
  const std::int64_t wanted = base::divide_up(kWanted, std::max<std::int64_t>(1, row_blocks));
  const std::int64_t column_blocks = std::clamp<std::int64_t>(
      product.outputs / analyze::projection_columns(product.rows), 1, wanted);
  return real(row_blocks * column_blocks);
}

Roofline::Product Roofline::product_of(Stage stage) const {
  const std::int64_t queries = call_.batch * call_.queries;
  const std::int64_t keys = call_.batch * call_.key_count();
  const std::int64_t head_width = config_.num_heads * config_.value_size();
  switch (stage) {
    case Stage::KeyProjection:
      return {keys, config_.key_inputs(), config_.kv_heads() * config_.key_dim};
    case Stage::ValueProjection:
      return {keys, config_.value_inputs(), config_.kv_heads() * config_.value_size()};
    case Stage::Gate:
      return {queries, config_.query_features, head_width};
    case Stage::OutputProjection:
      return {queries, head_width, config_.outputs()};
    default:
      return {queries, config_.query_features, config_.num_heads * config_.key_dim};
  }
}

// The projections of the inputs share out their tasks together, the output's come alone.
double Roofline::tasks_beside(Stage stage) const {
  if (stage == Stage::OutputProjection) return tasks_of(product_of(stage));
  return tasks_of(product_of(Stage::QueryProjection)) + tasks_of(product_of(Stage::KeyProjection)) +
         tasks_of(product_of(Stage::ValueProjection)) +
         (config_.use_gate ? tasks_of(product_of(Stage::Gate)) : 0.0);
}

Work Roofline::projection(const StageCost& stage) const {
  const Product product = product_of(stage.stage);
  const double flops = real(stage.flops);
  const double others = real(stage.operations) / shares_.operations;
  const double tasks = tasks_beside(stage.stage);
  if (stage.pass == Pass::Forward) {
    return {flops / shares_.projection + others, real(stage.bytes), tasks};
  }
  // Half of it is dy·Wᵀ, whose kernel is transposed anew, and half xᵀ·dy.
  const double through = 0.5 * flops / shares_.projection;
  const double packing = analyze::kPackOperations * real(product.inputs) * real(product.outputs);
  return {through + packing + 0.5 * flops / shares_.weight_gradient + others, real(stage.bytes),
          tasks};
}

Work Roofline::scores(const StageCost& stage) const {
  const double pairs = computed_pairs(stage.pass);
  const double depth = real(config_.key_dim);
  const double keys = real(call_.batch) * real(call_.key_count() + config_.extra_keys());
  const double k = keys * real(config_.kv_heads()) * depth;
  const double tasks = attention_tasks(stage.pass);
  if (stage.pass == Pass::Forward) {
    return {pairs * 2.0 * depth / shares_.heads + analyze::kPackOperations * k, real(stage.bytes),
            tasks};
  }
  // dQ and dK have key_dim columns, filled up to panels. Keys are packed twice.
  const double products = 2.0 * depth + 4.0 * filled_panels(config_.key_dim);
  return {pairs * products / shares_.heads_backward + 2.0 * analyze::kPackOperations * k,
          real(stage.bytes), tasks};
}

Work Roofline::softmax(const StageCost& stage) const {
  const double each = cost_.pairs == 0 ? 0.0 : real(stage.operations) / real(cost_.pairs);
  return {computed_pairs(stage.pass) * each / shares_.operations, real(stage.bytes),
          attention_tasks(stage.pass)};
}

Work Roofline::values(const StageCost& stage) const {
  const double pairs = computed_pairs(stage.pass);
  const double columns = filled_panels(config_.value_size());
  const double keys = real(call_.batch) * real(call_.key_count() + config_.extra_keys());
  const double v = keys * real(config_.kv_heads()) * real(config_.value_size());
  const double tasks = attention_tasks(stage.pass);
  const double packing = analyze::kPackOperations * v;
  if (stage.pass == Pass::Forward) {
    return {pairs * 2.0 * columns / shares_.heads + packing, real(stage.bytes), tasks};
  }
  const double products = 2.0 * real(config_.value_size()) + 2.0 * columns;
  return {pairs * products / shares_.heads_backward + packing, real(stage.bytes), tasks};
}

Work Roofline::work_of(const StageCost& stage) const {
  switch (stage.stage) {
    case Stage::Scores:
      return scores(stage);
    case Stage::Softmax:
      return softmax(stage);
    case Stage::Values:
      return values(stage);
    default:
      return projection(stage);
  }
}

StageTime Roofline::time_of(const StageCost& stage) const {
  const Work work = work_of(stage);
  const double threads = usable_threads(work.tasks, threads_);
  const double compute = work.arithmetic / (thread_peak_ * threads);
  const double memory = work.bytes / (thread_reading_ * threads);
  return {stage.stage, stage.pass, std::max(compute, memory),
          compute >= memory ? Bound::Compute : Bound::Memory};
}

// Results begin as zeros. The output is taken to be the caller's.
double Roofline::cleared_bytes() const {
  const double statistics =
      3.0 * sizeof(float) * real(call_.batch) * real(call_.queries) * real(config_.num_heads);
  if (!call_.training) return statistics;
  const double query_gradient = sizeof(float) * real(call_.batch) * real(call_.queries) *
                                real(config_.num_heads) * real(config_.key_dim);
  return real(cost_.memory.saved) + real(cost_.memory.gradients) + query_gradient;
}

double Roofline::overhead() const {
  const double calls = call_.training ? 2.0 : 1.0;
  double tasks = attention_tasks(Pass::Forward);
  if (call_.training) tasks += attention_tasks(Pass::Backward);
  const double bookkeeping = calls * machine_.call_seconds + analyze::kTaskCalls *
                                                                 machine_.call_seconds * tasks /
                                                                 usable_threads(tasks, threads_);
  const double meeting = threads_ > 1 ? calls * analyze::kMeetings * machine_.call_seconds : 0.0;
  return bookkeeping + meeting + cleared_bytes() / (analyze::kClearingSpeed * thread_reading_);
}

Prediction Roofline::prediction() const {
  Prediction prediction;
  prediction.overhead = overhead();
  prediction.seconds = prediction.overhead;
  for (const StageCost& stage : cost_.stages) {
    prediction.stages.push_back(time_of(stage));
    prediction.seconds += prediction.stages.back().seconds;
  }
  return prediction;
}

}  // namespace

Prediction predict(const LayerCost& cost, const Machine& machine, int threads) {
  return Roofline(cost, machine, threads).prediction();
}

}  // namespace headwise
