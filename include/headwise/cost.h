// What a layer costs: everything that follows from its sizes, counted exactly, and the time that it
// should take on a machine.
//
//   config, call ──layer_cost──► LayerCost ──predict(machine)──► Prediction
//                └─measure_layers──► LayerTiming: the real thing beside it
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/config.h"
#include "headwise/machine.h"
#include "headwise/mask.h"
#include "headwise/weights.h"

namespace headwise {

// One call of a layer, by its sizes. Arithmetic is float32.
struct LayerCall {
  std::int64_t batch = 1;
  std::int64_t queries = 0;               // of every sequence
  std::optional<std::int64_t> keys = {};  // of every sequence; queries
  Mask mask = {};
  bool training = false;  // a forward that saves, and its backward

  [[nodiscard]] std::int64_t key_count() const { return keys.value_or(queries); }
};

// Parts of the work, in the order of a forward call.
enum class Stage {
  QueryProjection,
  KeyProjection,
  ValueProjection,
  Gate,     // its projection, sigmoid and product with the heads
  Scores,   // Q·Kᵀ
  Softmax,  // never a matrix in memory: scores live and die in the first cache
  Values,   // P·V
  OutputProjection
};
std::string_view name_of(Stage stage);  // "query_projection"

enum class Pass { Forward, Backward };

struct StageCost {
  Stage stage = Stage::QueryProjection;
  Pass pass = Pass::Forward;
  // Of matrix products; a multiply-add counts two. Hidden pairs of a query and a key do not count.
  std::int64_t flops = 0;
  // Floating-point operations of everything else: 1 for a bias that is added, 18 for a score's
  // softmax (maximum 1, exponent 5, polynomial 10, power 1, sum 1), 23 for a number's gate.
  std::int64_t operations = 0;
  // Every input of the stage read once and every output written once.
  std::int64_t bytes = 0;
};

// Bytes. Scratch of fixed size for every thread (some 100 KB) is not counted.
struct MemoryCost {
  std::int64_t parameters = 0;
  std::int64_t packed_kernels = 0;  // the layer's second copy, in the order that the products read
  std::int64_t inputs = 0;          // the caller's; a tensor that serves as several counts once
  std::int64_t output = 0;
  std::int64_t activations = 0;  // Q, K, V, heads, gate and three numbers a row: linear in T and S
  // One T×S matrix for every head: what an implementation holds that does not stream over the keys,
  // often two or three times. Headwise makes it only if all attention weights are asked for.
  std::int64_t score_matrices = 0;
  std::int64_t cache_per_token = 0;  // key and value of one token

  // Training; 0 otherwise.
  std::int64_t saved = 0;             // from forward to backward: the activations
  std::int64_t gradients = 0;         // of inputs and parameters
  std::int64_t backward_buffers = 0;  // gradients of Q, K, V and heads, a kernel transposed
};

// A head's scores depend on W_q·W_kᵀ alone and its output on W_v·W_o: no choice of weights gives
// these more rank than this.
struct RankBounds {
  std::int64_t scores = 0;           // min(key_dim, query features, key features)
  std::int64_t values = 0;           // min(value_dim, value features, output features)
  std::int64_t factored_scores = 0;  // numbers in a head's W_q and W_k
  std::int64_t merged_scores = 0;    // and in the one matrix W_q·W_kᵀ that they stand for
};

struct LayerCost {
  AttentionConfig config;
  LayerCall call;
  WeightTable weights;
  // Of a query and a key, over all sequences and heads:
  std::int64_t all_pairs = 0;    // were nothing masked
  std::int64_t pairs = 0;        // attended, exactly
  std::int64_t range_pairs = 0;  // that positions and lengths leave: the kernels compute these
  // How often a row's keys begin or end inside the sequence because of a position (causal, window).
  std::int64_t cut_ends = 0;
  std::vector<StageCost> stages;  // forward, then backward; without those that the layer lacks
  MemoryCost memory;
  RankBounds ranks;

  [[nodiscard]] std::int64_t flops() const;
  [[nodiscard]] std::int64_t operations() const;
  [[nodiscard]] std::int64_t bytes() const;
};

// Throws ArgumentError for a configuration, a mask or sizes that cannot be, and for products of
// them that do not fit 64 bits.
LayerCost layer_cost(const AttentionConfig& config, const LayerCall& call);

// ---- time ----

// What a stage's time follows from.
enum class Bound { Compute, Memory };

struct StageTime {
  Stage stage = Stage::QueryProjection;
  Pass pass = Pass::Forward;
  double seconds = 0.0;
  Bound bound = Bound::Compute;
};

struct Prediction {
  std::vector<StageTime> stages;  // as in LayerCost
  double overhead = 0.0;          // seconds: calls, tasks, waking threads, clearing results
  double seconds = 0.0;           // of all
};

// A roofline: each stage takes as long as its arithmetic does at the share of the peak that the
// kernels reach, or as its bytes do at the read speed of the place that holds the call's working
// set, whichever is longer. For a call after others like it; docs/plan.md explains the shares.
// Throws ArgumentError if nothing was measured on that many threads, or no speed > 0.
Prediction predict(const LayerCost& cost, const Machine& machine, int threads);

// A layer to be timed, with random weights and input of the configuration's seed.
struct LayerRun {
  AttentionConfig config;
  LayerCall call;
};

struct MeasureOptions {
  int threads = 1;
  std::string target = {};     // of the kernels; empty: default_target()
  int rounds = 15;             // layers take turns, so that a bad moment hits all of them
  double layer_seconds = 2.0;  // a slow layer sits out the rounds after this long
  std::function<void(int)> on_round = {};  // called with the number of rounds done
};

struct LayerTiming {
  double seconds = 0.0;      // median of the rounds that nobody disturbed
  double seconds_low = 0.0;  // and their quartiles
  double seconds_high = 0.0;
  double peak = 0.0;       // FLOP/s at those moments, median
  int rounds = 0;          // that it is a median of
  bool disturbed = false;  // all of them were: the time is too long
};

// One timing for each layer. `yardsticks` must be of the same target. Throws OutOfMemory, and
// ArgumentError for no round or a number of threads that cannot be.
std::vector<LayerTiming> measure_layers(const std::vector<LayerRun>& layers,
                                        const MeasureOptions& options,
                                        const Yardsticks& yardsticks);

}  // namespace headwise
