// Views, owning tensors, and the random numbers that fill them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/mask.h"
#include "headwise/tensor.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::same_bits;

// 0, 1, 2, … in row-major order, so that a number tells where it came from.
Tensor counting(const Shape& shape) {
  Tensor tensor(shape);
  float next = 0.0F;
  for (float& x : tensor.values()) x = next++;
  return tensor;
}

// ---- Views -------------------------------------------------------------------------------------

TEST(TensorView, DefaultIsNoView) {
  EXPECT_FALSE(ConstView().present());
  EXPECT_FALSE(ConstView(MutableView()).present()) << "and stays none when made read-only";
  EXPECT_TRUE(counting({0}).view().present()) << "an empty tensor is a view all the same";
}

TEST(TensorView, Permuted) {
  const Tensor x = counting({2, 3, 4});
  const ConstView p = x.view().permuted({2, 0, 1});
  EXPECT_EQ(p.shape(), Shape({4, 2, 3}));
  EXPECT_EQ(p.data(), x.data());
  EXPECT_EQ(p(3, 1, 2), x.view()(1, 2, 3));
  EXPECT_TRUE(refuses([&] { (void)x.view().permuted({0, 1}); }, "TensorView::permuted", "axes"));
  EXPECT_TRUE(refuses([&] { (void)x.view().permuted({0, 1, 1}); }, "TensorView::permuted", "axes"));
  EXPECT_TRUE(refuses([&] { (void)x.view().permuted({0, 1, 3}); }, "TensorView::permuted", "axis"));
  EXPECT_TRUE(refuses(
      [&] {
        (void)x.view().permuted({0, 1, -1});
      },
      "TensorView::permuted", "axis"));
}

TEST(TensorView, Sliced) {
  const Tensor x = counting({2, 5, 3});
  const ConstView s = x.view().sliced(1, 2, 4);
  EXPECT_EQ(s.shape(), Shape({2, 2, 3}));
  EXPECT_EQ(s(1, 0, 2), x.view()(1, 2, 2));
  EXPECT_EQ(s(1, 1, 0), x.view()(1, 3, 0));
  EXPECT_EQ(x.view().sliced(1, 5, 5).size(), 0);
  EXPECT_TRUE(refuses([&] { (void)x.view().sliced(3, 0, 1); }, "TensorView::sliced", "axis"));
  for (const auto& [begin, end] : {std::pair{-1, 2}, {3, 2}, {0, 6}}) {
    EXPECT_THROW((void)x.view().sliced(1, begin, end), ArgumentError);
  }
}

TEST(TensorView, At) {
  const Tensor x = counting({2, 5, 3});
  const ConstView row = x.view().at(1, 4);
  EXPECT_EQ(row.shape(), Shape({2, 3}));
  EXPECT_EQ(row(1, 2), x.view()(1, 4, 2));
  EXPECT_EQ(x.view().at(0, 1).at(0, 4).at(0, 2)(), x.view()(1, 4, 2)) << "down to one number";
  EXPECT_TRUE(refuses([&] { (void)x.view().at(1, 5); }, "TensorView::at", "index"));
  EXPECT_TRUE(refuses([&] { (void)x.view().at(1, -1); }, "TensorView::at", "index"));
  EXPECT_TRUE(refuses([&] { (void)x.view().at(-1, 0); }, "TensorView::at", "axis"));
}

TEST(TensorView, Broadcast) {
  const Tensor x = counting({2, 3});
  const ConstView b = x.view().broadcast(1, 4);
  EXPECT_EQ(b.shape(), Shape({2, 4, 3}));
  EXPECT_EQ(b.stride(1), 0);
  for (std::int64_t i = 0; i < 4; ++i) EXPECT_EQ(&b(1, i, 2), &x.view()(1, 2));
  EXPECT_EQ(x.view().broadcast(0, 5).shape(), Shape({5, 2, 3}));
  EXPECT_EQ(x.view().broadcast(2, 5).shape(), Shape({2, 3, 5}));
  EXPECT_TRUE(refuses([&] { (void)x.view().broadcast(3, 5); }, "TensorView::broadcast", "axis"));
  EXPECT_THROW((void)x.view().broadcast(0, -1), ArgumentError);
}

TEST(TensorView, BroadcastBeyondTheLargestRank) {
  const Tensor x({1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_THROW((void)x.view().broadcast(0, 2), ArgumentError);
}

TEST(TensorView, WritesThrough) {
  Tensor x = counting({2, 3});
  x.view().permuted({1, 0})(2, 1) = -1.0F;
  EXPECT_EQ(x.view()(1, 2), -1.0F);
}

TEST(TensorView, NegativeStrides) {
  const Tensor x = counting({6});
  const ConstView backwards(x.data() + 5, {6}, {-1});
  EXPECT_EQ(backwards(0), 5.0F);
  EXPECT_EQ(backwards(5), 0.0F);
}

// ---- Tensors -----------------------------------------------------------------------------------

TEST(Tensor, StartsAtZeroAndAligned) {
  for (const std::int64_t size : {1, 3, 17, 1000}) {
    const Tensor x({size});
    EXPECT_TRUE(test_support::all_equal(x, 0.0F));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x.data()) % detail::kTensorAlignment, 0U);
  }
}

TEST(Tensor, CopiesAreDeepAndMovesKeepTheMemory) {
  Tensor x = counting({2, 2});
  Tensor copy = x;
  copy.view()(0, 0) = 9.0F;
  EXPECT_EQ(x.view()(0, 0), 0.0F);
  const float* memory = copy.data();
  const Tensor moved = std::move(copy);
  EXPECT_EQ(moved.data(), memory);
  x = moved;
  EXPECT_TRUE(same_bits(x, moved));
  const Tensor& self = x;
  x = self;
  EXPECT_TRUE(same_bits(x, moved)) << "assigned to itself";
}

TEST(Tensor, FromValues) {
  const Tensor x = Tensor::from({2, 2}, {1.0F, 2.0F, 3.0F, 4.0F});
  EXPECT_EQ(x.view()(1, 0), 3.0F);
  EXPECT_THROW(Tensor::from({2, 2}, {1.0F, 2.0F, 3.0F}), ArgumentError);
  EXPECT_EQ(Tensor::full({3}, 2.5F).view()(2), 2.5F);
}

TEST(Tensor, CopyOfAnyStrides) {
  const Tensor x = counting({2, 3, 4});
  const Tensor transposed = Tensor::copy_of(x.view().permuted({2, 1, 0}));
  EXPECT_EQ(transposed.shape(), Shape({4, 3, 2}));
  for (std::int64_t i = 0; i < 2; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 0; k < 4; ++k) EXPECT_EQ(transposed.view()(k, j, i), x.view()(i, j, k));
    }
  }
  EXPECT_TRUE(same_bits(Tensor::copy_of(x.view()), x));
  EXPECT_TRUE(same_bits(Tensor::copy_of(x.view().at(0, 0).at(0, 0).broadcast(0, 2)),
                        Tensor::from({2, 4}, {0, 1, 2, 3, 0, 1, 2, 3})));
  EXPECT_EQ(Tensor::copy_of(x.view().sliced(1, 1, 1)).size(), 0);
  const ConstView backwards(x.data() + 23, {24}, {-1});
  EXPECT_EQ(Tensor::copy_of(backwards).values()[0], 23.0F);
}

TEST(Tensor, Reshaped) {
  Tensor x = counting({2, 6});
  const Tensor y = x.reshaped({3, 4});
  EXPECT_EQ(y.view()(2, 3), 11.0F);
  EXPECT_NE(y.data(), x.data()) << "a copy of an lvalue";
  const float* memory = x.data();
  EXPECT_EQ(std::move(x).reshaped({12}).data(), memory) << "no copy of a temporary";
  EXPECT_TRUE(refuses([&] { (void)y.reshaped({5}); }, "Tensor::reshaped", "shape"));
}

TEST(Tensor, OtherElementTypes) {
  EXPECT_FALSE(BoolTensor({3}).values()[2]);
  EXPECT_EQ(IndexTensor::from({2}, {-5, 7}).values()[0], -5);
  EXPECT_EQ(IndexTensor::copy_of(IndexTensor::from({2}, {-5, 7}).view()).values()[1], 7);
}

// ---- Shared views ------------------------------------------------------------------------------

TEST(SharedView, OwnsATemporaryAndBorrowsANamedTensor) {
  SharedView<float> owning = Tensor::full({4}, 3.0F);
  const SharedView<float> copy = owning;
  owning = {};
  EXPECT_EQ(copy.view()(3), 3.0F) << "lives as long as any copy";
  const Tensor named = counting({4});
  EXPECT_EQ(SharedView<float>(named).view().data(), named.data());
  const SharedView<std::int64_t> listed{3, 2};
  EXPECT_EQ(listed.view().shape(), Shape({2}));
  EXPECT_EQ(listed.view()(1), 2);
  EXPECT_FALSE(SharedView<float>().view().present());
}

// ---- Random numbers ----------------------------------------------------------------------------

struct Moments {
  double mean = 0.0, variance = 0.0, kurtosis = 0.0, neighbours = 0.0;
};

Moments moments(const Tensor& x) {
  Moments m;
  const auto n = static_cast<double>(x.size());
  for (const float v : x.values()) m.mean += static_cast<double>(v) / n;
  double fourth = 0.0;
  double previous = 0.0;
  for (const float v : x.values()) {
    const double d = static_cast<double>(v) - m.mean;
    m.variance += d * d / n;
    fourth += d * d * d * d / n;
    m.neighbours += d * previous / n;
    previous = d;
  }
  m.kurtosis = fourth / (m.variance * m.variance);
  m.neighbours /= m.variance;
  return m;
}

TEST(RandomTensor, NormalMoments) {
  const Moments m = moments(Tensor::normal({200, 1000}, 4, 3.0F));
  const double n = 200000.0;
  EXPECT_NEAR(m.mean, 0.0, 5.0 * 3.0 / std::sqrt(n));
  EXPECT_NEAR(m.variance, 9.0, 5.0 * 9.0 * std::sqrt(2.0 / n));
  EXPECT_NEAR(m.kurtosis, 3.0, 5.0 * std::sqrt(24.0 / n));
  EXPECT_NEAR(m.neighbours, 0.0, 5.0 / std::sqrt(n));
}

TEST(RandomTensor, UniformMomentsAndBounds) {
  const Tensor x = Tensor::uniform({200000}, 4, -1.0F, 3.0F);
  const auto [low, high] = std::minmax_element(x.values().begin(), x.values().end());
  EXPECT_GE(*low, -1.0F);
  EXPECT_LE(*high, 3.0F);
  EXPECT_LT(*low, -0.99F);
  EXPECT_GT(*high, 2.99F);
  const Moments m = moments(x);
  const double n = 200000.0;
  EXPECT_NEAR(m.mean, 1.0, 5.0 * std::sqrt(16.0 / 12.0 / n));
  EXPECT_NEAR(m.variance, 16.0 / 12.0, 5.0 * 16.0 / 12.0 * std::sqrt(0.8 / n));
  EXPECT_NEAR(m.kurtosis, 1.8, 0.02);
  EXPECT_NEAR(m.neighbours, 0.0, 5.0 / std::sqrt(n));
}

TEST(RandomTensor, DependsOnSeedAndPlaceAlone) {
  const Tensor x = Tensor::normal({6, 5}, 8);
  EXPECT_TRUE(same_bits(x, Tensor::normal({6, 5}, 8)));
  EXPECT_TRUE(same_bits(x.reshaped({30}), Tensor::normal({30}, 8))) << "not on the shape";
  const Tensor longer = Tensor::normal({101}, 8);
  EXPECT_TRUE(same_bits(x.reshaped({30}), Tensor::copy_of(longer.view().sliced(0, 0, 30))));
  EXPECT_FALSE(same_bits(x, Tensor::normal({6, 5}, 9)));
  EXPECT_TRUE(same_bits(Tensor::uniform({7}, 8, 0.0F, 1.0F), Tensor::uniform({7}, 8, 0.0F, 1.0F)));
}

}  // namespace
}  // namespace headwise
