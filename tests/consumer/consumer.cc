// The smallest program that needs headers, library and threads of Headwise.
#include <headwise/headwise.h>

#include <cstdio>

namespace hw = headwise;

int main() {
  const hw::AttentionConfig config{.num_heads = 2, .key_dim = 4, .query_features = 8};
  const hw::MultiHeadAttention layer(config, hw::AttentionWeights::glorot(config, /*seed=*/7));
  const hw::Tensor x = hw::Tensor::normal({3, 5, 8}, /*seed=*/1);
  hw::Context context(2);
  const hw::AttentionResult result =
      layer.forward({.query = x}, {.mask = hw::causal(), .context = &context});
  std::printf("Headwise %d.%d.%d: output %s\n", HEADWISE_VERSION_MAJOR, HEADWISE_VERSION_MINOR,
              HEADWISE_VERSION_PATCH, result.output.shape().to_string().c_str());
  return result.output.shape() == hw::Shape{3, 5, 8} ? 0 : 1;
}
