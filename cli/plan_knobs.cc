// What each size of a layer changes: the same layer with one of them changed, side by side.
#include <optional>
#include <utility>

#include "headwise/error.h"
#include "plan.h"
#include "terminal/table.h"
#include "terminal/text.h"

namespace headwise::cli {

namespace {

using terminal::with_thousands;

std::string step(const char* name, std::int64_t from, std::int64_t to) {
  return std::string(name) + " " + std::to_string(from) + " → " + std::to_string(to);
}

// Collects variants that can be; sizes whose products would overflow are left out.
class Variants {
 public:
  Variants(const PlannedLayer& planned, const Machine& machine, int threads)
      : base_(planned.cost), machine_(machine), threads_(threads) {}

  void add(const std::string& change, const AttentionConfig& config, const LayerCall& call) {
    try {
      PlannedLayer layer{.label = change, .cost = layer_cost(config, call)};
      layer.prediction = predict(layer.cost, machine_, threads_);
      knobs.push_back({change, std::move(layer)});
    } catch (const ArgumentError&) {  // twice the size is more than 64 bits hold
    }
  }
  void add(const std::string& change, const AttentionConfig& config) {
    add(change, config, base_.call);
  }

  std::vector<Knob> knobs = {};

 private:
  const LayerCost& base_;
  const Machine& machine_;
  int threads_;
};

AttentionConfig with_heads(AttentionConfig config, std::int64_t heads) {
  if (config.kv_heads() == config.num_heads) config.num_kv_heads = std::nullopt;  // they follow
  config.num_heads = heads;
  return config;
}

void add_heads(Variants& variants, const AttentionConfig& config) {
  const std::int64_t heads = config.num_heads;
  variants.add(step("num_heads", heads, 2 * heads), with_heads(config, 2 * heads));
  if (config.key_dim % 2 != 0 || config.value_size() % 2 != 0) return;
  AttentionConfig same_width = with_heads(config, 2 * heads);
  same_width.key_dim = config.key_dim / 2;
  same_width.value_dim = config.value_size() / 2;
  variants.add(step("num_heads", heads, 2 * heads) + ", " +
                   step("key_dim", config.key_dim, same_width.key_dim) +
                   (config.value_size() == config.key_dim
                        ? ""
                        : ", " + step("value_dim", config.value_size(), *same_width.value_dim)),
               same_width);
}

void add_sizes(Variants& variants, const AttentionConfig& config) {
  if (config.key_dim % 2 == 0) {
    AttentionConfig half = config;
    half.value_dim = config.value_size();
    half.key_dim = config.key_dim / 2;
    variants.add(step("key_dim", config.key_dim, half.key_dim), half);
  }
  if (config.value_size() % 2 == 0) {
    AttentionConfig half = config;
    half.value_dim = config.value_size() / 2;
    variants.add(step("value_dim", config.value_size(), *half.value_dim), half);
  }
  if (config.kv_heads() > 1) {
    AttentionConfig fewer = config;
    fewer.num_kv_heads = config.kv_heads() % 2 == 0 ? config.kv_heads() / 2 : 1;
    variants.add(step("num_kv_heads", config.kv_heads(), *fewer.num_kv_heads), fewer);
  }
}

void add_length(Variants& variants, const LayerCost& cost) {
  LayerCall longer = cost.call;
  longer.queries *= 2;
  if (longer.keys) longer.keys = 2 * *longer.keys;
  variants.add(step("length", cost.call.queries, longer.queries), cost.config, longer);
}

std::string ratio_text(double value, double of) {
  if (value == of) return "same";
  return of == 0.0 ? "–" : "×" + terminal::fixed(value / of, 2);
}

std::string ratio_text(std::int64_t value, std::int64_t of) {
  return ratio_text(static_cast<double>(value), static_cast<double>(of));
}

std::string difference_text(std::int64_t value, std::int64_t of) {
  if (value == of) return "same";
  return (value > of ? "+" : "−") + with_thousands(value > of ? value - of : of - value);
}

std::int64_t pair_flops(const LayerCost& cost) {
  std::int64_t flops = 0;
  for (const StageCost& stage : cost.stages) {
    if (stage.stage == Stage::Scores || stage.stage == Stage::Values) flops += stage.flops;
  }
  return flops;
}

std::int64_t softmax_operations(const LayerCost& cost) {
  std::int64_t operations = 0;
  for (const StageCost& stage : cost.stages) {
    if (stage.stage == Stage::Softmax) operations += stage.operations;
  }
  return operations;
}

std::string rank_text(const RankBounds& ranks) {
  return std::to_string(ranks.scores) + ", " + std::to_string(ranks.values);
}

terminal::Table knob_table(const Plan& plan) {
  const LayerCost& base = plan.layers.front().cost;
  terminal::Table table({{"change", terminal::Align::Left},
                         {"parameters"},
                         {"FLOPs"},
                         {"Q·Kᵀ, P·V"},
                         {"softmax"},
                         {"cache"},
                         {"rank ≤"},
                         {"predicted"}});
  table.add({"as it is", with_thousands(base.weights.total), count_text(base.flops()), "", "",
             terminal::bytes_text(static_cast<double>(base.memory.cache_per_token)),
             rank_text(base.ranks), terminal::duration(plan.layers.front().prediction.seconds)});
  for (const Knob& knob : plan.knobs) {
    const LayerCost& cost = knob.layer.cost;
    table.add({knob.change, difference_text(cost.weights.total, base.weights.total),
               ratio_text(cost.flops(), base.flops()),
               ratio_text(pair_flops(cost), pair_flops(base)),
               ratio_text(softmax_operations(cost), softmax_operations(base)),
               ratio_text(cost.memory.cache_per_token, base.memory.cache_per_token),
               rank_text(cost.ranks), terminal::duration(knob.layer.prediction.seconds)});
  }
  return table;
}

std::string shape_text(std::int64_t a, std::int64_t b, std::int64_t c) {
  return Shape{a, b, c}.to_string();
}

std::string factor_fact(const LayerCost& cost) {
  const AttentionConfig& config = cost.config;
  const RankBounds& ranks = cost.ranks;
  std::string text =
      "A head's W_q and W_k are " + with_thousands(ranks.factored_scores) +
      " numbers for one matrix W_q·W_kᵀ of " + std::to_string(config.query_features) + " × " +
      std::to_string(config.key_inputs()) + " = " + with_thousands(ranks.merged_scores) + ".";
  if (ranks.factored_scores > ranks.merged_scores) text += " Merged they would be fewer.";
  return text;
}

std::string length_fact(const LayerCost& cost) {
  if (cost.flops() == 0) return "";
  const double share = static_cast<double>(pair_flops(cost)) / static_cast<double>(cost.flops());
  return "Projections are " + terminal::percent(1.0 - share) +
         " of the FLOPs and grow with the length; " + terminal::percent(share) +
         " are Q·Kᵀ and P·V, which grow with its square.";
}

}  // namespace

std::vector<Knob> knobs_of(const PlannedLayer& planned, const Machine& machine, int threads) {
  Variants variants(planned, machine, threads);
  add_heads(variants, planned.cost.config);
  add_sizes(variants, planned.cost.config);
  add_length(variants, planned.cost);
  return std::move(variants.knobs);
}

std::string knobs_text(const Plan& plan) {
  const LayerCost& cost = plan.layers.front().cost;
  const AttentionConfig& config = cost.config;
  return "What each knob changes\n" + knob_table(plan).to_string() +
         "cache: a token's key and value; rank ≤: of a head's W_q·W_kᵀ, W_v·W_o\n\n" +
         "The output is " + shape_text(cost.call.batch, cost.call.queries, config.outputs()) +
         " whatever num_heads, key_dim and value_dim are.\n" + factor_fact(cost) + "\n" +
         length_fact(cost) + "\n";
}

}  // namespace headwise::cli
