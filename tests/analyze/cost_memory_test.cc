// Memory that costs tell of, against what real calls hold.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "headwise/cost.h"
#include "headwise/layer.h"
#include "layer/layer_state.h"

namespace headwise {
namespace {

std::int64_t bytes_of(std::initializer_list<const Tensor*> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor* tensor : tensors) {
    bytes += tensor->size() * static_cast<std::int64_t>(sizeof(float));
  }
  return bytes;
}

// A layer that ran, and its cost.
struct Trained {
  explicit Trained(const AttentionConfig& config, const LayerCall& call)
      : cost(layer_cost(config, call)),
        layer(config, AttentionWeights::glorot(config, 1)),
        query(Tensor::normal({call.batch, call.queries, config.query_features}, 1)),
        key(Tensor::normal({call.batch, call.key_count(), config.key_inputs()}, 2)),
        value(Tensor::normal({call.batch, call.key_count(), config.value_inputs()}, 3)) {
    const AttentionInputs inputs{query, key, value};
    const ForwardOptions options{.mask = call.mask,
                                 .training = call.training,
                                 .save_for_backward = call.training,
                                 .context = &context};
    forward = layer.forward(inputs, options);
    forward_scratch = static_cast<std::int64_t>(context.scratch_bytes());
    if (!call.training) return;
    Context fresh(2);
    ForwardOptions backward_options = options;
    backward_options.context = &fresh;
    const Tensor gradient = Tensor::normal(forward.output.shape(), 4);
    gradients = layer.backward(inputs, forward, gradient, backward_options);
    backward_scratch = static_cast<std::int64_t>(fresh.scratch_bytes());
  }

  LayerCost cost;
  MultiHeadAttention layer;
  Tensor query, key, value;
  Context context{2};
  AttentionResult forward;
  LayerGradients gradients;
  std::int64_t forward_scratch = 0;
  std::int64_t backward_scratch = 0;
};

// Every option that makes a layer keep more.
std::vector<AttentionConfig> all_kinds() {
  const AttentionConfig plain{.num_heads = 4,
                              .num_kv_heads = 2,
                              .key_dim = 24,
                              .value_dim = 40,
                              .query_features = 72,
                              .key_features = 56,
                              .value_features = 48,
                              .output_features = 64};
  AttentionConfig gated = plain;
  gated.use_gate = true;
  AttentionConfig normalised = plain;
  normalised.qk_norm = QkNorm::RmsNorm;
  AttentionConfig extended = plain;
  extended.add_bias_kv = true;
  extended.add_zero_attn = true;
  return {plain, gated, normalised, extended};
}

TEST(CostMemory, WhatForwardSavesForBackward) {
  for (const AttentionConfig& config : all_kinds()) {
    const Trained run(config, {.batch = 3, .queries = 37, .keys = 29, .training = true});
    const SavedForward& saved = *run.forward.saved;
    EXPECT_EQ(run.cost.memory.saved,
              bytes_of({&saved.query_raw, &saved.key_raw, &saved.query, &saved.key, &saved.value,
                        &saved.heads, &saved.gate, &run.forward.log_sum_exp,
                        &run.forward.row_reference, &run.forward.row_sum}));
  }
}

TEST(CostMemory, GradientsOfInputsAndWeights) {
  for (const AttentionConfig& config : all_kinds()) {
    const Trained run(config, {.batch = 3, .queries = 37, .keys = 29, .training = true});
    std::int64_t bytes = bytes_of({&run.gradients.query, &run.gradients.key, &run.gradients.value});
    for (const WeightField& field : weight_fields()) {
      if (field.present(config)) bytes += bytes_of({&(run.gradients.weights.*field.tensor)});
    }
    EXPECT_EQ(run.cost.memory.gradients, bytes);
  }
}

// Scratch holds the activations, and a copy of K and V in panels; beyond that it does not grow.
TEST(CostMemory, ScratchIsTheActivationsAndPanels) {
  constexpr std::int64_t kFixed = 3 << 20;  // tiles of two threads
  const AttentionConfig config{.num_heads = 4, .key_dim = 64, .query_features = 256};
  for (const std::int64_t length : {64, 1024, 4096}) {
    const Trained run(config, {.queries = length});
    const MemoryCost& memory = run.cost.memory;
    const std::int64_t statistics =
        bytes_of({&run.forward.log_sum_exp, &run.forward.row_reference, &run.forward.row_sum});
    const std::int64_t buffers = memory.activations - statistics;
    const std::int64_t panels = length * memory.cache_per_token;
    EXPECT_GE(run.forward_scratch, buffers);
    EXPECT_LE(run.forward_scratch, buffers + panels + kFixed);
    EXPECT_EQ(memory.output, bytes_of({&run.forward.output}));
    EXPECT_EQ(memory.score_matrices, 4 * length * length * 4);
  }
}

// What grows with the length is counted to the byte, but for places in lists and cache lines; the
// rest is tiles of two threads and a kernel.
TEST(CostMemory, BuffersOfBackward) {
  constexpr std::int64_t kTiles = 3 << 20;
  constexpr std::int64_t kLines = 4096;
  for (const AttentionConfig& config : all_kinds()) {
    const Trained once(config, {.batch = 2, .queries = 700, .keys = 600, .training = true});
    const Trained twice(config, {.batch = 2, .queries = 1400, .keys = 1200, .training = true});
    const std::int64_t buffers = once.cost.memory.backward_buffers;
    EXPECT_GE(once.backward_scratch, buffers);
    EXPECT_LE(once.backward_scratch, buffers + kTiles);
    EXPECT_NEAR(static_cast<double>(twice.backward_scratch - once.backward_scratch),
                static_cast<double>(twice.cost.memory.backward_buffers - buffers), kLines);
  }
}

TEST(CostMemory, CacheOfATokenByHand) {
  // Llama 3 8B: 8 key/value heads of 128, keys and values, 4 bytes each.
  const AttentionConfig llama{
      .num_heads = 32, .num_kv_heads = 8, .key_dim = 128, .query_features = 4096};
  EXPECT_EQ(layer_cost(llama, {.queries = 1}).memory.cache_per_token, 8 * (128 + 128) * 4);
  AttentionConfig narrow = llama;
  narrow.value_dim = 64;
  EXPECT_EQ(layer_cost(narrow, {.queries = 1}).memory.cache_per_token, 8 * (128 + 64) * 4);
}

// One tensor for query, key and value counts once; training alone keeps anything.
TEST(CostMemory, InputsAndInference) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 8, .query_features = 16};
  const LayerCost self = layer_cost(config, {.batch = 2, .queries = 5});
  EXPECT_EQ(self.memory.inputs, 2 * 5 * 16 * 4);
  EXPECT_EQ(self.memory.parameters, self.weights.total * 4);
  EXPECT_EQ(self.memory.saved, 0);
  EXPECT_EQ(self.memory.gradients, 0);
  EXPECT_EQ(self.memory.backward_buffers, 0);
  const LayerCost cross = layer_cost(config, {.batch = 2, .queries = 5, .keys = 7});
  EXPECT_EQ(cross.memory.inputs, 2 * (5 + 7) * 16 * 4);
}

}  // namespace
}  // namespace headwise
