#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "headwise/tensor.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;

TEST(Shape, ExtentsRankAndCount) {
  const Shape shape{2, 4, 100};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape[0], 2);
  EXPECT_EQ(shape[2], 100);
  EXPECT_EQ(shape.element_count(), 800);
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()),
            (std::vector<std::int64_t>{2, 4, 100}));
}

TEST(Shape, RankZeroIsOneNumber) {
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().element_count(), 1);
}

TEST(Shape, ZeroExtentHoldsNothing) {
  EXPECT_EQ(Shape({3, 0, 5}).element_count(), 0);
  EXPECT_EQ(Shape({0}).element_count(), 0);
}

TEST(Shape, Text) {
  EXPECT_EQ(Shape({2, 4, 100}).to_string(), "(2, 4, 100)");
  EXPECT_EQ(Shape({7}).to_string(), "(7,)");
  EXPECT_EQ(Shape().to_string(), "()");
}

TEST(Shape, Equality) {
  EXPECT_EQ(Shape({2, 3}), Shape({2, 3}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({3, 2}));
  EXPECT_FALSE(Shape({2, 3}) == Shape({2, 3, 1})) << "rank counts";
  EXPECT_FALSE(Shape({2}) == Shape({2, 0})) << "an unused extent is not a zero one";
}

TEST(Shape, FromASpan) {
  const std::vector<std::int64_t> extents{5, 6};
  EXPECT_EQ(Shape(extents), Shape({5, 6}));
}

TEST(Shape, EightAxesAndNoMore) {
  EXPECT_EQ(Shape({1, 2, 1, 2, 1, 2, 1, 2}).element_count(), 16);
  EXPECT_TRUE(refuses([] { (void)Shape({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, "Shape", "rank"));
}

TEST(Shape, NegativeExtent) {
  EXPECT_TRUE(refuses([] { (void)Shape({2, -1}); }, "Shape", "extent"));
  EXPECT_TRUE(
      refuses([] { (void)Shape({std::numeric_limits<std::int64_t>::min()}); }, "Shape", "extent"));
}

TEST(Shape, LargestProductThatFits) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Shape({kMax, 1}).element_count(), kMax);
  EXPECT_TRUE(refuses([] { (void)Shape({kMax / 2 + 1, 2}); }, "Shape", "extents"));
}

TEST(Shape, RowMajorStrides) {
  const Strides strides = row_major_strides({2, 3, 4});
  EXPECT_EQ(strides[0], 12);
  EXPECT_EQ(strides[1], 4);
  EXPECT_EQ(strides[2], 1);
}

}  // namespace
}  // namespace headwise
