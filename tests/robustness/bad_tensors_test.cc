// Tensors that cannot be used: each is one clear error, and the caller's output stays as it was.
// Read-only outputs and wrong element types do not even compile; that is asserted here too.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::refuses;
using test_support::same_bits;
using test_support::SentinelOutput;

// ---- What the types forbid -------------------------------------------------------------------

template <typename Out>
concept AcceptedAsOut = requires(AttentionOptions& options, ForwardOptions& forward, Out out) {
  options.out = out;
  forward.out = out;
};
static_assert(AcceptedAsOut<MutableView>);
static_assert(!AcceptedAsOut<ConstView>, "a read-only buffer is no output");
static_assert(!AcceptedAsOut<const Tensor&>, "nor is a const tensor");
static_assert(!AcceptedAsOut<TensorView<std::int64_t>>);
static_assert(!std::is_convertible_v<ConstView, MutableView>);
static_assert(std::is_convertible_v<MutableView, ConstView>);

static_assert(std::is_invocable_v<decltype(&keep), BoolTensor, std::optional<Axes>>);
static_assert(!std::is_invocable_v<decltype(&keep), Tensor, std::optional<Axes>>,
              "floats are never a keep mask");
static_assert(!std::is_invocable_v<decltype(&keep), IndexTensor, std::optional<Axes>>);
static_assert(std::is_constructible_v<Bias, Tensor>);
static_assert(!std::is_constructible_v<Bias, BoolTensor>, "bools are never a bias");
static_assert(!std::is_convertible_v<Tensor, Bias>, "nor is a tensor a bias unless it says so");
static_assert(!std::is_convertible_v<BoolTensor, Mask>, "nor a mask");
static_assert(std::is_invocable_v<decltype(&valid_lengths), IndexTensor>);
static_assert(!std::is_invocable_v<decltype(&valid_lengths), Tensor>);
static_assert(
    !std::is_invocable_v<decltype(&attention), IndexTensor, Tensor, Tensor, AttentionOptions>);

// ---- Views -----------------------------------------------------------------------------------

TEST(BadView, MisalignedPointer) {
  std::vector<float> memory(8);
  // Only the address is formed; nothing is ever read through it.
  const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
  for (std::uintptr_t shift = 1; shift < alignof(float); ++shift) {
    const auto* misaligned = reinterpret_cast<const float*>(address + shift);
    EXPECT_TRUE(refuses([&] { ConstView(misaligned, {4}); }, "TensorView", "data"));
  }
}

TEST(BadView, NullDataWithElements) {
  const float* nothing = nullptr;
  EXPECT_TRUE(refuses([&] { ConstView(nothing, {2, 3}); }, "TensorView", "data"));
  EXPECT_NO_THROW(ConstView(nothing, {2, 0, 3})) << "no elements, so nothing to point at";
}

TEST(BadView, StridesLeaveTheAddressSpace) {
  std::vector<float> memory(8);
  const std::int64_t huge = std::int64_t{1} << 60;
  EXPECT_TRUE(refuses([&] { ConstView(memory.data(), {8}, {huge}); }, "TensorView", "strides"));
  EXPECT_TRUE(refuses([&] { ConstView(memory.data(), {8}, {-huge}); }, "TensorView", "strides"));
  EXPECT_TRUE(refuses(
      [&] {
        ConstView(memory.data(), {3, 3}, {huge, huge});
      },
      "TensorView", "strides"));
  EXPECT_NO_THROW(ConstView(memory.data(), {1, 8}, {huge, 1})) << "a stride that is never taken";
}

TEST(BadView, ProductOfExtentsOverflows) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(refuses([] { (void)Shape({kMax, 2}); }, "Shape", "extents"));
  EXPECT_TRUE(refuses(
      [] {
        (void)Shape({std::int64_t{1} << 32, std::int64_t{1} << 31});
      },
      "Shape", "extents"));
  EXPECT_TRUE(refuses([] { (void)Tensor({kMax, kMax, kMax}); }, "Shape", "extents"));
}

TEST(BadView, BytesOverflow) {
  // The count fits an int64, its bytes do not fit a size_t: never a small buffer by wrap-around.
  EXPECT_THROW(Tensor({std::numeric_limits<std::int64_t>::max()}), std::bad_alloc);
}

TEST(BadView, HugeExtentsBesideAnEmptyOne) {
  // The product is 0 and fits, but strides would overflow on the way: refuse it or hold nothing.
  const std::int64_t huge = std::int64_t{1} << 40;
  for (int empty_axis = 0; empty_axis < 3; ++empty_axis) {
    std::int64_t extents[3] = {huge, huge, huge};
    extents[empty_axis] = 0;
    try {
      const Tensor tensor{Shape(extents)};
      EXPECT_EQ(tensor.size(), 0);
      EXPECT_EQ(tensor.view().size(), 0);
    } catch (const ArgumentError& error) {
      EXPECT_TRUE(test_support::has_error_form(error)) << error.what();
    }
  }
}

// ---- The output of the operation -------------------------------------------------------------

constexpr std::int64_t kBatch = 2, kQueries = 3, kKeys = 5, kHeads = 4, kDim = 6;

class BadTensors : public ::testing::Test {
 protected:
  Tensor q_ = Tensor::normal({kBatch, kQueries, kHeads, kDim}, 1);
  Tensor k_ = Tensor::normal({kBatch, kKeys, kHeads, kDim}, 2);
  Tensor v_ = Tensor::normal({kBatch, kKeys, kHeads, kDim}, 3);
  AttentionConfig config_{.num_heads = 4, .key_dim = 6, .query_features = 8};
  MultiHeadAttention layer_{config_, AttentionWeights::glorot(config_, 7)};
  Tensor x_ = Tensor::normal({kBatch, kKeys, 8}, 4);
};

TEST_F(BadTensors, OutputOverlapsAnInput) {
  const Tensor q = q_;
  const Tensor k = k_;
  const Tensor v = v_;
  const Shape shape{kBatch, kQueries, kHeads, kDim};
  const auto with_out = [&](const MutableView& out) { attention(q_, k_, v_, {.out = out}); };
  EXPECT_TRUE(refuses([&] { with_out(q_); }, "attention", "options.out"));
  EXPECT_TRUE(
      refuses([&] { with_out(k_.view().sliced(1, 0, kQueries)); }, "attention", "options.out"));
  EXPECT_TRUE(
      refuses([&] { with_out(v_.view().sliced(1, 2, 2 + kQueries)); }, "attention", "options.out"));
  // Sharing a single number is sharing.
  Tensor both({q_.size() * 2 - 1});
  const ConstView first(both.data(), shape);
  const MutableView second(both.data() + q_.size() - 1, shape);
  EXPECT_TRUE(
      refuses([&] { attention(first, k_, v_, {.out = second}); }, "attention", "options.out"));
  EXPECT_TRUE(same_bits(q, q_));
  EXPECT_TRUE(same_bits(k, k_));
  EXPECT_TRUE(same_bits(v, v_));
}

TEST_F(BadTensors, OutputBesideAnInputIsFine) {
  Tensor both({q_.size() * 2});
  std::memcpy(both.data(), q_.data(), static_cast<std::size_t>(q_.size()) * sizeof(float));
  const MutableView behind(both.data() + q_.size(), q_.shape());
  const ConstView front(both.data(), q_.shape());
  attention(front, k_, v_, {.out = behind});
  EXPECT_TRUE(same_bits(Tensor::copy_of(behind), attention(q_, k_, v_).output));
}

TEST_F(BadTensors, OutputOverlapsAMaskOrBias) {
  // Lying inside a bias that is read while the output is written.
  Tensor bias({kQueries, kKeys * 100});
  const MutableView inside(bias.data(), {kBatch, kQueries, kHeads, kDim});
  const ConstView read(bias.data(), {kQueries, kKeys});
  EXPECT_TRUE(refuses([&] { attention(q_, k_, v_, {.bias = {Bias(read)}, .out = inside}); },
                      "attention", "options.out"));
}

TEST_F(BadTensors, LayerOutputOverlapsAnInput) {
  const Tensor x = x_;
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_}, {.out = x_}); },
                      "MultiHeadAttention::forward", "options.out"));
  Tensor value = Tensor::normal({kBatch, kKeys, 8}, 5);
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_, .value = value}, {.out = value}); },
                      "MultiHeadAttention::forward", "options.out"));
  EXPECT_TRUE(same_bits(x, x_));
}

TEST_F(BadTensors, OutputAxisOfStrideZero) {
  SentinelOutput out({kBatch, kQueries, kHeads, kDim});
  const Strides same_row_twice{0, kHeads * kDim, kDim, 1};
  const MutableView overlapping(out.view().data(), {kBatch, kQueries, kHeads, kDim},
                                same_row_twice);
  EXPECT_TRUE(
      refuses([&] { attention(q_, k_, v_, {.out = overlapping}); }, "attention", "options.out"));
  SentinelOutput layer_out({kBatch, kKeys, 8});
  const MutableView layer_overlapping(layer_out.view().data(), {kBatch, kKeys, 8}, {0, 8, 1});
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_}, {.out = layer_overlapping}); },
                      "MultiHeadAttention::forward", "options.out"));
  EXPECT_TRUE(out.untouched());
  EXPECT_TRUE(layer_out.untouched());
}

TEST_F(BadTensors, OutputRowsThatOverlapEachOther) {
  SentinelOutput out({kBatch, kQueries, kHeads, kDim});
  const Strides half_a_row{kQueries * kHeads * kDim, kHeads * kDim / 2, kDim, 1};
  const MutableView overlapping(out.view().data(), {kBatch, kQueries, kHeads, kDim}, half_a_row);
  EXPECT_TRUE(
      refuses([&] { attention(q_, k_, v_, {.out = overlapping}); }, "attention", "options.out"));
  EXPECT_TRUE(out.untouched());
}

TEST_F(BadTensors, OutputOfWrongShape) {
  for (const Shape& shape :
       {Shape{kBatch, kQueries, kHeads, kDim + 1}, Shape{kBatch, kQueries + 1, kHeads, kDim},
        Shape{kBatch, kHeads, kQueries, kDim}, Shape{kQueries, kHeads, kDim}, Shape{0}}) {
    SentinelOutput out(shape);
    EXPECT_TRUE(refuses([&] { attention(q_, k_, v_, {.out = out.view()}); }, "attention",
                        "options.out", shape.to_string()));
    EXPECT_TRUE(out.untouched());
  }
  SentinelOutput out({kBatch, kKeys, 9});
  EXPECT_TRUE(refuses([&] { (void)layer_.forward({.query = x_}, {.out = out.view()}); },
                      "MultiHeadAttention::forward", "options.out", "(2, 5, 9)"));
  EXPECT_TRUE(out.untouched());
}

// ---- Inputs that do not go together ----------------------------------------------------------

TEST_F(BadTensors, InputsThatDoNotGoTogether) {
  SentinelOutput out({kBatch, kQueries, kHeads, kDim});
  const AttentionOptions options{.out = out.view()};
  const auto with = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return [&] { attention(q, k, v, options); };
  };
  const auto like = [](std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
    return Tensor({b, t, h, d});
  };
  const Tensor other_batch = like(kBatch + 1, kKeys, kHeads, kDim);
  const Tensor other_dim = like(kBatch, kKeys, kHeads, kDim + 1);
  const Tensor other_keys = like(kBatch, kKeys + 1, kHeads, kDim);
  const Tensor other_heads = like(kBatch, kKeys, kHeads / 2, kDim);
  EXPECT_TRUE(refuses(with(q_, other_batch, other_batch), "attention", "key"));
  EXPECT_TRUE(refuses(with(q_, other_dim, v_), "attention", "key"));
  EXPECT_TRUE(refuses(with(q_, k_, other_keys), "attention", "value"));
  EXPECT_TRUE(refuses(with(q_, k_, other_heads), "attention", "value"));
  EXPECT_TRUE(refuses(with(q_, k_, other_batch), "attention", "value"));
  EXPECT_TRUE(refuses(with(Tensor({kQueries, kDim}), k_, v_), "attention", "query"));
  EXPECT_TRUE(refuses(with(q_, Tensor({kKeys, kHeads, kDim}), v_), "attention", "key"));
  EXPECT_TRUE(refuses(with(q_, k_, Tensor({kKeys, kHeads, kDim})), "attention", "value"));
  EXPECT_TRUE(refuses([&] { attention({}, k_, v_, options); }, "attention", "query"));
  EXPECT_TRUE(refuses([&] { attention(q_, {}, v_, options); }, "attention", "key"));
  EXPECT_TRUE(refuses([&] { attention(q_, k_, {}, options); }, "attention", "value"));
  EXPECT_TRUE(out.untouched());
}

TEST_F(BadTensors, LayerInputsThatDoNotGoTogether) {
  SentinelOutput out({kBatch, kKeys, 8});
  const auto with = [&](const ConstView& q, const ConstView& k, const ConstView& v) {
    (void)layer_.forward({.query = q, .key = k, .value = v}, {.out = out.view()});
  };
  const char* function = "MultiHeadAttention::forward";
  const Tensor other_features({kBatch, kKeys, 9});
  const Tensor other_keys({kBatch, kKeys + 1, 8});
  const Tensor other_batch({kBatch + 1, kKeys, 8});
  const Tensor rank_four({kBatch, kKeys, 2, 4});
  EXPECT_TRUE(refuses([&] { with(other_features, x_, x_); }, function, "query"));
  EXPECT_TRUE(refuses([&] { with(x_, other_features, x_); }, function, "key"));
  EXPECT_TRUE(refuses([&] { with(x_, x_, other_features); }, function, "value"));
  EXPECT_TRUE(refuses([&] { with(x_, x_, other_keys); }, function, "value"));
  EXPECT_TRUE(refuses([&] { with(x_, other_batch, other_batch); }, function, "key"));
  EXPECT_TRUE(refuses([&] { with(x_, x_, other_batch); }, function, "value"));
  EXPECT_TRUE(refuses([&] { with(rank_four, x_, x_); }, function, "query"));
  EXPECT_TRUE(refuses([&] { with({}, x_, x_); }, function, "query"));
  EXPECT_TRUE(out.untouched());
}

TEST_F(BadTensors, GradientOfWrongShape) {
  const AttentionResult r = attention(q_, k_, v_);
  const Tensor gradient({kBatch, kQueries, kHeads, kDim + 1});
  EXPECT_TRUE(refuses(
      [&] {
        attention_backward({q_, k_, v_}, r, gradient);
      },
      "attention_backward", "output_gradient"));
  const AttentionResult saved = layer_.forward({.query = x_}, {.save_for_backward = true});
  EXPECT_TRUE(refuses(
      [&] {
        (void)layer_.backward({.query = x_}, saved, Tensor({kBatch, kKeys, 9}));
      },
      "MultiHeadAttention::backward", "output_gradient"));
}

TEST_F(BadTensors, LinearOfWrongShape) {
  const Tensor kernel({8, 3});
  EXPECT_TRUE(refuses([&] { linear(x_, Tensor({7, 3})); }, "linear", "kernel"));
  EXPECT_TRUE(refuses([&] { linear(x_, Tensor({8})); }, "linear", "kernel"));
  EXPECT_TRUE(refuses([&] { linear(x_, kernel, Tensor({4})); }, "linear", "bias"));
  EXPECT_TRUE(refuses([&] { linear({}, kernel); }, "linear", "input"));
}

TEST_F(BadTensors, LinearBackwardOfWrongShape) {
  const Tensor kernel({8, 3});
  const Tensor gradient({kBatch, kKeys, 3});
  const auto call = [&](const ConstView& x, const ConstView& w, const ConstView& dy) {
    return [&] { (void)linear_backward(x, w, dy); };
  };
  constexpr const char* function = "linear_backward";
  EXPECT_TRUE(refuses(call(x_, Tensor({7, 3}), gradient), function, "kernel"));
  EXPECT_TRUE(refuses(call(x_, Tensor({8}), gradient), function, "kernel"));
  EXPECT_TRUE(refuses(call({}, kernel, gradient), function, "input"));
  EXPECT_TRUE(refuses(call(x_, kernel, x_), function, "output_gradient"));
  EXPECT_TRUE(refuses(call(x_, kernel, {}), function, "output_gradient"));
}

}  // namespace
}  // namespace headwise
