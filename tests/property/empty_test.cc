// Nothing in, the right shape of nothing (or of zeros) out.
#include <gtest/gtest.h>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise::test_support {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct EmptySizes {
  std::int64_t batch, queries, keys;
};

class Empty : public ::testing::TestWithParam<EmptySizes> {};

INSTANTIATE_TEST_SUITE_P(Sizes, Empty,
                         ::testing::Values(EmptySizes{0, 3, 4}, EmptySizes{2, 0, 4},
                                           EmptySizes{2, 3, 0}, EmptySizes{0, 0, 0},
                                           EmptySizes{2, 0, 0}),
                         [](const auto& test) {
                           return "B" + std::to_string(test.param.batch) + "T" +
                                  std::to_string(test.param.queries) + "S" +
                                  std::to_string(test.param.keys);
                         });

TEST_P(Empty, Attention) {
  const auto [b, t, s] = GetParam();
  const Tensor query = Tensor::normal({b, t, 4, 5}, 1);
  const Tensor key = Tensor::normal({b, s, 2, 5}, 2);
  const Tensor value = Tensor::normal({b, s, 2, 3}, 3);
  const Tensor bias = Tensor::normal({t, s}, 4);
  AttentionOptions options{.bias = {Bias(bias)}};
  options.weights = all_weights() | top_k_weights(2) | weight_statistics();
  const AttentionResult result = attention(query, key, value, options);
  EXPECT_TRUE(same_bits(result.output, Tensor::zeros({b, t, 4, 3})));
  EXPECT_TRUE(same_bits(result.log_sum_exp, Tensor::full({b, 4, t}, kMinusInfinity)));
  EXPECT_TRUE(same_bits(result.weights, Tensor::zeros({b, 4, t, s})));
  EXPECT_TRUE(same_bits(result.top.values, Tensor::zeros({b, 4, t, 2})));
  EXPECT_TRUE(same_bits(result.top.indices, IndexTensor::full({b, 4, t, 2}, -1)));
  EXPECT_TRUE(same_bits(result.statistics.entropy, Tensor::zeros({b, 4, t})));

  const Tensor gradient = Tensor::normal({b, t, 4, 3}, 5);
  const AttentionGradients gradients =
      attention_backward({query, key, value}, result, gradient, options, {.bias_gradient = true});
  EXPECT_TRUE(same_bits(gradients.query, Tensor::zeros(query.shape())));
  EXPECT_TRUE(same_bits(gradients.key, Tensor::zeros(key.shape())));
  EXPECT_TRUE(same_bits(gradients.value, Tensor::zeros(value.shape())));
  ASSERT_EQ(gradients.bias.size(), 1U);
  EXPECT_TRUE(same_bits(gradients.bias[0], Tensor::zeros(bias.shape())));
}

TEST_P(Empty, Layer) {
  const auto [b, t, s] = GetParam();
  const AttentionConfig config{.num_heads = 4,
                               .num_kv_heads = 2,
                               .key_dim = 5,
                               .value_dim = 3,
                               .query_features = 6,
                               .key_features = 7,
                               .output_features = 2};
  AttentionWeights weights = AttentionWeights::glorot(config, 1);
  weights.output_bias = Tensor::from({2}, {1.0F, -2.0F});
  const MultiHeadAttention layer(config, std::move(weights));
  const Tensor query = Tensor::normal({b, t, 6}, 1);
  const Tensor key = Tensor::normal({b, s, 7}, 2);
  const ForwardOptions options{.save_for_backward = true};
  const AttentionResult result = layer.forward({query, key}, options);
  // No key, no heads: the output is its bias.
  Tensor output({b, t, 2});
  for (std::int64_t i = 0; i < output.size(); ++i) output.data()[i] = i % 2 == 0 ? 1.0F : -2.0F;
  EXPECT_TRUE(same_bits(result.output, output));
  EXPECT_TRUE(same_bits(result.log_sum_exp, Tensor::full({b, 4, t}, kMinusInfinity)));

  const Tensor gradient = Tensor::full({b, t, 2}, 0.5F);
  const LayerGradients gradients = layer.backward({query, key}, result, gradient, options);
  EXPECT_TRUE(same_bits(gradients.query, Tensor::zeros(query.shape())));
  EXPECT_TRUE(same_bits(gradients.key, Tensor::zeros(key.shape())));
  EXPECT_TRUE(same_bits(gradients.value, Tensor::zeros(key.shape())));
  for (const WeightField& field : weight_fields()) {
    const Tensor& own = gradients.weights.*field.tensor;
    const Tensor& weight = layer.weights().*field.tensor;
    const bool summed = &own == &gradients.weights.output_bias;
    const float expected = summed ? 0.5F * static_cast<float>(b * t) : 0.0F;
    EXPECT_TRUE(same_bits(own, Tensor::full(weight.shape(), expected))) << field.name;
  }
}

}  // namespace
}  // namespace headwise::test_support
