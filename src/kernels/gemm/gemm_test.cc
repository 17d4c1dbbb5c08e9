#include "kernels/gemm/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace headwise::kernels {
namespace {

struct Case {
  std::int64_t rows, columns, depth;
};

std::vector<float> random_numbers(std::int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

std::vector<float> packed(const Case& c, const std::vector<float>& b) {
  std::vector<float> panels(static_cast<std::size_t>(packed_size(c.depth, c.columns)));
  (void)pack_panels(c.depth, c.columns, {b.data(), c.columns, 1}, panels.data());
  return panels;
}

// What one element must be: a chain of float32 multiply-adds over the depth, in order.
float chain(const Case& c, const std::vector<float>& a, const std::vector<float>& b, float start,
            std::int64_t row, std::int64_t column) {
  float sum = start;
  for (std::int64_t k = 0; k < c.depth; ++k) {
    const float product = a[static_cast<std::size_t>(row * c.depth + k)] *
                          b[static_cast<std::size_t>(k * c.columns + column)];
    sum += product;
  }
  return sum;
}

TEST(Gemm, EveryElementIsOneChainOverTheDepth) {
  std::mt19937 random(1);
  for (unsigned round = 0; round < 200; ++round) {
    const Case c{static_cast<std::int64_t>(random() % 20), static_cast<std::int64_t>(random() % 35),
                 static_cast<std::int64_t>(random() % 40)};
    const auto a = random_numbers(c.rows * c.depth, round);
    const auto b = random_numbers(c.depth * c.columns, round + 1000);
    const auto bias = random_numbers(c.columns, round + 2000);
    const auto start = random_numbers(c.rows * c.columns, round + 3000);
    const auto panels = packed(c, b);
    auto plain = start;
    auto added = start;
    multiply({.rows = c.rows,
              .columns = c.columns,
              .depth = c.depth,
              .a = {a.data(), c.depth, 1},
              .panels = panels.data(),
              .c = {plain.data(), c.columns, 1},
              .bias = bias.data()});
    multiply({.rows = c.rows,
              .columns = c.columns,
              .depth = c.depth,
              .a = {a.data(), c.depth, 1},
              .panels = panels.data(),
              .c = {added.data(), c.columns, 1},
              .accumulate = true});
    for (std::int64_t i = 0; i < c.rows * c.columns; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const std::int64_t column = i % c.columns;
      ASSERT_EQ(plain[at], chain(c, a, b, 0.0F, i / c.columns, column) +
                               bias[static_cast<std::size_t>(column)]);
      ASSERT_EQ(added[at], chain(c, a, b, start[at], i / c.columns, column));
    }
  }
}

TEST(Gemm, ReadsAndWritesAnyStrides) {
  const Case c{5, 9, 7};
  const auto a = random_numbers(c.rows * c.depth, 1);
  const auto b = random_numbers(c.depth * c.columns, 2);
  // The same matrices stored transposed, and a result stored column by column from the end.
  std::vector<float> a_transposed(a.size());
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t k = 0; k < c.depth; ++k) {
      a_transposed[static_cast<std::size_t>(k * c.rows + i)] =
          a[static_cast<std::size_t>(i * c.depth + k)];
    }
  }
  const auto panels = packed(c, b);
  std::vector<float> result(static_cast<std::size_t>(c.rows * c.columns));
  multiply({.rows = c.rows,
            .columns = c.columns,
            .depth = c.depth,
            .a = {a_transposed.data(), 1, c.rows},
            .panels = panels.data(),
            .c = {result.data() + result.size() - 1, -1, -c.rows}});
  for (std::int64_t i = 0; i < c.rows; ++i) {
    for (std::int64_t j = 0; j < c.columns; ++j) {
      ASSERT_EQ(result[result.size() - 1 - static_cast<std::size_t>(i + j * c.rows)],
                chain(c, a, b, 0.0F, i, j));
    }
  }
}

TEST(Gemm, PackingReportsWhatIsNotFinite) {
  const Case c{1, 11, 3};
  auto b = random_numbers(c.depth * c.columns, 3);
  std::vector<float> panels(static_cast<std::size_t>(packed_size(c.depth, c.columns)));
  EXPECT_TRUE(pack_panels(c.depth, c.columns, {b.data(), c.columns, 1}, panels.data()));
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::size_t place = 0; place < b.size(); ++place) {
      auto spoilt = b;
      spoilt[place] = bad;
      EXPECT_FALSE(pack_panels(c.depth, c.columns, {spoilt.data(), c.columns, 1}, panels.data()));
    }
  }
}

TEST(Gemm, SelectedProductsLeaveMaskedTermsOut) {
  const Case c{6, 10, 8};
  auto a = random_numbers(c.rows * c.depth, 4);
  const auto b = random_numbers(c.depth * c.columns, 5);
  std::vector<std::uint8_t> keep(a.size(), 1);
  for (std::size_t i = 0; i < keep.size(); i += 3) {
    keep[i] = 0;
    a[i] = 0.0F;
  }
  const auto panels = packed(c, b);
  std::vector<float> expected(static_cast<std::size_t>(c.rows * c.columns));
  std::vector<float> selected = expected;
  const Product product{.rows = c.rows,
                        .columns = c.columns,
                        .depth = c.depth,
                        .a = {a.data(), c.depth, 1},
                        .panels = panels.data(),
                        .c = {expected.data(), c.columns, 1}};
  multiply(product);
  for (std::size_t i = 0; i < keep.size(); i += 3) a[i] = std::numeric_limits<float>::quiet_NaN();
  Product other = product;
  other.c = {selected.data(), c.columns, 1};
  multiply_selected(other, {keep.data(), c.depth, 1});
  EXPECT_EQ(0, std::memcmp(expected.data(), selected.data(), expected.size() * sizeof(float)));
}

}  // namespace
}  // namespace headwise::kernels
