// NaN and Inf planted wherever a mask hides: the operation gives the bits that it gives with zeros
// there, forward and backward, and a poison that is attended reaches the rows that attend it only.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

#include "headwise/headwise.h"
#include "support/containment_cases.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::all_equal;
using test_support::all_finite;
using test_support::hidden_cases;
using test_support::HiddenCase;
using test_support::HiddenSizes;
using test_support::poisons;
using test_support::same_bits;

constexpr std::int64_t kKeyDim = 8;
constexpr std::int64_t kValueDim = 5;

struct Inputs {
  Tensor q, k, v, gradient;

  explicit Inputs(const HiddenSizes& n)
      : q(Tensor::normal({n.batch, n.length, n.heads, kKeyDim}, 1)),
        k(Tensor::normal({n.batch, n.length, n.kv_heads, kKeyDim}, 2)),
        v(Tensor::normal({n.batch, n.length, n.kv_heads, kValueDim}, 3)),
        gradient(Tensor::normal({n.batch, n.length, n.heads, kValueDim}, 4)) {}
};

struct Outcome {
  AttentionResult forward;
  AttentionGradients gradients;
};

Outcome run(const Inputs& in, const HiddenCase& c) {
  const AttentionOptions options{.mask = c.mask, .bias = c.bias, .weights = all_weights()};
  Outcome out{attention(in.q, in.k, in.v, options), {}};
  out.gradients = attention_backward({in.q, in.k, in.v}, out.forward, in.gradient, options,
                                     {.bias_gradient = true});
  return out;
}

void fill(const MutableView& view, float value) {
  for (std::int64_t i = 0; i < view.extent(0); ++i) {
    for (std::int64_t j = 0; j < view.extent(1); ++j) view(i, j) = value;
  }
}

// Writes `value` into every key and value nobody attends and every query that attends nothing.
void plant_hidden(Inputs& in, const HiddenSizes& n, const HiddenCase& c, float value) {
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t i = 0; i < n.length; ++i) {
      if (!n.key_used(c, b, i)) {
        fill(in.k.view().at(0, b).at(0, i), value);
        fill(in.v.view().at(0, b).at(0, i), value);
      }
      if (!n.query_used(c, b, i)) fill(in.q.view().at(0, b).at(0, i), value);
    }
  }
}

class Containment : public ::testing::TestWithParam<std::int64_t> {
 protected:
  HiddenSizes n_{.length = GetParam()};
};

TEST_P(Containment, HiddenPlacesAreNeverRead) {
  for (const HiddenCase& c : hidden_cases(n_)) {
    SCOPED_TRACE(c.name);
    Inputs with_zeros(n_);
    plant_hidden(with_zeros, n_, c, 0.0F);
    const Outcome expected = run(with_zeros, c);
    EXPECT_TRUE(all_finite(expected.forward.output));
    EXPECT_TRUE(all_finite(expected.gradients.query));
    for (const float poison : poisons()) {
      SCOPED_TRACE(poison);
      Inputs planted(n_);
      plant_hidden(planted, n_, c, poison);
      const Outcome got = run(planted, c);
      EXPECT_TRUE(same_bits(got.forward, expected.forward));
      EXPECT_TRUE(same_bits(got.gradients, expected.gradients));
    }
    // The gradients of what was planted are exactly 0.
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t i = 0; i < n_.length; ++i) {
        const auto zero_at = [&](const Tensor& gradient) {
          return all_equal(Tensor::copy_of(gradient.view().at(0, b).at(0, i)), 0.0F);
        };
        if (!n_.key_used(c, b, i)) {
          EXPECT_TRUE(zero_at(expected.gradients.key)) << b << ' ' << i;
          EXPECT_TRUE(zero_at(expected.gradients.value)) << b << ' ' << i;
        }
        if (!n_.query_used(c, b, i)) {
          EXPECT_TRUE(zero_at(expected.gradients.query)) << b << ' ' << i;
        }
      }
    }
  }
}

TEST_P(Containment, WeightsAreZeroExactlyWhereHidden) {
  for (const HiddenCase& c : hidden_cases(n_)) {
    SCOPED_TRACE(c.name);
    const Tensor weights = run(Inputs(n_), c).forward.weights;
    std::int64_t wrong = 0;
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t h = 0; h < n_.heads; ++h) {
        for (std::int64_t t = 0; t < n_.length; ++t) {
          for (std::int64_t s = 0; s < n_.length; ++s) {
            wrong += (weights.view()(b, h, t, s) != 0.0F) != c.attends(b, h, t, s);
          }
        }
      }
    }
    EXPECT_EQ(wrong, 0);
  }
}

// Is row i of `a` and `b`, (B,L,H,d) tensors, the same for sequence b and head h?
bool same_row(const Tensor& x, const Tensor& y, std::int64_t b, std::int64_t i, std::int64_t h) {
  const auto bytes = static_cast<std::size_t>(x.extent(3)) * sizeof(float);
  return std::memcmp(&x.view()(b, i, h, 0), &y.view()(b, i, h, 0), bytes) == 0;
}

// One attended key (and value) is poisoned. Rows that attend it are spoilt; what does not depend
// on a spoilt row keeps its bits: outputs, gradients of queries, of keys and of values.
TEST_P(Containment, PoisonReachesThoseWhoAttendItOnly) {
  const std::int64_t group = n_.heads / n_.kv_heads;
  for (const HiddenCase& c : hidden_cases(n_)) {
    SCOPED_TRACE(c.name);
    const Inputs clean(n_);
    const Outcome expected = run(clean, c);
    for (const float poison : poisons()) {
      SCOPED_TRACE(poison);
      const std::int64_t place = n_.length / 2;
      const std::int64_t kv_head = 1;
      Inputs planted(n_);
      for (std::int64_t d = 0; d < kKeyDim; ++d) planted.k.view()(1, place, kv_head, d) = poison;
      for (std::int64_t d = 0; d < kValueDim; ++d) planted.v.view()(1, place, kv_head, d) = poison;
      const Outcome got = run(planted, c);
      const auto spoilt = [&](std::int64_t b, std::int64_t h, std::int64_t t) {
        return b == 1 && h / group == kv_head && c.attends(b, h, t, place);
      };
      for (std::int64_t b = 0; b < n_.batch; ++b) {
        for (std::int64_t h = 0; h < n_.heads; ++h) {
          for (std::int64_t t = 0; t < n_.length; ++t) {
            if (spoilt(b, h, t)) {
              if (std::isnan(poison)) {
                EXPECT_TRUE(std::isnan(got.forward.output.view()(b, t, h, 0))) << b << h << t;
              }
              continue;
            }
            ASSERT_TRUE(same_row(got.forward.output, expected.forward.output, b, t, h));
            ASSERT_TRUE(same_row(got.gradients.query, expected.gradients.query, b, t, h));
          }
          for (std::int64_t s = 0; s < n_.length; ++s) {
            bool touched = false;
            for (std::int64_t g = h / group * group; g < (h / group + 1) * group; ++g) {
              for (std::int64_t t = 0; t < n_.length && !touched; ++t) {
                touched = spoilt(b, g, t) && c.attends(b, g, t, s);
              }
            }
            if (touched) continue;
            ASSERT_TRUE(same_row(got.gradients.key, expected.gradients.key, b, s, h / group));
            ASSERT_TRUE(same_row(got.gradients.value, expected.gradients.value, b, s, h / group));
          }
        }
      }
    }
  }
}

// A poisoned query spoils its own row, whatever the mask.
TEST_P(Containment, RowsDoNotInfluenceEachOther) {
  const std::int64_t place = n_.length / 2;
  for (const HiddenCase& c : hidden_cases(n_)) {
    SCOPED_TRACE(c.name);
    const Outcome expected = run(Inputs(n_), c);
    Inputs planted(n_);
    fill(planted.q.view().at(0, 0).at(0, place), std::numeric_limits<float>::quiet_NaN());
    const Outcome got = run(planted, c);
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t h = 0; h < n_.heads; ++h) {
        for (std::int64_t t = 0; t < n_.length; ++t) {
          if (b == 0 && t == place && n_.query_used(c, b, t)) continue;
          ASSERT_TRUE(same_row(got.forward.output, expected.forward.output, b, t, h)) << t;
          ASSERT_TRUE(same_row(got.gradients.query, expected.gradients.query, b, t, h)) << t;
        }
      }
    }
  }
}

// A bias may hold anything where the mask hides, and its gradient there is exactly 0.
TEST_P(Containment, BiasInHiddenPlaces) {
  for (HiddenCase c : hidden_cases(n_)) {
    if (!c.bias.empty()) continue;
    SCOPED_TRACE(c.name);
    const auto bias_of = [&](float hidden) {
      Tensor bias = Tensor::normal({n_.batch, n_.heads, n_.length, n_.length}, 9);
      for (std::int64_t b = 0; b < n_.batch; ++b) {
        for (std::int64_t h = 0; h < n_.heads; ++h) {
          for (std::int64_t t = 0; t < n_.length; ++t) {
            for (std::int64_t s = 0; s < n_.length; ++s) {
              if (!c.attends(b, h, t, s)) bias.view()(b, h, t, s) = hidden;
            }
          }
        }
      }
      return bias;
    };
    const Inputs in(n_);
    c.bias = {Bias(bias_of(0.0F))};
    const Outcome expected = run(in, c);
    for (const float poison : poisons()) {
      c.bias = {Bias(bias_of(poison))};
      const Outcome got = run(in, c);
      EXPECT_TRUE(same_bits(got.forward, expected.forward)) << poison;
      EXPECT_TRUE(same_bits(got.gradients, expected.gradients)) << poison;
    }
    const Tensor& gradient = expected.gradients.bias.at(0);
    std::int64_t leaked = 0;
    for (std::int64_t i = 0; i < gradient.size(); ++i) {
      const std::int64_t s = i % n_.length, t = i / n_.length % n_.length;
      const std::int64_t h = i / n_.length / n_.length % n_.heads;
      const std::int64_t b = i / n_.length / n_.length / n_.heads;
      leaked += !c.attends(b, h, t, s) && gradient.values()[static_cast<std::size_t>(i)] != 0.0F;
    }
    EXPECT_EQ(leaked, 0);
  }
}

// In a packed batch the neighbour's keys lie in the same memory, right beside one's own.
TEST_P(Containment, PackedSequencesDoNotSeeTheirNeighbours) {
  const std::int64_t cut = n_.length / 3;
  const AttentionOptions options{.mask = causal(),
                                 .packed = PackedLengths{.query = {0, cut, n_.length}, .key = {}}};
  const Tensor clean = Tensor::normal({n_.length, 2, kKeyDim}, 1);
  const Tensor gradient = Tensor::normal(clean.shape(), 2);
  const auto first_part = [&](const Tensor& x) {
    return Tensor::copy_of(x.view().sliced(0, 0, cut));
  };
  const AttentionResult expected = attention(clean, clean, clean, options);
  const AttentionGradients expected_gradients =
      attention_backward({.query = clean}, expected, gradient, options);
  for (const float poison : poisons()) {
    Tensor x = clean;
    for (std::int64_t i = cut; i < n_.length; ++i) fill(x.view().at(0, i), poison);
    const AttentionResult got = attention(x, x, x, options);
    EXPECT_TRUE(same_bits(first_part(got.output), first_part(expected.output)));
    const AttentionGradients gradients = attention_backward({.query = x}, got, gradient, options);
    EXPECT_TRUE(same_bits(first_part(gradients.query), first_part(expected_gradients.query)));
    EXPECT_TRUE(same_bits(first_part(gradients.key), first_part(expected_gradients.key)));
    EXPECT_TRUE(same_bits(first_part(gradients.value), first_part(expected_gradients.value)));
  }
}

// 270 crosses the boundary of a key block at 256.
INSTANTIATE_TEST_SUITE_P(Lengths, Containment, ::testing::Values(13, 70, 270));

}  // namespace
}  // namespace headwise
