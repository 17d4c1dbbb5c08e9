// NaN and Inf in padding rows of a layer's inputs: no output, weight, gradient of an input or
// gradient of a parameter changes by a bit against zeros there.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

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

constexpr std::int64_t kFeatures = 10;

struct NamedConfig {
  std::string name;
  AttentionConfig config;
};

// Every option by itself on short sequences; the plainest and the fullest layer on long ones, where
// time counts.
std::vector<NamedConfig> configs(std::int64_t length) {
  const AttentionConfig plain{
      .num_heads = 4, .num_kv_heads = 2, .key_dim = 6, .value_dim = 5, .query_features = kFeatures};
  std::vector<NamedConfig> all{{"plain", plain}};
  const auto add = [&](const char* name, auto change) {
    all.push_back({name, plain});
    change(all.back().config);
  };
  add("without biases", [](AttentionConfig& c) { c.use_bias = false; });
  add("gate", [](AttentionConfig& c) { c.use_gate = true; });
  add("RmsNorm", [](AttentionConfig& c) { c.qk_norm = QkNorm::RmsNorm; });
  add("LayerNorm", [](AttentionConfig& c) { c.qk_norm = QkNorm::LayerNorm; });
  add("all together", [](AttentionConfig& c) {
    c.use_gate = true;
    c.qk_norm = QkNorm::RmsNorm;
    c.softcap = 3.0F;
    c.dropout = 0.3F;
  });
  if (length > 100) return {all.front(), all.back()};
  return all;
}

// Biases and norm scales other than 0 and 1, or a lost one would not show.
AttentionWeights random_weights(const AttentionConfig& config) {
  AttentionWeights weights = AttentionWeights::glorot(config, 5);
  std::uint64_t seed = 100;
  for (const WeightField& field : weight_fields()) {
    Tensor& tensor = weights.*field.tensor;
    if (field.present(config) && tensor.rank() == 1)
      tensor = Tensor::normal(tensor.shape(), ++seed);
  }
  return weights;
}

struct Inputs {
  Tensor query, key, value;

  explicit Inputs(const HiddenSizes& n)
      : query(Tensor::normal({n.batch, n.length, kFeatures}, 1)),
        key(Tensor::normal({n.batch, n.length, kFeatures}, 2)),
        value(Tensor::normal({n.batch, n.length, kFeatures}, 3)) {}
  [[nodiscard]] AttentionInputs views() const { return {query, key, value}; }
};

void fill_row(Tensor& tensor, std::int64_t b, std::int64_t i, float value) {
  for (std::int64_t c = 0; c < tensor.extent(2); ++c) tensor.view()(b, i, c) = value;
}

void plant_hidden(Inputs& in, const HiddenSizes& n, const HiddenCase& c, float value) {
  for (std::int64_t b = 0; b < n.batch; ++b) {
    for (std::int64_t i = 0; i < n.length; ++i) {
      if (!n.key_used(c, b, i)) {
        fill_row(in.key, b, i, value);
        fill_row(in.value, b, i, value);
      }
      if (!n.query_used(c, b, i)) fill_row(in.query, b, i, value);
    }
  }
}

struct Outcome {
  AttentionResult forward;
  LayerGradients gradients;
};

Outcome run(const MultiHeadAttention& layer, const Inputs& in, const HiddenCase& c) {
  const ForwardOptions options{.mask = c.mask,
                               .bias = c.bias,
                               .weights = all_weights(),
                               .training = true,
                               .save_for_backward = true};
  Outcome out{layer.forward(in.views(), options), {}};
  out.gradients =
      layer.backward(in.views(), out.forward, Tensor::normal(out.forward.output.shape(), 4),
                     options, {.bias_gradient = true});
  return out;
}

class LayerContainment : public ::testing::TestWithParam<std::int64_t> {
 protected:
  HiddenSizes n_{.length = GetParam()};
};

TEST_P(LayerContainment, PaddingIsNeverRead) {
  for (const NamedConfig& named : configs(n_.length)) {
    const MultiHeadAttention layer(named.config, random_weights(named.config));
    for (const HiddenCase& c : hidden_cases(n_)) {
      SCOPED_TRACE(named.name + ", " + c.name);
      Inputs with_zeros(n_);
      plant_hidden(with_zeros, n_, c, 0.0F);
      const Outcome expected = run(layer, with_zeros, c);
      EXPECT_TRUE(all_finite(expected.forward.output));
      for (const WeightField& field : weight_fields()) {
        EXPECT_TRUE(all_finite(expected.gradients.weights.*field.tensor)) << field.name;
      }
      for (const float poison : poisons()) {
        SCOPED_TRACE(poison);
        Inputs planted(n_);
        plant_hidden(planted, n_, c, poison);
        const Outcome got = run(layer, planted, c);
        EXPECT_TRUE(same_bits(got.forward, expected.forward));
        EXPECT_TRUE(same_bits(got.gradients, expected.gradients));
      }
    }
  }
}

TEST_P(LayerContainment, GradientsOfPaddingAreZero) {
  for (const NamedConfig& named : configs(n_.length)) {
    const MultiHeadAttention layer(named.config, random_weights(named.config));
    for (const HiddenCase& c : hidden_cases(n_)) {
      SCOPED_TRACE(named.name + ", " + c.name);
      Inputs planted(n_);
      plant_hidden(planted, n_, c, poisons().front());
      const LayerGradients g = run(layer, planted, c).gradients;
      for (std::int64_t b = 0; b < n_.batch; ++b) {
        for (std::int64_t i = 0; i < n_.length; ++i) {
          const auto zero_at = [&](const Tensor& gradient) {
            return all_equal(Tensor::copy_of(gradient.view().at(0, b).at(0, i)), 0.0F);
          };
          if (!n_.key_used(c, b, i)) {
            EXPECT_TRUE(zero_at(g.key) && zero_at(g.value)) << b << ' ' << i;
          }
          if (!n_.query_used(c, b, i)) {
            EXPECT_TRUE(zero_at(g.query)) << b << ' ' << i;
          }
        }
      }
    }
  }
}

// A row that attends nothing is the output bias to the bit, whatever its query held.
TEST_P(LayerContainment, EmptyRowsAreTheOutputBias) {
  for (const NamedConfig& named : configs(n_.length)) {
    SCOPED_TRACE(named.name);
    const MultiHeadAttention layer(named.config, random_weights(named.config));
    const HiddenCase c{"query lengths",
                       query_lengths({n_.length / 2, 0}),
                       {},
                       [half = n_.length / 2](std::int64_t b, std::int64_t, std::int64_t t,
                                              std::int64_t) { return b == 0 && t < half; }};
    Inputs planted(n_);
    plant_hidden(planted, n_, c, poisons().front());
    const Tensor output = run(layer, planted, c).forward.output;
    const Tensor bias = named.config.has_output_bias() ? layer.weights().output_bias
                                                       : Tensor({named.config.outputs()});
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t t = b == 0 ? n_.length / 2 : 0; t < n_.length; ++t) {
        EXPECT_TRUE(same_bits(Tensor::copy_of(output.view().at(0, b).at(0, t)), bias));
      }
    }
  }
}

// A NaN in one token that is attended spoils the rows that attend it; others keep their bits.
TEST_P(LayerContainment, AnAttendedPoisonReachesItsReadersOnly) {
  const std::int64_t place = n_.length / 2;
  for (const NamedConfig& named : configs(n_.length)) {
    SCOPED_TRACE(named.name);
    const MultiHeadAttention layer(named.config, random_weights(named.config));
    const HiddenCase c{"causal", causal(), {}, {}};
    const Outcome expected = run(layer, Inputs(n_), c);
    Inputs planted(n_);
    fill_row(planted.key, 1, place, poisons().front());
    fill_row(planted.value, 1, place, poisons().front());
    const Outcome got = run(layer, planted, c);
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t t = 0; t < n_.length; ++t) {
        const auto row = [&](const Tensor& x) {
          return Tensor::copy_of(x.view().at(0, b).at(0, t));
        };
        if (b == 1 && t >= place) {
          // Dropout may have dropped the value, but it never drops a NaN score.
          EXPECT_FALSE(all_finite(row(got.forward.output))) << t;
        } else {
          ASSERT_TRUE(same_bits(row(got.forward.output), row(expected.forward.output))) << t;
          ASSERT_TRUE(same_bits(row(got.gradients.query), row(expected.gradients.query))) << t;
        }
      }
    }
  }
}

// Keys that no mask touches are attended beside the hidden ones.
TEST_P(LayerContainment, ExtraKeys) {
  AttentionConfig config = configs(n_.length).front().config;
  config.add_bias_kv = true;
  config.add_zero_attn = true;
  const MultiHeadAttention layer(config, random_weights(config));
  const HiddenCase c{"valid lengths",
                     valid_lengths({n_.length / 2, 0}),
                     {},
                     [half = n_.length / 2](std::int64_t b, std::int64_t, std::int64_t,
                                            std::int64_t s) { return b == 0 && s < half; }};
  const auto plant_keys = [&](float value) {
    Inputs in(n_);
    for (std::int64_t b = 0; b < n_.batch; ++b) {
      for (std::int64_t s = b == 0 ? n_.length / 2 : 0; s < n_.length; ++s) {
        fill_row(in.key, b, s, value);
        fill_row(in.value, b, s, value);
      }
    }
    return in;
  };
  const Outcome expected = run(layer, plant_keys(0.0F), c);
  for (const float poison : poisons()) {
    const Outcome got = run(layer, plant_keys(poison), c);
    EXPECT_TRUE(same_bits(got.forward, expected.forward)) << poison;
    EXPECT_TRUE(same_bits(got.gradients, expected.gradients)) << poison;
  }
}

INSTANTIATE_TEST_SUITE_P(Lengths, LayerContainment, ::testing::Values(13, 270));

}  // namespace
}  // namespace headwise
