// The plan of one layer, and the table of several, for people.
#include <cmath>
#include <cstddef>
#include <utility>

#include "plan.h"
#include "terminal/printable.h"
#include "terminal/table.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

using terminal::bytes_text;
using terminal::duration;
using terminal::percent;
using terminal::short_number;
using terminal::Table;

double real(std::int64_t value) { return static_cast<double>(value); }

std::string stage_title(Stage stage, Pass pass) {
  std::string title(name_of(stage));
  for (char& c : title) {
    if (c == '_') c = ' ';
  }
  if (stage == Stage::Scores) title += " Q·Kᵀ";
  if (stage == Stage::Values) title += " P·V";
  return pass == Pass::Backward ? title + ", backward" : title;
}

std::string bytes_of(std::int64_t bytes) { return bytes_text(real(bytes)); }

std::string threads_text(int threads) {
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

std::string call_text(const Plan& plan) {
  const LayerCall& call = plan.layers.front().cost.call;
  const AttentionConfig& config = plan.layers.front().cost.config;
  std::string text = "query " + Shape{call.batch, call.queries, config.query_features}.to_string();
  if (call.keys) {
    text += ", key " + Shape{call.batch, *call.keys, config.key_inputs()}.to_string();
  }
  return text + (call.training ? ", training" : "") + ", " + threads_text(plan.threads) + ", " +
         terminal::printable(plan.machine.target) + "\n";
}

std::string pairs_text(const LayerCost& cost) {
  if (cost.pairs == cost.all_pairs) return "";
  return terminal::with_thousands(cost.pairs) + " of " + terminal::with_thousands(cost.all_pairs) +
         " pairs of a query and a key are attended (" +
         percent(real(cost.pairs) / real(cost.all_pairs)) + "); the others cost nothing.\n";
}

std::string work_text(const PlannedLayer& layer) {
  const LayerCost& cost = layer.cost;
  Table table({{"Work", terminal::Align::Left},
               {"FLOPs"},
               {"share"},
               {"other operations"},
               {"bytes moved"},
               {"predicted"},
               {"bound by", terminal::Align::Left}});
  const double flops = real(cost.flops());
  for (std::size_t i = 0; i < cost.stages.size(); ++i) {
    const StageCost& stage = cost.stages[i];
    const StageTime& time = layer.prediction.stages[i];
    const bool counts = stage.flops > 0 && flops > 0.0;
    table.add({stage_title(stage.stage, stage.pass), count_text(stage.flops),
               counts ? terminal::fixed(100.0 * real(stage.flops) / flops, 1) + "%" : "–",
               count_text(stage.operations), bytes_of(stage.bytes), duration(time.seconds),
               time.bound == Bound::Compute ? "compute" : "memory"});
  }
  table.add({"calls, tasks, threads", "–", "–", "–", "–", duration(layer.prediction.overhead)});
  table.add_rule();
  table.add({"all", count_text(cost.flops()), "", count_text(cost.operations()),
             bytes_of(cost.bytes()), duration(layer.prediction.seconds)});
  return table.to_string();
}

std::string error_text(const PlannedLayer& layer) {
  const double off = (layer.prediction.seconds / layer.timing->seconds - 1.0) * 100.0;
  return (off < 0.0 ? "−" : "+") + terminal::fixed(std::abs(off), 0) + "%";
}

std::string time_text(const Plan& plan) {
  const PlannedLayer& layer = plan.layers.front();
  const double rate = real(layer.cost.flops()) / layer.prediction.seconds;
  const double peak = layer.timing ? layer.timing->peak : plan.machine.at(plan.threads).peak;
  std::string text = "predicted " + duration(layer.prediction.seconds) + ": " +
                     short_number(rate / 1e9) + " GFLOP/s, " + percent(rate / peak) +
                     " of the peak of " + short_number(peak / 1e9) + " (" +
                     terminal::printable(plan.machine.cpu) + ")\n";
  if (!layer.timing) return text;
  const LayerTiming& timing = *layer.timing;
  text += "measured  " + duration(timing.seconds) + " (" + duration(timing.seconds_low) + " … " +
          duration(timing.seconds_high) + ", " + std::to_string(timing.rounds) +
          (timing.rounds == 1 ? " round)" : " rounds)") + ": the prediction is off by " +
          error_text(layer) + "\n";
  if (timing.disturbed) {
    text += "          too long: other processes had the CPUs, or the cores, in every round\n";
  }
  return text;
}

std::string memory_text(const LayerCost& cost) {
  const MemoryCost memory = memory_with_training(cost);
  Table table({{"Memory", terminal::Align::Left}, {""}, {"", terminal::Align::Left}});
  table.add(
      {"parameters", bytes_of(memory.parameters),
       "and " + bytes_of(memory.packed_kernels) + " of kernels in the order that products read"});
  table.add({"input and output", bytes_of(memory.inputs + memory.output)});
  table.add({"activations", bytes_of(memory.activations),
             "streamed; T×S matrices of all heads would add " + bytes_of(memory.score_matrices)});
  table.add({"key/value cache", bytes_of(memory.cache_per_token), "a token"});
  const std::int64_t training = memory.saved + memory.gradients + memory.backward_buffers;
  table.add({"training, in all", bytes_of(training), "beside parameters, input and output:"});
  table.add({"  saved for backward", bytes_of(memory.saved),
             "those activations; nothing of T×S is kept"});
  table.add({"  gradients", bytes_of(memory.gradients), "of inputs and parameters"});
  table.add({"  backward's buffers", bytes_of(memory.backward_buffers)});
  return table.to_string();
}

// What a call holds beside parameters, input and output.
std::int64_t working_memory(const LayerCost& cost) {
  const MemoryCost& memory = cost.memory;
  return cost.call.training ? memory.saved + memory.gradients + memory.backward_buffers
                            : memory.activations;
}

constexpr const char* kComparisonLegend =
    "layer: num_heads x key_dim, v value_dim, kv num_kv_heads; × of the first row\n"
    "memory: activations, in training gradients and backward's buffers too\n"
    "cache: a token's key and value; rank ≤: of a head's W_q·W_kᵀ, W_v·W_o\n"
    "The output has the same shape for all of them.\n";

std::string ranks_text(const LayerCost& cost) {
  const AttentionConfig& config = cost.config;
  Table table({{"Rank of a head", terminal::Align::Left}, {""}, {"", terminal::Align::Left}});
  const auto of = [](std::int64_t rows, std::int64_t columns) {
    return "of a matrix " + std::to_string(rows) + " × " + std::to_string(columns);
  };
  table.add({"scores, W_q·W_kᵀ", "≤ " + std::to_string(cost.ranks.scores),
             of(config.query_features, config.key_inputs())});
  table.add({"output, W_v·W_o", "≤ " + std::to_string(cost.ranks.values),
             of(config.value_inputs(), config.outputs())});
  return table.to_string();
}

}  // namespace

std::string count_text(std::int64_t count) {
  if (count == 0) return "–";
  if (count < 10000) return std::to_string(count);
  if (count < 1000000000) return short_number(real(count) / 1e6) + " M";
  return short_number(real(count) / 1e9) + " G";
}

std::string plan_text(const Plan& plan) {
  const PlannedLayer& layer = plan.layers.front();
  return layer.label + "\n" + call_text(plan) + "\n" + layer.cost.weights.to_string() + "\n" +
         work_text(layer) + pairs_text(layer.cost) + time_text(plan) + "\n" +
         memory_text(layer.cost) + "\n" + ranks_text(layer.cost) + "\n" + knobs_text(plan);
}

std::string comparison_text(const Plan& plan) {
  const PlannedLayer& first = plan.layers.front();
  const bool timed = first.timing.has_value();
  std::vector<Table::Column> columns = {{"layer", terminal::Align::Left},
                                        {"parameters"},
                                        {""},
                                        {"FLOPs"},
                                        {""},
                                        {"memory"},
                                        {"cache"},
                                        {"rank ≤"},
                                        {"predicted"},
                                        {""}};
  if (timed) columns.insert(columns.end(), {{"measured"}, {""}, {"off by"}});
  Table table(std::move(columns));
  const auto relative = [](double value, double of) {
    return "×" + terminal::fixed(value / of, 2);
  };
  bool disturbed = false;
  for (const PlannedLayer& layer : plan.layers) {
    const LayerCost& cost = layer.cost;
    std::vector<std::string> cells = {
        layer.label,
        terminal::with_thousands(cost.weights.total),
        relative(real(cost.weights.total), real(first.cost.weights.total)),
        count_text(cost.flops()),
        relative(real(cost.flops()), real(first.cost.flops())),
        bytes_of(working_memory(cost)),
        bytes_of(cost.memory.cache_per_token),
        std::to_string(cost.ranks.scores) + ", " + std::to_string(cost.ranks.values),
        duration(layer.prediction.seconds),
        relative(layer.prediction.seconds, first.prediction.seconds)};
    if (timed) {
      disturbed = disturbed || layer.timing->disturbed;
      cells.push_back((layer.timing->disturbed ? "~" : "") + duration(layer.timing->seconds));
      cells.push_back(relative(layer.timing->seconds, first.timing->seconds));
      cells.push_back(error_text(layer));
    }
    table.add(std::move(cells));
  }
  std::string text = call_text(plan) + pairs_text(first.cost) + "\n" + table.to_string() + "\n" +
                     kComparisonLegend;
  if (disturbed)
    text += "~ other processes had the CPUs, or the cores, in every round: too long.\n";
  return text;
}

}  // namespace headwise::cli
