// linear_backward(): against sums in float64, and bit for bit against the layer that it is part of.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/strided.h"

namespace headwise {
namespace {

using test_support::same_bits;

// ---- against float64 ---------------------------------------------------------------------------

// Elements of a rounded sum of n products: each of n roundings moves it by at most 2⁻²⁴ of the sum of
// the magnitudes.
void expect_sum(float ours, double sum, double magnitudes, std::int64_t n) {
  EXPECT_LE(std::abs(static_cast<double>(ours) - sum),
            static_cast<double>(n) * 0x1p-24 * magnitudes + 1e-30);
}

void expect_input_gradient(const LinearGradients& g, const Tensor& kernel, const Tensor& dy) {
  const std::int64_t in = kernel.extent(0);
  const std::int64_t out = kernel.extent(1);
  for (std::int64_t r = 0; r < (out == 0 ? 0 : dy.size() / out); ++r) {
    for (std::int64_t i = 0; i < in; ++i) {
      double sum = 0.0;
      double magnitudes = 0.0;
      for (std::int64_t o = 0; o < out; ++o) {
        const double product = static_cast<double>(dy.data()[r * out + o]) *
                               static_cast<double>(kernel.data()[i * out + o]);
        sum += product;
        magnitudes += std::abs(product);
      }
      expect_sum(g.input.data()[r * in + i], sum, magnitudes, out);
    }
  }
}

void expect_weight_gradients(const LinearGradients& g, const Tensor& x, const Tensor& dy) {
  const std::int64_t in = g.kernel.extent(0);
  const std::int64_t out = g.kernel.extent(1);
  const std::int64_t rows = in == 0 ? 0 : x.size() / in;
  for (std::int64_t o = 0; o < out; ++o) {
    std::vector<double> sum(static_cast<std::size_t>(in) + 1);  // the last: of the bias
    std::vector<double> magnitudes(sum.size());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i <= in; ++i) {
        const double factor = i == in ? 1.0 : static_cast<double>(x.data()[r * in + i]);
        const double product = factor * static_cast<double>(dy.data()[r * out + o]);
        sum[static_cast<std::size_t>(i)] += product;
        magnitudes[static_cast<std::size_t>(i)] += std::abs(product);
      }
    }
    for (std::int64_t i = 0; i < in; ++i) {
      const auto at = static_cast<std::size_t>(i);
      expect_sum(g.kernel.data()[i * out + o], sum[at], magnitudes[at], rows);
    }
    expect_sum(g.bias.data()[o], sum.back(), magnitudes.back(), rows);
  }
}

struct LinearCase {
  std::string name;
  Shape input;
  std::int64_t outputs;
};

class LinearBackward : public ::testing::TestWithParam<LinearCase> {
 protected:
  LinearBackward() {
    const Shape& shape = GetParam().input;
    std::vector<std::int64_t> extents(shape.begin(), shape.end());
    x_ = Tensor::normal(shape, 1);
    kernel_ = Tensor::normal({extents.back(), GetParam().outputs}, 2);
    extents.back() = GetParam().outputs;
    dy_ = Tensor::normal(Shape(extents), 3);
  }
  Tensor x_, kernel_, dy_;
};

TEST_P(LinearBackward, IsTheSumOfProducts) {
  const LinearGradients g = linear_backward(x_, kernel_, dy_);
  EXPECT_EQ(g.input.shape(), x_.shape());
  EXPECT_EQ(g.kernel.shape(), kernel_.shape());
  EXPECT_EQ(g.bias.shape(), Shape{GetParam().outputs});
  expect_input_gradient(g, kernel_, dy_);
  expect_weight_gradients(g, x_, dy_);
}

TEST_P(LinearBackward, DependsOnNeitherStridesNorThreads) {
  const LinearGradients expected = linear_backward(x_, kernel_, dy_);
  test_support::Dice dice(7);
  test_support::Memory memory;
  const auto spread = [&](const Tensor& tensor) {
    const float* next = tensor.data();
    return test_support::make_filled<float>(tensor.shape(), test_support::StrideStyle::Odd, dice,
                                            memory, [&] { return *next++; });
  };
  for (const int threads : {1, 2, 3}) {
    Context context(threads);
    const LinearGradients g = linear_backward(spread(x_), spread(kernel_), spread(dy_), &context);
    EXPECT_TRUE(same_bits(expected.input, g.input)) << threads << " threads";
    EXPECT_TRUE(same_bits(expected.kernel, g.kernel)) << threads << " threads";
    EXPECT_TRUE(same_bits(expected.bias, g.bias)) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, LinearBackward,
    ::testing::Values(LinearCase{"vector", {5}, 3}, LinearCase{"matrix", {300, 17}, 130},
                      LinearCase{"batch", {2, 70, 200}, 40},
                      LinearCase{"four_axes", {2, 3, 5, 8}, 6},
                      LinearCase{"five_axes", {2, 1, 3, 2, 4}, 3}, LinearCase{"no_rows", {0, 4}, 3},
                      LinearCase{"no_inputs", {2, 0}, 3}, LinearCase{"no_outputs", {2, 4}, 0}),
    [](const auto& test) { return test.param.name; });

TEST(LinearBackwardRows, WithoutGradientAddNothing) {
  Tensor x = Tensor::normal({2, 4}, 1);
  const Tensor kernel = Tensor::normal({4, 3}, 2);
  Tensor dy = Tensor::normal({2, 3}, 3);
  std::fill_n(dy.data() + 3, 3, 0.0F);
  const LinearGradients expected = linear_backward(x, kernel, dy);
  std::fill_n(x.data() + 4, 4, std::numeric_limits<float>::quiet_NaN());
  const LinearGradients g = linear_backward(x, kernel, dy);
  EXPECT_TRUE(same_bits(expected.kernel, g.kernel));
  EXPECT_TRUE(same_bits(expected.input, g.input));
}

// ---- against the layer -------------------------------------------------------------------------

// The layer's parts one by one: projections, attention, output projection, and back.
LayerGradients composed(const AttentionConfig& config, const AttentionWeights& w, const Tensor& x,
                        const Tensor& y, const Tensor& d_output, const Mask& mask) {
  const std::int64_t batch = x.extent(0);
  const auto split = [&](const Tensor& tensor, std::int64_t heads) {
    return tensor.reshaped(
        {batch, tensor.extent(1), heads, heads == 0 ? 0 : tensor.extent(2) / heads});
  };
  const auto flat = [&](const Tensor& tensor) {
    return tensor.reshaped({batch, tensor.extent(1), tensor.extent(2) * tensor.extent(3)});
  };
  const Tensor q = split(linear(x, w.query_kernel, w.query_bias), config.num_heads);
  const Tensor k = split(linear(y, w.key_kernel, w.key_bias), config.kv_heads());
  const Tensor v = split(linear(y, w.value_kernel, w.value_bias), config.kv_heads());
  const AttentionOptions options{.mask = mask};
  const AttentionResult r = attention(q, k, v, options);

  LayerGradients g;
  LinearGradients output = linear_backward(flat(r.output), w.output_kernel, d_output);
  const AttentionGradients inner =
      attention_backward({q, k, v}, r, split(output.input, config.num_heads), options);
  LinearGradients query = linear_backward(x, w.query_kernel, flat(inner.query));
  LinearGradients key = linear_backward(y, w.key_kernel, flat(inner.key));
  LinearGradients value = linear_backward(y, w.value_kernel, flat(inner.value));
  g.query = std::move(query.input);
  g.key = std::move(key.input);
  g.value = std::move(value.input);
  g.weights.query_kernel = std::move(query.kernel);
  g.weights.query_bias = std::move(query.bias);
  g.weights.key_kernel = std::move(key.kernel);
  g.weights.key_bias = std::move(key.bias);
  g.weights.value_kernel = std::move(value.kernel);
  g.weights.value_bias = std::move(value.bias);
  g.weights.output_kernel = std::move(output.kernel);
  g.weights.output_bias = std::move(output.bias);
  return g;
}

TEST(LinearBackwardBits, AreTheLayers) {
  const AttentionConfig config{.num_heads = 4,
                               .num_kv_heads = 2,
                               .key_dim = 24,
                               .value_dim = 40,
                               .query_features = 50,
                               .key_features = 30,
                               .output_features = 210};
  const AttentionWeights weights = AttentionWeights::glorot(config, 5);
  const Mask mask = valid_lengths({19, 0, 300});
  const MultiHeadAttention layer(config, weights);
  const Tensor x = Tensor::normal({3, 130, 50}, 1);
  const Tensor y = Tensor::normal({3, 300, 30}, 2);
  const Tensor d_output = Tensor::normal({3, 130, 210}, 3);
  const AttentionInputs inputs{x, y, y};
  const ForwardOptions options{.mask = mask, .save_for_backward = true};
  const LayerGradients expected =
      layer.backward(inputs, layer.forward(inputs, options), d_output, options);
  EXPECT_TRUE(same_bits(expected, composed(config, weights, x, y, d_output, mask)));
}

}  // namespace
}  // namespace headwise
