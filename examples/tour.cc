// A tour of multi-head attention: what a layer holds, what masks do, and what the factorisation of
// its heads means. Every number is computed here and now.
#include <headwise/headwise.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <span>
#include <string>

namespace hw = headwise;

namespace {

void chapter(int number, const char* title) { std::printf("\n%d. %s\n\n", number, title); }

float largest_difference(std::span<const float> a, std::span<const float> b) {
  float largest = 0.0F;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Three ways to spend the same input: Keras's MultiHeadAttention on (32, 128, 512).
void keras_layers() {
  chapter(1, "Three layers on an input of shape (32, 128, 512), as Keras would build them");
  const hw::Tensor x = hw::Tensor::normal({32, 128, 512}, /*seed=*/1);
  const std::pair<const char*, hw::AttentionConfig> layers[] = {
      {"8 heads x 64", {.num_heads = 8, .key_dim = 64, .query_features = 512}},
      {"4 heads x 128: as many numbers, fewer and wider heads",
       {.num_heads = 4, .key_dim = 128, .query_features = 512}},
      {"8 heads x 64 with value_dim 32: narrower values, so a smaller layer",
       {.num_heads = 8, .key_dim = 64, .value_dim = 32, .query_features = 512}},
  };
  hw::Context context;
  for (const auto& [title, config] : layers) {
    const hw::MultiHeadAttention layer(config, hw::AttentionWeights::glorot(config, /*seed=*/7));
    const hw::AttentionResult result = layer.forward({.query = x}, {.context = &context});
    std::printf("%s\noutput %s\n%s\n", title, result.output.shape().to_string().c_str(),
                hw::describe(config).to_string().c_str());
  }
  std::printf(
      "The output has the shape of the query whatever num_heads, key_dim and value_dim are.\n");
}

// Dive into Deep Learning's check, with real numbers behind the shapes.
void d2l_check() {
  chapter(2,
          "Valid lengths: 100 hidden units, 5 heads, batch 2, 4 queries, 6 keys, lengths 3 and 2");
  const hw::AttentionConfig config = hw::presets::d2l({.num_hiddens = 100, .num_heads = 5});
  const hw::MultiHeadAttention layer(config, hw::AttentionWeights::glorot(config, /*seed=*/3));
  const hw::Tensor queries = hw::Tensor::normal({2, 4, 100}, /*seed=*/1);
  const hw::Tensor keys = hw::Tensor::normal({2, 6, 100}, /*seed=*/2);
  const hw::AttentionResult result =
      layer.forward({.query = queries, .key = keys},
                    {.mask = hw::valid_lengths({3, 2}), .weights = hw::all_weights()});
  std::printf("output %s, weights %s\n", result.output.shape().to_string().c_str(),
              result.weights.shape().to_string().c_str());
  const auto weights = result.weights.view();
  for (int b = 0; b < 2; ++b) {
    std::printf("sequence %d, head 0, query 0: ", b);
    for (int key = 0; key < 6; ++key)
      std::printf(" %.4f", static_cast<double>(weights(b, 0, 0, key)));
    std::printf("\n");
  }
  std::int64_t beyond = 0;
  std::int64_t not_zero = 0;
  const std::int64_t lengths[] = {3, 2};
  for (int b = 0; b < 2; ++b) {
    for (int row = 0; row < 5 * 4; ++row) {  // of all heads
      for (std::int64_t key = lengths[b]; key < 6; ++key, ++beyond) {
        not_zero += weights(b, row / 4, row % 4, key) != 0.0F ? 1 : 0;
      }
    }
  }
  std::printf("weights beyond the lengths: %ld, of which not exactly 0: %ld\n",
              static_cast<long>(beyond), static_cast<long>(not_zero));
}

// A head's scores depend on W_q·W_kᵀ alone; why not keep that one matrix?
void why_two_matrices() {
  chapter(3, "Why W_q and W_k stay apart: 512 features, 8 heads of 64");
  const hw::AttentionConfig config = {
      .num_heads = 8, .key_dim = 64, .query_features = 512, .use_bias = false};
  const hw::LayerParts layer{config, hw::AttentionWeights::glorot(config, /*seed=*/7)};
  const hw::MergedScores merged = hw::merged_scores(layer, /*head=*/0);
  const hw::HeadViews head = hw::head_views(config, layer.weights, 0);
  std::printf("one head, factored: %ld + %ld = %ld numbers\n",
              static_cast<long>(head.query_kernel.size()),
              static_cast<long>(head.key_kernel.size()),
              static_cast<long>(head.query_kernel.size() + head.key_kernel.size()));
  std::printf("one head, merged %s: %ld numbers, yet its rank is %ld\n",
              merged.matrix.shape().to_string().c_str(), static_cast<long>(merged.matrix.size()),
              static_cast<long>(merged.rank));

  const hw::Tensor x = hw::Tensor::normal({16, 512}, /*seed=*/5);
  const hw::Tensor q = hw::linear(x, head.query_kernel);
  const hw::Tensor k = hw::linear(x, head.key_kernel);
  const hw::Tensor factored = hw::linear(q, k.view().permuted({1, 0}));
  const hw::Tensor through = hw::linear(hw::linear(x, merged.matrix), x.view().permuted({1, 0}));
  float scale = 0.0F;
  for (const float score : factored.values()) scale = std::max(scale, std::abs(score));
  std::printf("16 x 16 scores both ways: largest %.3f, largest difference %.1e\n",
              static_cast<double>(scale),
              static_cast<double>(largest_difference(factored.values(), through.values())));
  std::printf("Four times the numbers, four times the work, and nothing more to say.\n");
}

// A linear map in front of a projection is part of it.
void folding() {
  chapter(4, "Folding a linear map into the layer behind it");
  const hw::AttentionConfig config = {.num_heads = 8, .key_dim = 64, .query_features = 512};
  const hw::LayerParts layer{config, hw::AttentionWeights::glorot(config, /*seed=*/7)};
  const hw::Tensor map = hw::Tensor::normal({768, 512}, /*seed=*/9, 1.0F / std::sqrt(768.0F));
  const hw::Tensor x = hw::Tensor::normal({2, 64, 768}, /*seed=*/1);

  const hw::MultiHeadAttention old_layer(config, layer.weights);
  const hw::Tensor two_steps = old_layer.forward({.query = hw::linear(x, map)}).output;

  hw::LayerParts folded = hw::fold(layer, hw::Projection::Query, map);
  folded = hw::fold(folded, hw::Projection::Key, map);
  folded = hw::fold(folded, hw::Projection::Value, map);
  const hw::MultiHeadAttention new_layer(folded.config, folded.weights);
  const hw::Tensor one_step = new_layer.forward({.query = x}).output;
  float scale = 0.0F;
  for (const float value : two_steps.values()) scale = std::max(scale, std::abs(value));
  std::printf("x (2, 64, 768) -> map (768, 512) -> layer: output %s\n",
              two_steps.shape().to_string().c_str());
  std::printf("x (2, 64, 768) -> folded layer:          output %s\n",
              one_step.shape().to_string().c_str());
  std::printf("largest value %.3f, largest difference %.1e\n", static_cast<double>(scale),
              static_cast<double>(largest_difference(two_steps.values(), one_step.values())));
}

}  // namespace

int main() {
  std::printf("Headwise %d.%d.%d: a tour of multi-head attention\n", HEADWISE_VERSION_MAJOR,
              HEADWISE_VERSION_MINOR, HEADWISE_VERSION_PATCH);
  try {
    keras_layers();
    d2l_check();
    why_two_matrices();
    folding();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
