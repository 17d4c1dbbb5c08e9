// Whole layers, forward and forward + backward: projections, attention, output projection.
#include <algorithm>
#include <memory>

#include "attention_rows.h"
#include "headwise/layer.h"

namespace headwise::bench {

namespace {

constexpr const char* kForward = "layer forward";
constexpr const char* kTraining = "layer forward + backward";
constexpr const char* kTiny = "tiny layers";

struct LayerShape {
  std::int64_t batch = 1;
  std::int64_t length = 0;
  std::int64_t features = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t size = 64;  // of a head
  bool is_causal = false;
  std::vector<std::int64_t> lengths = {};  // of keys; empty: all there

  [[nodiscard]] AttentionConfig config() const {
    return {
        .num_heads = heads, .num_kv_heads = kv_heads, .key_dim = size, .query_features = features};
  }
  [[nodiscard]] Mask mask() const;
  [[nodiscard]] std::string to_string() const;
};

Mask LayerShape::mask() const {
  if (is_causal) return causal();
  return lengths.empty() ? Mask{} : valid_lengths(lengths);
}

std::string LayerShape::to_string() const {
  std::string text = "(" + std::to_string(batch) + ", " + std::to_string(length) + ", " +
                     std::to_string(features) + ") " + std::to_string(heads);
  if (kv_heads != heads) text += "/" + std::to_string(kv_heads);
  return text + "×" + std::to_string(size);
}

struct LayerRun {
  LayerRun(const LayerShape& s, bool training)
      : layer(s.config(), AttentionWeights::glorot(s.config(), 7)),
        input(Tensor::uniform({s.batch, s.length, s.features}, 1, -1.0F, 1.0F)),
        output(input.shape()) {
    options.mask = s.mask();
    options.out = output.view();
    options.training = training;
    options.save_for_backward = training;
    if (training) gradient = Tensor::uniform(input.shape(), 2, -1.0F, 1.0F);
  }
  MultiHeadAttention layer;
  Tensor input;
  Tensor output;
  Tensor gradient;
  ForwardOptions options;
};

Case layer_row(Case row, const LayerShape& s, bool training) {
  row.shape = s.to_string();
  row.cost = layer_cost(
      s.config(), {.batch = s.batch, .queries = s.length, .mask = s.mask(), .training = training});
  const MemoryCost& memory = row.cost->memory;
  row.pairs = static_cast<double>(row.cost->pairs);
  row.flops = static_cast<double>(row.cost->flops());
  row.bytes = static_cast<double>(memory.packed_kernels + memory.inputs + memory.output) *
              (training ? 3.0 : 1.0);
  row.prepare = [s, training]() -> std::function<void(Context&)> {
    auto run = std::make_shared<LayerRun>(s, training);
    return [run, training](Context& context) {
      run->options.context = &context;
      const AttentionResult result = run->layer.forward({.query = run->input}, run->options);
      if (!training) return;
      static_cast<void>(
          run->layer.backward({.query = run->input}, result, run->gradient, run->options));
    };
  };
  return row;
}

LayerShape plain(std::int64_t batch, std::int64_t length, std::int64_t features,
                 std::int64_t heads) {
  return {batch, length, features, heads, heads, features / heads};
}

LayerShape causal_of(LayerShape shape) {
  shape.is_causal = true;
  return shape;
}

LayerShape llama(std::int64_t length) { return {1, length, 4096, 32, 8, 128, true}; }

// Sequences from an eighth of the length to all of it, as a padded batch has them.
LayerShape with_lengths(LayerShape shape) {
  for (std::int64_t b = 1; b <= shape.batch; ++b) {
    shape.lengths.push_back(std::max<std::int64_t>(1, shape.length * b / shape.batch));
  }
  return shape;
}

void add_forward(std::vector<Case>& cases) {
  const auto add = [&](const char* id, const char* label, const LayerShape& shape, double floor) {
    cases.push_back(layer_row({.id = id, .group = kForward, .label = label, .floor = both(floor)},
                              shape, false));
  };
  add("layer-keras", "Keras example", plain(32, 128, 512, 8), 0.84);
  add("layer-bert-128", "BERT 128", plain(8, 128, 768, 12), 0.0);
  add("layer-bert-384", "BERT 384", plain(8, 384, 768, 12), 0.0);
  add("layer-bert-512", "BERT 512", plain(8, 512, 768, 12), 0.84);
  add("layer-bert-128-lengths", "BERT 128, lengths", with_lengths(plain(8, 128, 768, 12)), 0.0);
  add("layer-bert-384-lengths", "BERT 384, lengths", with_lengths(plain(8, 384, 768, 12)), 0.0);
  add("layer-bert-512-lengths", "BERT 512, lengths", with_lengths(plain(8, 512, 768, 12)), 0.0);
  add("layer-vit", "ViT-B/16", plain(8, 197, 768, 12), 0.84);
  add("layer-whisper", "Whisper encoder", plain(1, 1500, 512, 8), 0.82);
  add("layer-gpt2", "GPT-2, causal", causal_of(plain(4, 1024, 768, 12)), 0.0);
  add("layer-llama-512", "Llama 3 8B, prefill 512", llama(512), 0.0);
  add("layer-llama-2048", "Llama 3 8B, prefill 2048", llama(2048), 0.0);
}

void add_training(std::vector<Case>& cases) {
  const auto add = [&](const char* id, const char* label, const LayerShape& shape, double floor) {
    cases.push_back(layer_row({.id = id, .group = kTraining, .label = label, .floor = both(floor)},
                              shape, true));
  };
  add("training-keras", "Keras example", plain(32, 128, 512, 8), 0.75);
  add("training-bert-512", "BERT 512", plain(8, 512, 768, 12), 0.75);
  add("training-gpt2", "GPT-2 1024, causal", causal_of(plain(4, 1024, 768, 12)), 0.0);
}

void add_tiny(std::vector<Case>& cases) {
  Case token{.id = "tiny-1-512", .group = kTiny, .label = "1 token, D 512: reads the weights"};
  token.yardstick = Yardstick::ReadSpeed;
  token.remark = "floor 56 µs on AVX-512 with 2 threads (ONNX Runtime: 73)";
  cases.push_back(layer_row(token, plain(1, 1, 512, 8), false));
  const auto add = [&](const char* id, const char* label, const LayerShape& shape, Floor floor) {
    cases.push_back(
        layer_row({.id = id, .group = kTiny, .label = label, .floor = floor}, shape, false));
  };
  add("tiny-16-512", "16 tokens, D 512", plain(1, 16, 512, 8), {0.75, 0.65});
  add("tiny-32-512", "32 tokens, D 512", plain(1, 32, 512, 8), {});
  add("tiny-8-256", "8 tokens, D 256", plain(1, 8, 256, 4), {});
  add("tiny-32-256", "32 tokens, D 256", plain(1, 32, 256, 4), {0.75, 0.60});
}

}  // namespace

void add_layer_cases(std::vector<Case>& cases) {
  add_forward(cases);
  add_training(cases);
  add_tiny(cases);
}

}  // namespace headwise::bench
