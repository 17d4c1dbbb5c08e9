// Numbers at the edges: huge scores, denormals, and NaN or Inf where it is attended.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::all_finite;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// One head's output by the definition, in long double: (T,1,d), (S,1,d) → (T,1,dv).
Tensor by_definition(const Tensor& q, const Tensor& k, const Tensor& v, float scale) {
  const std::int64_t queries = q.extent(0), keys = k.extent(0), dk = q.extent(2), dv = v.extent(2);
  Tensor out({queries, 1, dv});
  for (std::int64_t t = 0; t < queries; ++t) {
    std::vector<long double> score(static_cast<std::size_t>(keys));
    long double largest = -std::numeric_limits<long double>::infinity();
    for (std::int64_t s = 0; s < keys; ++s) {
      long double dot = 0;
      for (std::int64_t c = 0; c < dk; ++c) {
        dot += static_cast<long double>(q.view()(t, 0, c)) *
               static_cast<long double>(k.view()(s, 0, c));
      }
      score[static_cast<std::size_t>(s)] = dot * static_cast<long double>(scale);
      largest = std::max(largest, score[static_cast<std::size_t>(s)]);
    }
    long double total = 0;
    for (long double& x : score) total += (x = std::exp(x - largest));
    for (std::int64_t c = 0; c < dv; ++c) {
      long double sum = 0;
      for (std::int64_t s = 0; s < keys; ++s) {
        sum += score[static_cast<std::size_t>(s)] / total *
               static_cast<long double>(v.view()(s, 0, c));
      }
      out.view()(t, 0, c) = static_cast<float>(sum);
    }
  }
  return out;
}

// Every product is a small integer times a power of two, so that all scores are exact in float32
// and the comparison is about the softmax alone.
Tensor exact_numbers(const Shape& shape, float step, std::int64_t period) {
  Tensor out(shape);
  std::int64_t i = 0;
  for (float& x : out.values()) {
    x = step * static_cast<float>((i * 5 + i / 7) % period - period / 2);
    ++i;
  }
  return out;
}

TEST(ExtremeValues, ScoresOfTenThousand) {
  const Tensor q = exact_numbers({9, 1, 1}, 32.0F, 9);   // −128 … 128
  const Tensor k = exact_numbers({40, 1, 1}, 4.0F, 40);  // −80 … 76
  const Tensor v = Tensor::normal({40, 1, 3}, 3);
  const AttentionResult r = attention(q, k, v, {.scale = 1.0F});  // scores up to ±10240
  EXPECT_TRUE(test_support::close_to(r.output, by_definition(q, k, v, 1.0F), 2e-6));
  EXPECT_TRUE(all_finite(r.log_sum_exp));
  const AttentionGradients g =
      attention_backward({q, k, v}, r, Tensor::full(r.output.shape(), 1.0F), {.scale = 1.0F});
  EXPECT_TRUE(all_finite(g.query) && all_finite(g.key) && all_finite(g.value));
}

TEST(ExtremeValues, HugeScoresThatDifferLittle) {
  // 10000, 9999.5, 9999, …: rounding of score·log₂e may not blur their ratios.
  Tensor k({12, 1, 1});
  for (std::int64_t s = 0; s < 12; ++s) k.view()(s, 0, 0) = 20000.0F - static_cast<float>(s);
  const Tensor q = Tensor::from({2, 1, 1}, {0.5F, -0.5F});
  const Tensor v = Tensor::normal({12, 1, 3}, 3);
  const AttentionResult r = attention(q, k, v, {.scale = 1.0F});
  EXPECT_TRUE(test_support::close_to(r.output, by_definition(q, k, v, 1.0F), 2e-6));
}

TEST(ExtremeValues, AllScoresHugeAndEqual) {
  for (const float sign : {-1.0F, 1.0F}) {
    const Tensor q = Tensor::full({2, 1, 1}, 100.0F * sign);
    const Tensor k = Tensor::full({300, 1, 1}, 100.0F);
    const Tensor v = Tensor::normal({300, 1, 4}, 3);
    const AttentionResult r = attention(q, k, v, {.scale = 1.0F});
    EXPECT_TRUE(test_support::close_to(r.output, by_definition(q, k, v, 1.0F), 2e-6));
    for (const float lse : r.log_sum_exp.values()) {
      EXPECT_NEAR(lse, 1e4 * static_cast<double>(sign) + std::log(300.0), 2e-3);
    }
  }
}

TEST(ExtremeValues, OneKeyOutweighsAllOthers) {
  // Far below the reference everything is exactly nothing, across key blocks too.
  Tensor k = Tensor::full({600, 1, 1}, -100.0F);
  k.view()(511, 0, 0) = 100.0F;
  const Tensor q = Tensor::full({3, 1, 1}, 100.0F);
  const Tensor v = Tensor::normal({600, 1, 2}, 3);
  const AttentionResult r = attention(q, k, v, {.scale = 1.0F});
  for (std::int64_t t = 0; t < 3; ++t) {
    EXPECT_FLOAT_EQ(r.output.view()(t, 0, 0), v.view()(511, 0, 0));
    EXPECT_FLOAT_EQ(r.output.view()(t, 0, 1), v.view()(511, 0, 1));
  }
}

TEST(ExtremeValues, SoftcapBoundsHugeScores) {
  const Tensor q = Tensor::full({1, 1, 1}, 100.0F);
  const Tensor k = Tensor::from({2, 1, 1}, {100.0F, -100.0F});
  const Tensor v = Tensor::from({2, 1, 1}, {1.0F, 0.0F});
  const AttentionResult r = attention(q, k, v, {.scale = 1.0F, .softcap = 2.0F});
  EXPECT_NEAR(r.output.values()[0], 1.0 / (1.0 + std::exp(-4.0)), 1e-6);
}

TEST(ExtremeValues, Denormals) {
  const float tiny = std::numeric_limits<float>::denorm_min() * 1000.0F;
  const Tensor q = Tensor::full({2, 1, 4}, tiny);
  const Tensor k = Tensor::full({5, 1, 4}, tiny);
  const Tensor v = Tensor::full({5, 1, 3}, tiny);
  const AttentionResult r = attention(q, k, v);
  for (const float x : r.output.values()) {
    EXPECT_NEAR(x, tiny, tiny * 0.01F) << "a mean of equal numbers is that number";
  }
  for (const float lse : r.log_sum_exp.values()) EXPECT_NEAR(lse, std::log(5.0), 1e-6);
}

TEST(ExtremeValues, LargestFiniteValues) {
  const float huge = std::numeric_limits<float>::max() / 8.0F;
  const Tensor q = Tensor::normal({2, 1, 4}, 1);
  const Tensor k = Tensor::normal({5, 1, 4}, 2);
  const AttentionResult r = attention(q, k, Tensor::full({5, 1, 3}, huge));
  for (const float x : r.output.values()) EXPECT_NEAR(x / huge, 1.0F, 1e-5F);
}

// ---- NaN and Inf where they are attended -------------------------------------------------------

class AttendedPoison : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLength = 6;
  Tensor q_ = Tensor::normal({2, kLength, 2, 4}, 1);
  Tensor k_ = Tensor::normal({2, kLength, 2, 4}, 2);
  Tensor v_ = Tensor::normal({2, kLength, 2, 4}, 3);
  AttentionOptions options_{.mask = causal()};
  AttentionResult clean_ = attention(q_, k_, v_, options_);

  // Rows of batch 1, head 0 from `first` on are spoilt in all (or the given) columns, and no other.
  void expect_spoilt(const AttentionResult& r, std::int64_t first, std::int64_t column = -1) const {
    for (std::int64_t b = 0; b < 2; ++b) {
      for (std::int64_t t = 0; t < kLength; ++t) {
        for (std::int64_t h = 0; h < 2; ++h) {
          for (std::int64_t c = 0; c < 4; ++c) {
            const float x = r.output.view()(b, t, h, c);
            if (b == 1 && h == 0 && t >= first && (column < 0 || c == column)) {
              EXPECT_FALSE(std::isfinite(x)) << b << t << h << c;
            } else {
              EXPECT_EQ(x, clean_.output.view()(b, t, h, c)) << b << t << h << c;
            }
          }
        }
      }
    }
  }
};

TEST_F(AttendedPoison, NaNInAKeySpoilsTheRowsThatAttendIt) {
  k_.view()(1, 3, 0, 2) = kNaN;
  const AttentionResult r = attention(q_, k_, v_, options_);
  expect_spoilt(r, 3);
  for (std::int64_t t = 0; t < kLength; ++t) {
    EXPECT_EQ(std::isnan(r.log_sum_exp.view()(1, 0, t)), t >= 3) << t;
  }
}

TEST_F(AttendedPoison, NaNInAValueSpoilsOneColumn) {
  v_.view()(1, 3, 0, 2) = kNaN;
  const AttentionResult r = attention(q_, k_, v_, options_);
  expect_spoilt(r, 3, 2);
  EXPECT_TRUE(test_support::same_bits(r.log_sum_exp, clean_.log_sum_exp));
}

TEST_F(AttendedPoison, InfInAValueSpoilsOneColumn) {
  v_.view()(1, 2, 0, 1) = kInfinity;
  expect_spoilt(attention(q_, k_, v_, options_), 2, 1);
}

TEST_F(AttendedPoison, NaNInAQuerySpoilsItsOwnRow) {
  q_.view()(1, 3, 0, 0) = kNaN;
  const AttentionResult r = attention(q_, k_, v_, options_);
  for (std::int64_t t = 0; t < kLength; ++t) {
    EXPECT_EQ(std::isnan(r.output.view()(1, t, 0, 0)), t == 3) << t;
    EXPECT_FALSE(std::isnan(r.output.view()(1, t, 1, 0))) << t;
    EXPECT_FALSE(std::isnan(r.output.view()(0, t, 0, 0))) << t;
  }
}

TEST_F(AttendedPoison, NaNInABiasSpoilsItsOwnRow) {
  Tensor bias({kLength, kLength});
  bias.view()(4, 1) = kNaN;
  options_.bias = {Bias(bias)};
  const AttentionResult r = attention(q_, k_, v_, options_);
  for (std::int64_t t = 0; t < kLength; ++t) {
    EXPECT_EQ(std::isnan(r.output.view()(0, t, 0, 0)), t == 4) << t;
    EXPECT_EQ(std::isnan(r.output.view()(1, t, 1, 3)), t == 4) << t;
  }
}

// A NaN among the scores must not be lost by a maximum that skips it, whatever its place.
TEST_F(AttendedPoison, NaNIsSeenAtEveryPlace) {
  constexpr std::int64_t kKeys = 530;  // crosses two key blocks
  const Tensor q = Tensor::normal({1, 1, 4}, 1);
  const Tensor v = Tensor::normal({kKeys, 1, 2}, 3);
  for (const std::int64_t place : {0, 1, 15, 16, 255, 256, 300, 511, 512, 529}) {
    Tensor k = Tensor::normal({kKeys, 1, 4}, 2);
    k.view()(place, 0, 0) = kNaN;
    const AttentionResult r = attention(q, k, v);
    EXPECT_TRUE(std::isnan(r.output.values()[0])) << place;
    EXPECT_TRUE(std::isnan(r.log_sum_exp.values()[0])) << place;
  }
}

}  // namespace
}  // namespace headwise
