// The reference products against plain sums in double, and against their own promise: one chain.
#include "kernels/gemm/gemm_reference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "support/dice.h"
#include "support/floats.h"
#include "support/product_case.h"
#include "support/row_spans.h"

namespace headwise::kernels {
namespace {

using test_support::Dice;
using test_support::exact_element;
using test_support::filled;
using test_support::Floats;
using test_support::ProductCase;
using test_support::random_floats;
using test_support::RowSpans;

TEST(GemmReference, AgreesWithSumsInDouble) {
  Dice dice(4);
  for (int round = 0; round < 500; ++round) {
    ProductCase test(dice);
    const auto spans =
        RowSpans::random(dice, test.rows, reference::kGemmKernels.tile_rows, test.depth);
    std::vector<test_support::ExactElement> exact;  // before the call: C may be what it starts from
    for (std::int64_t i = 0; i < test.rows; ++i) {
      for (std::int64_t j = 0; j < test.columns; ++j) {
        exact.push_back(exact_element(test, spans.row(i), i, j));
      }
    }
    test.product.depth_of_tile = spans.tiles();
    reference::kGemmKernels.multiply(test.product);
    for (std::size_t i = 0; i < exact.size(); ++i) {
      const auto element = static_cast<std::int64_t>(i);
      const float ours = test.product.c(element / test.columns, element % test.columns);
      // Half a unit per term at most, and as much for the start, the bias and each factor.
      const double tolerance = static_cast<double>(test.depth + 4) * 0x1p-24 * exact[i].magnitude;
      ASSERT_TRUE(std::isfinite(exact[i].value));  // spoilt terms were hidden
      ASSERT_NEAR(static_cast<double>(ours), exact[i].value, tolerance) << "round " << round;
    }
  }
}

// 2^24 + 1 rounds to 2^24: in order the sum is 0, in any other order 1. And 1 + 2^−23 squared is
// 1 + 2^−22 + 2^−46, of which only a fused multiply-add keeps the end.
TEST(GemmReference, IsOneChainOfFusedMultiplyAdds) {
  const Floats a = {0x1p24F, 1.0F, -0x1p24F};
  const Floats ones = filled(3 * kPanelWidth, 1.0F);
  Floats c = filled(kPanelWidth, -1.0F);
  Product product{.rows = 1,
                  .columns = kPanelWidth,
                  .depth = 3,
                  .a = {a.data(), 3, 1},
                  .b = packed_panels(ones.data(), 3),
                  .c = {c.data(), kPanelWidth, 1}};
  reference::kGemmKernels.multiply(product);
  for (const float sum : c) EXPECT_EQ(sum, 0.0F);

  const Floats start = filled(kPanelWidth, -1.0F - 0x1p-22F);
  const float x = 1.0F + 0x1p-23F;
  const Floats b = filled(kPanelWidth, x);
  product.depth = 1;
  product.a = {&x, 1, 1};
  product.b = packed_panels(b.data(), 1);
  product.start = {start.data(), kPanelWidth, 1};
  reference::kGemmKernels.multiply(product);
  for (const float sum : c) EXPECT_EQ(sum, 0x1p-46F);
}

TEST(GemmReference, ScoresAgreeWithSumsInDoubleAndPaddingIsHidden) {
  Dice dice(5);
  constexpr std::int64_t kRows = 5;
  constexpr std::int64_t kKeys = 21;
  constexpr std::int64_t kDepth = 13;
  constexpr std::int64_t kStride = 32;
  const Floats query = random_floats(dice, kRows * kDepth);
  const Floats key = random_floats(dice, kKeys * kDepth);
  Floats panels = filled(packed_size(kDepth, kKeys), 0.0F);
  ASSERT_TRUE(
      reference::kGemmKernels.pack_panels(kDepth, kKeys, {key.data(), 1, kDepth}, panels.data()));
  Floats scores = filled(kRows * kStride, 0.0F);
  Floats row_max = filled(kRows * kPanelWidth, -test_support::kInfinity);
  reference::kGemmKernels.multiply_scores({.rows = kRows,
                                           .columns = kKeys,
                                           .depth = kDepth,
                                           .a = {query.data(), kDepth, 1},
                                           .b = packed_panels(panels.data(), kDepth),
                                           .scores = scores.data(),
                                           .score_stride = kStride,
                                           .row_max = row_max.data()});
  for (std::int64_t i = 0; i < kRows * kStride; ++i) {
    const std::int64_t row = i / kStride;
    const float score = scores[static_cast<std::size_t>(i)];
    EXPECT_GE(row_max[static_cast<std::size_t>(row * kPanelWidth + i % kPanelWidth)], score);
    if (i % kStride >= kKeys) {
      EXPECT_EQ(score, -test_support::kInfinity);
      continue;
    }
    double exact = 0.0;
    for (std::int64_t k = 0; k < kDepth; ++k) {
      exact += static_cast<double>(query[static_cast<std::size_t>(row * kDepth + k)]) *
               static_cast<double>(key[static_cast<std::size_t>(i % kStride * kDepth + k)]);
    }
    EXPECT_NEAR(static_cast<double>(score), exact, 1e-5);
  }
}

}  // namespace
}  // namespace headwise::kernels
