// The oracle itself, against numbers that can be worked out by hand or stand in the literature.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/oracle.h"
#include "support/philox.h"

namespace headwise::oracle {
namespace {

// Known answers that its authors publish with their generator (Random123, kat_vectors).
TEST(Oracle, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627E8D5U, 0xE169C58DU, 0xBC57AC4CU, 0x9B00DBD8U}));
  EXPECT_EQ(philox4x32_10({0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU, 0xFFFFFFFFU},
                          {0xFFFFFFFFU, 0xFFFFFFFFU}),
            (PhiloxCounter{0x408F276DU, 0x41C83B0EU, 0xA20BC7C6U, 0x6D5451FDU}));
  EXPECT_EQ(philox4x32_10({0x243F6A88U, 0x85A308D3U, 0x13198A2EU, 0x03707344U},
                          {0xA4093822U, 0x299F31D0U}),
            (PhiloxCounter{0xD16CFE09U, 0x94FDCCEBU, 0x5001E420U, 0x24126EA1U}));
}

// Two keys whose scores differ by ln 3: weights 1/4 and 3/4.
TEST(Oracle, TwoKeysByHand) {
  HeadTensors<double> x{
      Array<double>({1, 1, 1}), Array<double>({2, 1, 1}), Array<double>({2, 1, 1}), {}};
  x.query.values = {1.0};
  x.key.values = {0.0, std::log(3.0)};
  x.value.values = {8.0, 4.0};
  const Sequences sequences{.query = {0, 1}, .key = {0, 2}};
  AttentionOptions options;
  const auto both = attention(x, sequences, options);
  EXPECT_NEAR(both.weights(0, 0, 0), 0.25, 1e-15);
  EXPECT_NEAR(both.output(0, 0, 0), 5.0, 1e-14);
  EXPECT_NEAR(both.log_sum_exp(0, 0), std::log(4.0), 1e-15);

  // dS = P·(dP − Σ P·dP) = (1/4·(8 − 5), 3/4·(4 − 5)) = (3/4, −3/4)
  Array<double> gradient({1, 1, 1});
  gradient.values = {1.0};
  const auto gradients = attention_backward(x, sequences, gradient, options);
  EXPECT_NEAR(gradients.key(0, 0, 0), 0.75, 1e-14);
  EXPECT_NEAR(gradients.key(1, 0, 0), -0.75, 1e-14);
  EXPECT_NEAR(gradients.query(0, 0, 0), -0.75 * std::log(3.0), 1e-14);
  EXPECT_NEAR(gradients.value(1, 0, 0), 0.75, 1e-15);

  options.mask.right = 0;  // causal: query 0 sees key 0
  options.mask.positions = Alignment::TopLeft;
  EXPECT_EQ(attention(x, sequences, options).output(0, 0, 0), 8.0);
  options.mask.positions = std::vector<std::int64_t>{-1};  // before the first key
  const auto none = attention(x, sequences, options);
  EXPECT_EQ(none.output(0, 0, 0), 0.0);
  EXPECT_EQ(none.log_sum_exp(0, 0), -std::numeric_limits<double>::infinity());
  options.unmasked_tail = 1;  // the second key, whatever the mask says
  EXPECT_EQ(attention(x, sequences, options).output(0, 0, 0), 4.0);
}

// The deviation that Rounded predicts is the one that float32 has.
TEST(Oracle, RoundedPredictsTheErrorOfFloat) {
  double squares = 0.0;
  double predicted = 0.0;
  constexpr int trials = 2000;
  for (int trial = 0; trial < trials; ++trial) {
    Rounded rounded(0.0);
    float naive = 0.0F;
    for (int i = 0; i < 50; ++i) {
      const auto a = static_cast<float>(std::sin(trial * 50 + i));
      const auto b = static_cast<float>(std::cos(3 * trial + 7 * i));
      rounded += Rounded(static_cast<double>(a)) * Rounded(static_cast<double>(b));
      naive += a * b;
    }
    squares += square(static_cast<double>(naive) - rounded.value);
    predicted += rounded.variance;
  }
  // These are no truly random numbers, and rounding errors not quite independent: about 1.
  const double ratio = std::sqrt(squares / predicted);
  EXPECT_GT(ratio, 0.8);
  EXPECT_LT(ratio, 1.25);
}

}  // namespace
}  // namespace headwise::oracle
