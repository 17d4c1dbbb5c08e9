#include "kernels/gate/gate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace headwise::kernels {
namespace {

double exact_sigmoid(double z) { return 1.0 / (1.0 + std::exp(-z)); }

TEST(Gate, MultipliesHeadByHead) {
  const std::vector<float> heads = {2.0F, -3.0F, 0.5F};
  const std::vector<float> gate = {0.25F, 1.0F, 0.0F};
  std::vector<float> gated(3);
  apply_gate(3, heads.data(), gate.data(), gated.data());
  EXPECT_EQ(gated, (std::vector<float>{0.5F, -3.0F, 0.0F}));
}

TEST(Gate, BackwardAgreesWithCentralDifferences) {
  const double heads = 1.7;
  const double z = 0.3;
  const double cotangent = -0.8;
  const auto loss = [&](double at_heads, double at_z) {
    return cotangent * at_heads * exact_sigmoid(at_z);
  };
  const auto head = static_cast<float>(heads);
  const auto gate = static_cast<float>(exact_sigmoid(z));
  auto gradient = static_cast<float>(cotangent);
  float gate_gradient = 0.0F;
  gate_backward(1, &head, &gate, &gradient, &gate_gradient);
  constexpr double kStep = 1e-5;
  EXPECT_NEAR(static_cast<double>(gradient),
              (loss(heads + kStep, z) - loss(heads - kStep, z)) / (2.0 * kStep), 1e-6);
  EXPECT_NEAR(static_cast<double>(gate_gradient),
              (loss(heads, z + kStep) - loss(heads, z - kStep)) / (2.0 * kStep), 1e-6);
}

TEST(Gate, AnEmptyRowStaysZeroWhateverItsGate) {
  const float head = 0.0F;
  const float gate = std::numeric_limits<float>::quiet_NaN();
  float gated = 1.0F;
  apply_gate(1, &head, &gate, &gated);
  EXPECT_EQ(gated, 0.0F);
  float gradient = 2.0F;
  float gate_gradient = 1.0F;
  gate_backward(1, &head, &gate, &gradient, &gate_gradient);
  EXPECT_EQ(gate_gradient, 0.0F);
}

}  // namespace
}  // namespace headwise::kernels
