#include "accuracy/op_accuracy.h"

#include <algorithm>
#include <cmath>

#include "headwise/headwise.h"
#include "support/accuracy.h"

namespace headwise::accuracy {
namespace {

using test_support::kForwardFactor;
using test_support::kGradientFactor;

constexpr std::uint64_t kDraws = 2;

struct Tensors {
  Tensor query, key, value, output_gradient, bias;
};

Tensors make_tensors(const OpAccuracyCase& c, std::uint64_t draw) {
  const HeadSizes& n = c.sizes;
  const std::uint64_t seed = 10 * draw;
  Tensors x;
  x.query = Tensor::normal({n.queries, n.heads, n.key_dim}, seed + 1, c.deviation);
  x.key = Tensor::normal({n.keys, n.kv_heads, n.key_dim}, seed + 2, c.deviation);
  x.value = Tensor::normal({n.keys, n.kv_heads, n.value_dim}, seed + 3);
  x.output_gradient = Tensor::normal({n.queries, n.heads, n.value_dim}, seed + 4);
  if (c.bias) x.bias = Tensor::normal({n.heads, n.queries, n.keys}, seed + 5, 2.0F);
  if (c.inputs == Inputs::Constant) {
    const std::int64_t row = n.kv_heads * n.key_dim;
    for (std::int64_t i = row; i < x.key.size(); ++i) x.key.data()[i] = x.key.data()[i % row];
  }
  if (c.inputs == Inputs::NearlyOneHot) {
    // Its score is factor·|k|²/√d, and |k|² about d.
    const float factor = c.lead / std::sqrt(static_cast<float>(n.key_dim));
    for (std::int64_t t = 0; t < n.queries; ++t) {
      for (std::int64_t h = 0; h < n.heads; ++h) {
        for (std::int64_t i = 0; i < n.key_dim; ++i) {
          x.query.view()(t, h, i) =
              factor * x.key.view()(t * 7 % n.keys, h / (n.heads / n.kv_heads), i);
        }
      }
    }
  }
  return x;
}

template <typename Scalar>
std::vector<Scalar> numbers(const Tensor& tensor) {
  return {tensor.values().begin(), tensor.values().end()};
}

template <typename Scalar>
PlainAttention<Scalar> run_plain(const OpAccuracyCase& c, const Tensors& x) {
  PlainAttention<Scalar> plain;
  plain.query = numbers<Scalar>(x.query);
  plain.key = numbers<Scalar>(x.key);
  plain.value = numbers<Scalar>(x.value);
  plain.output_gradient = numbers<Scalar>(x.output_gradient);
  plain.bias = numbers<Scalar>(x.bias);
  for (std::int64_t t = 0; t < c.sizes.queries; ++t) {
    KeyRange range{0, c.sizes.keys};
    if (c.window >= 0) {
      range = {std::max<std::int64_t>(0, t - c.window), std::min(c.sizes.keys, t + c.window + 1)};
    }
    if (c.causal) range.end = std::min(range.end, t + 1);
    plain.ranges.push_back(range);
  }
  plain.run(c.sizes);
  return plain;
}

}  // namespace

std::vector<OpAccuracyCase> op_accuracy_cases() {
  const auto self = [](std::int64_t s, std::int64_t heads, std::int64_t kv_heads, std::int64_t d) {
    return HeadSizes{s, s, heads, kv_heads, d, d};
  };
  return {
      {.name = "8x64, S 128", .sizes = self(128, 8, 8, 64)},
      {.name = "ViT: 2x64, S 197", .sizes = self(197, 2, 2, 64)},
      {.name = "BERT: 2x64, S 384", .sizes = self(384, 2, 2, 64)},
      {.name = "BERT: 1x64, S 512", .sizes = self(512, 1, 1, 64)},
      {.name = "Whisper: 1x64, T 64, S 1500", .sizes = {64, 1500, 1, 1, 64, 64}},
      {.name = "one query: 8x64, S 1500", .sizes = {1, 1500, 8, 8, 64, 64}},
      {.name = "GPT-2: 1x64, causal S 1024", .sizes = self(1024, 1, 1, 64), .causal = true},
      {.name = "1x128, S 512", .sizes = self(512, 1, 1, 128)},
      {.name = "Llama: 4/1x128, causal S 256", .sizes = self(256, 4, 1, 128), .causal = true},
      {.name = "Llama decode: 8/2x128, S 4096", .sizes = {1, 4096, 8, 2, 128, 128}},
      {.name = "T5: 4x64, bias, T 64, S 512", .sizes = {64, 512, 4, 4, 64, 64}, .bias = true},
      {.name = "2x40, S 256", .sizes = self(256, 2, 2, 40)},
      {.name = "2x80, S 256", .sizes = self(256, 2, 2, 80)},
      {.name = "2x96, S 256", .sizes = self(256, 2, 2, 96)},
      {.name = "1x64, S 1023, window 256", .sizes = self(1023, 1, 1, 64), .window = 256},
      {.name = "tiny: 4x64, S 16", .sizes = self(16, 4, 4, 64)},
      // Hard inputs. Scores have the deviation d·deviation²/√d.
      {.name = "scores to 1e2: 2x64, S 256", .sizes = self(256, 2, 2, 64), .deviation = 2.0F},
      {.name = "scores to 1e3: 2x64, S 256", .sizes = self(256, 2, 2, 64), .deviation = 6.0F},
      {.name = "scores to 1e4: 2x64, S 256", .sizes = self(256, 2, 2, 64), .deviation = 20.0F},
      {.name = "long sums: 2x64, T 16, S 8192", .sizes = {16, 8192, 2, 2, 64, 64}},
      {.name = "long sums: 1x64, T 2048, S 16", .sizes = {2048, 16, 1, 1, 64, 64}},
      {.name = "weights of about 0.97: 2x64, S 256",
       .sizes = self(256, 2, 2, 64),
       .inputs = Inputs::NearlyOneHot,
       .lead = 12.0F},
      {.name = "weights of 1 - 1e-6: 2x64, S 256",
       .sizes = self(256, 2, 2, 64),
       .inputs = Inputs::NearlyOneHot,
       .lead = 25.0F},
      {.name = "weights that round to 1: 2x64, S 256",
       .sizes = self(256, 2, 2, 64),
       .inputs = Inputs::NearlyOneHot,
       .lead = 60.0F,
       .held = false},
      {.name = "equal weights: 2x64, S 1000",
       .sizes = {64, 1000, 2, 2, 64, 64},
       .inputs = Inputs::Constant},
  };
}

std::vector<Row> measure(const OpAccuracyCase& c) {
  std::vector<Row> rows{{c.name, "output", kForwardFactor, c.held},
                        {c.name, "dQ", kGradientFactor, c.held},
                        {c.name, "dK", kGradientFactor, c.held},
                        {c.name, "dV", kGradientFactor, c.held}};
  for (std::uint64_t draw = 0; draw < kDraws; ++draw) {
    const Tensors x = make_tensors(c, draw);
    const auto exact = run_plain<double>(c, x);
    const auto naive = run_plain<float>(c, x);
    AttentionOptions options;
    if (c.window >= 0) options.mask = window(c.window, c.window);
    if (c.causal) options.mask = options.mask & causal();
    if (c.bias) options.bias = {Bias(x.bias.view(), Axes::HeadQueryKey)};
    const AttentionResult forward = attention(x.query, x.key, x.value, options);
    const AttentionGradients gradients =
        attention_backward({x.query, x.key, x.value}, forward, x.output_gradient, options);
    rows[0].add(exact.output, naive.output, forward.output.values());
    rows[1].add(exact.query_gradient, naive.query_gradient, gradients.query.values());
    rows[2].add(exact.key_gradient, naive.key_gradient, gradients.key.values());
    rows[3].add(exact.value_gradient, naive.value_gradient, gradients.value.values());
  }
  return rows;
}

}  // namespace headwise::accuracy
