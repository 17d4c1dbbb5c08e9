#include "kernels/norm/norm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace headwise::kernels {
namespace {

using Vector = std::vector<double>;

Vector normalised(const NormRule& rule, const Vector& x, const Vector& scale) {
  double mean = 0.0;
  double squares = 0.0;
  const auto n = static_cast<double>(x.size());
  if (rule.subtract_mean) {
    for (const double value : x) mean += value / n;
  }
  for (const double value : x) squares += (value - mean) * (value - mean) / n;
  Vector y;
  for (std::size_t i = 0; i < x.size(); ++i) {
    y.push_back(scale[i] * (x[i] - mean) / std::sqrt(squares + static_cast<double>(rule.epsilon)));
  }
  return y;
}

Vector random_vector(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.5F, 2.0F);
  Vector values(size);
  for (double& value : values) value = static_cast<double>(normal(random));
  return values;
}

std::vector<float> floats(const Vector& x) {
  std::vector<float> values;
  for (const double value : x) values.push_back(static_cast<float>(value));
  return values;
}

class Norm : public testing::TestWithParam<bool> {
 protected:
  NormRule rule{GetParam(), 1e-6F};
};

TEST_P(Norm, ForwardAgreesWithFloat64) {
  for (const std::size_t size : {1U, 3U, 64U}) {
    const Vector x = random_vector(size, 1);
    const Vector scale = random_vector(size, 2);
    const Vector exact = normalised(rule, x, scale);
    auto y = floats(x);
    normalise_vector(rule, static_cast<std::int64_t>(size), y.data(), floats(scale).data(),
                     y.data());
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_NEAR(static_cast<double>(y[i]), exact[i], 1e-6 * (1.0 + std::abs(exact[i])));
    }
  }
}

TEST_P(Norm, BackwardAgreesWithCentralDifferences) {
  constexpr std::size_t kSize = 7;
  const Vector x = random_vector(kSize, 3);
  const Vector scale = random_vector(kSize, 4);
  const Vector cotangent = random_vector(kSize, 5);
  const auto loss = [&](const Vector& at_x, const Vector& at_scale) {
    const Vector y = normalised(rule, at_x, at_scale);
    double sum = 0.0;
    for (std::size_t i = 0; i < kSize; ++i) sum += y[i] * cotangent[i];
    return sum;
  };
  auto gradient = floats(cotangent);
  std::vector<float> scale_gradient(kSize, 0.0F);
  normalise_vector_backward(rule, kSize, floats(x).data(), floats(scale).data(), gradient.data(),
                            scale_gradient.data());
  constexpr double kStep = 1e-5;
  for (std::size_t i = 0; i < kSize; ++i) {
    Vector up = x;
    Vector down = x;
    up[i] += kStep;
    down[i] -= kStep;
    EXPECT_NEAR(static_cast<double>(gradient[i]),
                (loss(up, scale) - loss(down, scale)) / (2.0 * kStep), 1e-5);
    up = scale;
    down = scale;
    up[i] += kStep;
    down[i] -= kStep;
    EXPECT_NEAR(static_cast<double>(scale_gradient[i]),
                (loss(x, up) - loss(x, down)) / (2.0 * kStep), 1e-5);
  }
}

TEST_P(Norm, NoGradientInNoGradientOut) {
  const std::vector<float> x(4, std::numeric_limits<float>::quiet_NaN());
  const std::vector<float> scale(4, 1.0F);
  std::vector<float> gradient(4, 0.0F);
  std::vector<float> scale_gradient(4, 0.0F);
  normalise_vector_backward(rule, 4, x.data(), scale.data(), gradient.data(),
                            scale_gradient.data());
  EXPECT_EQ(gradient, std::vector<float>(4, 0.0F));
  EXPECT_EQ(scale_gradient, std::vector<float>(4, 0.0F));
}

INSTANTIATE_TEST_SUITE_P(Kinds, Norm, testing::Bool(), [](const auto& kind) {
  return kind.param ? std::string("LayerNorm") : std::string("RmsNorm");
});

}  // namespace
}  // namespace headwise::kernels
