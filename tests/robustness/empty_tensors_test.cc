// Empty and single-element tensors, and tensors with unusual strides: none is an error.
// A row without keys is 0 (through a layer: the output bias), with a log-sum-exp of −∞.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::all_equal;
using test_support::all_finite;
using test_support::same_bits;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

struct Sizes {
  std::int64_t b = 2, t = 3, s = 4, hq = 4, hkv = 2, dk = 5, dv = 6;
};

struct Outcome {
  AttentionResult forward;
  AttentionGradients gradients;
};

Outcome run(const Sizes& n) {
  const Tensor q = Tensor::normal({n.b, n.t, n.hq, n.dk}, 1);
  const Tensor k = Tensor::normal({n.b, n.s, n.hkv, n.dk}, 2);
  const Tensor v = Tensor::normal({n.b, n.s, n.hkv, n.dv}, 3);
  const AttentionOptions options{.weights = all_weights() | top_k_weights(2) | weight_statistics()};
  Outcome out{attention(q, k, v, options), {}};
  out.gradients = attention_backward({q, k, v}, out.forward,
                                     Tensor::full(out.forward.output.shape(), 1.0F), options);
  EXPECT_EQ(out.forward.output.shape(), Shape({n.b, n.t, n.hq, n.dv}));
  EXPECT_EQ(out.forward.log_sum_exp.shape(), Shape({n.b, n.hq, n.t}));
  EXPECT_EQ(out.forward.weights.shape(), Shape({n.b, n.hq, n.t, n.s}));
  EXPECT_EQ(out.forward.top.values.shape(), Shape({n.b, n.hq, n.t, 2}));
  EXPECT_EQ(out.forward.top.indices.shape(), Shape({n.b, n.hq, n.t, 2}));
  EXPECT_EQ(out.forward.statistics.entropy.shape(), Shape({n.b, n.hq, n.t}));
  EXPECT_EQ(out.gradients.query.shape(), q.shape());
  EXPECT_EQ(out.gradients.key.shape(), k.shape());
  EXPECT_EQ(out.gradients.value.shape(), v.shape());
  return out;
}

TEST(EmptyTensors, NoBatch) { run({.b = 0}); }

TEST(EmptyTensors, NoQueries) {
  const Outcome r = run({.t = 0});
  EXPECT_TRUE(all_equal(r.gradients.key, 0.0F));
  EXPECT_TRUE(all_equal(r.gradients.value, 0.0F));
}

TEST(EmptyTensors, NoKeys) {
  const Outcome r = run({.s = 0});
  EXPECT_TRUE(all_equal(r.forward.output, 0.0F));
  EXPECT_TRUE(all_equal(r.forward.log_sum_exp, kMinusInfinity));
  EXPECT_TRUE(all_equal(r.gradients.query, 0.0F));
  EXPECT_TRUE(all_equal(r.forward.top.values, 0.0F));
  for (const std::int64_t index : r.forward.top.indices.values()) EXPECT_EQ(index, -1);
  EXPECT_TRUE(all_equal(r.forward.statistics.entropy, 0.0F));
  EXPECT_TRUE(all_equal(r.forward.statistics.mean_distance, 0.0F));
  EXPECT_TRUE(all_equal(r.forward.statistics.first_key_mass, 0.0F));
}

TEST(EmptyTensors, NoValueFeatures) {
  const Outcome r = run({.dv = 0});
  EXPECT_TRUE(all_finite(r.forward.log_sum_exp)) << "weights exist all the same";
}

// With nothing to multiply every score is 0 and 1/√0 is no scale: uniform weights, or refused.
TEST(EmptyTensors, NoKeyFeatures) {
  try {
    const Outcome r = run({.dk = 0});
    for (const float w : r.forward.weights.values()) EXPECT_FLOAT_EQ(w, 0.25F);
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.function(), "attention") << error.what();
  }
}

TEST(EmptyTensors, NoHeads) {
  try {
    run({.hq = 0, .hkv = 0});
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.function(), "attention") << error.what();
  }
}

TEST(EmptyTensors, EveryAxisOfSizeOne) {
  const Outcome r = run({.b = 1, .t = 1, .s = 1, .hq = 1, .hkv = 1, .dk = 1, .dv = 1});
  EXPECT_FLOAT_EQ(r.forward.output.values()[0], Tensor::normal({1}, 3).values()[0]);
  EXPECT_FLOAT_EQ(r.forward.weights.values()[0], 1.0F);
  EXPECT_FLOAT_EQ(r.gradients.value.values()[0], 1.0F);
  EXPECT_NEAR(r.gradients.query.values()[0], 0.0F, 1e-6) << "a softmax over one key is constant";
}

TEST(EmptyTensors, OneAxisOfSizeOneAtATime) {
  EXPECT_TRUE(all_finite(run({.b = 1}).forward.output));
  EXPECT_TRUE(all_finite(run({.t = 1}).forward.output));
  EXPECT_TRUE(all_finite(run({.s = 1}).forward.output));
  EXPECT_TRUE(all_finite(run({.hkv = 1}).forward.output));
  EXPECT_TRUE(all_finite(run({.dk = 1}).forward.output));
  EXPECT_TRUE(all_finite(run({.dv = 1}).forward.output));
}

TEST(EmptyTensors, EmptyRowsAmongOthers) {
  const Tensor q = Tensor::normal({2, 3, 2, 4}, 1);
  const Tensor k = Tensor::normal({2, 5, 2, 4}, 2);
  const Tensor v = Tensor::normal({2, 5, 2, 4}, 3);
  const AttentionOptions options{.mask = valid_lengths({0, 5})};
  const AttentionResult r = attention(q, k, v, options);
  EXPECT_TRUE(all_equal(Tensor::copy_of(r.output.view().at(0, 0)), 0.0F));
  EXPECT_TRUE(all_equal(Tensor::copy_of(r.log_sum_exp.view().at(0, 0)), kMinusInfinity));
  EXPECT_TRUE(all_finite(r.output));
  const AttentionGradients g =
      attention_backward({q, k, v}, r, Tensor::full(r.output.shape(), 1.0F), options);
  for (const Tensor* gradient : {&g.query, &g.key, &g.value}) {
    EXPECT_TRUE(all_equal(Tensor::copy_of(gradient->view().at(0, 0)), 0.0F));
    EXPECT_TRUE(all_finite(*gradient));
  }
}

class EmptyTensorsInLayer : public ::testing::Test {
 protected:
  static AttentionWeights weights(const AttentionConfig& config) {
    AttentionWeights w = AttentionWeights::glorot(config, 3);
    w.output_bias = Tensor::normal({config.outputs()}, 4);
    return w;
  }
  AttentionResult forward(std::int64_t b, std::int64_t t, std::int64_t s) const {
    const Tensor q = Tensor::normal({b, t, 6}, 1);
    const Tensor k = Tensor::normal({b, s, 6}, 2);
    AttentionResult r = layer_.forward({.query = q, .key = k}, {.save_for_backward = true});
    EXPECT_EQ(r.output.shape(), Shape({b, t, 7}));
    const LayerGradients g =
        layer_.backward({.query = q, .key = k}, r, Tensor::full({b, t, 7}, 1.0F));
    EXPECT_EQ(g.query.shape(), q.shape());
    EXPECT_EQ(g.key.shape(), k.shape());
    EXPECT_TRUE(all_finite(g.weights.query_kernel));
    EXPECT_TRUE(all_equal(g.weights.output_bias, static_cast<float>(b * t)));
    return r;
  }
  AttentionConfig config_{.num_heads = 2, .key_dim = 3, .query_features = 6, .output_features = 7};
  MultiHeadAttention layer_{config_, weights(config_)};
};

TEST_F(EmptyTensorsInLayer, NoBatch) { forward(0, 3, 4); }
TEST_F(EmptyTensorsInLayer, NoQueries) { forward(2, 0, 4); }
TEST_F(EmptyTensorsInLayer, SizeOne) { EXPECT_TRUE(all_finite(forward(1, 1, 1).output)); }

TEST_F(EmptyTensorsInLayer, NoKeys) {
  const AttentionResult r = forward(2, 3, 0);
  const Tensor& bias = layer_.weights().output_bias;
  for (std::int64_t b = 0; b < 2; ++b) {
    for (std::int64_t t = 0; t < 3; ++t) {
      const Tensor row = Tensor::copy_of(r.output.view().at(0, b).at(0, t));
      EXPECT_TRUE(same_bits(row, bias));
    }
  }
  EXPECT_TRUE(all_equal(r.log_sum_exp, kMinusInfinity));
}

// ---- Strides -----------------------------------------------------------------------------------

class StridedTensors : public ::testing::Test {
 protected:
  Tensor q_ = Tensor::normal({2, 7, 4, 5}, 1);
  Tensor k_ = Tensor::normal({2, 9, 2, 5}, 2);
  Tensor v_ = Tensor::normal({2, 9, 2, 6}, 3);
  Tensor plain_ = attention(q_, k_, v_).output;
};

// The same numbers, stored backwards along every axis.
Tensor reversed_storage(const Tensor& tensor) {
  Tensor out(tensor.shape());
  const auto from = tensor.values();
  const auto to = out.values();
  for (std::size_t i = 0; i < from.size(); ++i) to[to.size() - 1 - i] = from[i];
  return out;
}

template <typename T>
TensorView<T> reversed_view(T* data, const Shape& shape) {
  Strides strides = row_major_strides(shape);
  for (std::int64_t& stride : strides) stride = -stride;
  return TensorView<T>(data + shape.element_count() - 1, shape, strides);
}

TEST_F(StridedTensors, NegativeStrides) {
  const Tensor q = reversed_storage(q_);
  const Tensor k = reversed_storage(k_);
  const Tensor v = reversed_storage(v_);
  const AttentionResult r =
      attention(reversed_view(q.data(), q.shape()), reversed_view(k.data(), k.shape()),
                reversed_view(v.data(), v.shape()));
  EXPECT_TRUE(same_bits(r.output, plain_));
}

TEST_F(StridedTensors, NegativeStridesInTheOutput) {
  Tensor memory(plain_.shape());
  attention(q_, k_, v_, {.out = reversed_view(memory.data(), memory.shape())});
  EXPECT_TRUE(same_bits(reversed_storage(memory), plain_));
}

TEST_F(StridedTensors, HeadsFirstWithoutACopy) {
  const AttentionResult r =
      attention(q_.view().permuted({0, 2, 1, 3}), k_.view().permuted({0, 2, 1, 3}),
                v_.view().permuted({0, 2, 1, 3}), {.layout = Layout::HeadsFirst});
  EXPECT_TRUE(same_bits(Tensor::copy_of(r.output.view().permuted({0, 2, 1, 3})), plain_));
}

TEST_F(StridedTensors, LastAxisNotContiguous) {
  // (B, d, H, T) in memory.
  const Tensor q = Tensor::copy_of(q_.view().permuted({0, 3, 2, 1}));
  const Tensor v = Tensor::copy_of(v_.view().permuted({0, 3, 2, 1}));
  Tensor out({2, 6, 4, 7});
  attention(q.view().permuted({0, 3, 2, 1}), k_, v.view().permuted({0, 3, 2, 1}),
            {.out = out.view().permuted({0, 3, 2, 1})});
  EXPECT_TRUE(same_bits(Tensor::copy_of(out.view().permuted({0, 3, 2, 1})), plain_));
}

TEST_F(StridedTensors, PackedQkv) {
  // Query, key and value of self-attention side by side in one matrix, as one projection leaves them.
  const Tensor qkv = Tensor::normal({2, 7, 3, 4, 5}, 9);
  const ConstView q = qkv.view().at(2, 0);
  const ConstView k = qkv.view().at(2, 1);
  const ConstView v = qkv.view().at(2, 2);
  EXPECT_TRUE(
      same_bits(attention(q, k, v).output,
                attention(Tensor::copy_of(q), Tensor::copy_of(k), Tensor::copy_of(v)).output));
}

TEST_F(StridedTensors, BroadcastInputs) {
  // One key and value for every sequence of the batch: stride 0 is fine for what is only read.
  const ConstView k = k_.view().at(0, 1).broadcast(0, 2);
  const ConstView v = v_.view().at(0, 1).broadcast(0, 2);
  EXPECT_TRUE(same_bits(attention(q_, k, v).output,
                        attention(q_, Tensor::copy_of(k), Tensor::copy_of(v)).output));
}

TEST_F(StridedTensors, OutputLeavesItsGapsAlone) {
  Tensor memory = Tensor::full({2, 7, 4, 10}, -7.0F);
  const MutableView left = memory.view().sliced(3, 0, 6);
  attention(q_, k_, v_, {.out = left});
  EXPECT_TRUE(same_bits(Tensor::copy_of(left), plain_));
  EXPECT_TRUE(all_equal(Tensor::copy_of(memory.view().sliced(3, 6, 10)), -7.0F));
}

TEST_F(StridedTensors, LayerInputsAndOutput) {
  const AttentionConfig config{.num_heads = 2, .key_dim = 3, .query_features = 6};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 3));
  const Tensor x = Tensor::normal({2, 5, 6}, 1);
  const Tensor plain = layer.forward({.query = x}).output;
  const Tensor backwards = reversed_storage(x);
  const Tensor transposed = Tensor::copy_of(x.view().permuted({2, 0, 1}));
  Tensor out({6, 5, 2});
  (void)layer.forward({.query = reversed_view(backwards.data(), backwards.shape()),
                       .key = transposed.view().permuted({1, 2, 0}),
                       .value = x},
                      {.out = out.view().permuted({2, 1, 0})});
  EXPECT_TRUE(same_bits(Tensor::copy_of(out.view().permuted({2, 1, 0})), plain));
}

}  // namespace
}  // namespace headwise
