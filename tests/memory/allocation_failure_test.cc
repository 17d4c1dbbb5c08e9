// Every allocation of a call is refused once, one after the other: each time the call throws
// bad_alloc, the caller's output is untouched, nothing leaks, and the next call works.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <new>

#include "headwise/headwise.h"
#include "memory/allocation_counter.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"

namespace headwise {
namespace {

using test_support::FailNthAllocation;
using test_support::live_bytes;
using test_support::same_bits;
using test_support::SentinelOutput;

enum class End { Returned, OutOfMemory, OtherError };

// Nothing but the call itself may allocate while an allocation is to fail.
template <typename Call>
End with_failure(std::int64_t n, const Call& call) {
  const FailNthAllocation failure(n);
  try {
    call();
  } catch (const std::bad_alloc&) {
    return End::OutOfMemory;
  } catch (...) {
    return End::OtherError;
  }
  return End::Returned;
}

// call(out) with a caller's buffer. If `keeps_scratch`, what a Context holds on to is no leak.
template <typename Call>
void survive_every_failure(const char* name, const Tensor& expected, const Call& call,
                           bool keeps_scratch = false) {
  std::int64_t refused = 0;
  for (std::int64_t n = 1;; ++n) {
    ASSERT_LT(n, 10000) << "the call allocates without end";
    SentinelOutput out(expected.shape());
    const std::int64_t before = live_bytes();
    const End end = with_failure(n, [&] { call(out.view()); });
    if (!keeps_scratch) {
      EXPECT_EQ(live_bytes(), before) << "leaked when allocation " << n << " failed";
    }
    ASSERT_NE(end, End::OtherError) << "allocation " << n;
    if (end == End::Returned) {
      // Either all went through, or the library found another way.
      EXPECT_TRUE(same_bits(Tensor::copy_of(out.view()), expected)) << "allocation " << n;
      if (!FailNthAllocation::fired()) break;
      continue;
    }
    EXPECT_TRUE(out.untouched()) << "when allocation " << n << " failed";
    ++refused;
    SentinelOutput again(expected.shape());
    call(again.view());
    EXPECT_TRUE(same_bits(Tensor::copy_of(again.view()), expected)) << "after " << n;
  }
  EXPECT_GT(refused, 0);
  std::printf("%s: %lld allocations, each refused once\n", name, static_cast<long long>(refused));
}

class AllocationFailure : public ::testing::Test {
 protected:
  // Large enough that the library starts threads.
  Tensor q_ = Tensor::normal({2, 80, 4, 16}, 1);
  Tensor k_ = Tensor::normal({2, 300, 2, 16}, 2);
  Tensor bias_ = Tensor::normal({80, 300}, 3);
  Tensor cotangent_ = Tensor::normal({2, 80, 4, 16}, 4);

  [[nodiscard]] AttentionOptions options() const {
    return {.mask = causal(Alignment::BottomRight) & valid_lengths({300, 120}),
            .bias = {Bias(bias_)},
            .dropout = {.probability = 0.1F, .seed = 2},
            .weights = top_k_weights(3) | weight_statistics() | averaged_weights()};
  }

  AttentionConfig config_{.num_heads = 4,
                          .num_kv_heads = 2,
                          .key_dim = 16,
                          .query_features = 48,
                          .use_gate = true,
                          .qk_norm = QkNorm::RmsNorm,
                          .add_bias_kv = true};
  MultiHeadAttention layer_{config_, AttentionWeights::glorot(config_, 3)};
  Tensor x_ = Tensor::normal({2, 90, 48}, 5);
};

TEST_F(AllocationFailure, Operation) {
  const AttentionOptions base = options();
  const Tensor expected = attention(q_, k_, k_, base).output;
  survive_every_failure("attention", expected, [&](const MutableView& out) {
    Context context(2);
    AttentionOptions with_out = base;
    with_out.out = out;
    with_out.context = &context;
    attention(q_, k_, k_, with_out);
  });
}

TEST_F(AllocationFailure, OperationWithALastingContext) {
  Context context(3);
  AttentionOptions with_out = options();
  const Tensor expected = attention(q_, k_, k_, with_out).output;
  with_out.context = &context;
  survive_every_failure(
      "attention, same context", expected,
      [&](const MutableView& out) {
        with_out.out = out;
        attention(q_, k_, k_, with_out);
      },
      /*keeps_scratch=*/true);
}

TEST_F(AllocationFailure, Layer) {
  const ForwardOptions base{.mask = causal(), .weights = all_weights(), .save_for_backward = true};
  const Tensor expected = layer_.forward({.query = x_}, base).output;
  survive_every_failure("layer", expected, [&](const MutableView& out) {
    Context context(2);
    ForwardOptions with_out = base;
    with_out.out = out;
    with_out.context = &context;
    (void)layer_.forward({.query = x_}, with_out);
  });
}

TEST_F(AllocationFailure, CallsThatMakeTheirOwnContext) {
  const Tensor expected = attention(q_, k_, k_).output;
  survive_every_failure("attention without a context", expected,
                        [&](const MutableView& out) { attention(q_, k_, k_, {.out = out}); });
}

// ---- What has no buffer of the caller's --------------------------------------------------------

template <typename Call>
void leak_nothing(const char* name, const Call& call) {
  std::int64_t refused = 0;
  for (std::int64_t n = 1;; ++n) {
    ASSERT_LT(n, 10000) << "the call allocates without end";
    const std::int64_t before = live_bytes();
    const End end = with_failure(n, call);
    EXPECT_EQ(live_bytes(), before) << "leaked when allocation " << n << " failed";
    ASSERT_NE(end, End::OtherError) << "allocation " << n;
    if (end == End::OutOfMemory) ++refused;
    if (!FailNthAllocation::fired()) break;
  }
  EXPECT_GT(refused, 0);
  std::printf("%s: %lld allocations, each refused once\n", name, static_cast<long long>(refused));
}

TEST_F(AllocationFailure, OperationBackward) {
  AttentionOptions base = options();
  base.weights = no_weights();
  const AttentionResult r = attention(q_, k_, k_, base);
  leak_nothing("attention_backward", [&] {
    Context context(2);
    AttentionOptions with_context = base;
    with_context.context = &context;
    attention_backward({q_, k_, k_}, r, cotangent_, with_context, {.bias_gradient = true});
  });
}

TEST_F(AllocationFailure, LayerBackward) {
  const ForwardOptions base{.mask = causal(), .save_for_backward = true};
  const AttentionResult r = layer_.forward({.query = x_}, base);
  const Tensor cotangent = Tensor::normal(x_.shape(), 6);
  leak_nothing("layer backward", [&] { (void)layer_.backward({.query = x_}, r, cotangent, base); });
}

TEST_F(AllocationFailure, MakingALayer) {
  leak_nothing("making a layer", [&] {
    const MultiHeadAttention layer(config_, AttentionWeights::glorot(config_, 3));
    EXPECT_EQ(layer.config().num_heads, 4);
  });
}

// Before a call fails for want of memory, the context gives back what it holds.
TEST_F(AllocationFailure, RecycledMemoryIsGivenBackFirst) {
  const Tensor small = Tensor::normal({1, 100, 4, 64}, 1);
  const Tensor large = Tensor::normal({1, 200, 4, 64}, 1);
  Tensor out(large.shape());
  std::int64_t gave_back = 0;
  for (std::int64_t n = 1; n < 20; ++n) {
    Context context(1);
    (void)attention(large, large, large, {.out = out, .context = &context});  // makes the scratch
    { const AttentionResult dropped = attention(small, small, small, {.context = &context}); }
    ASSERT_GT(context.recycled_bytes(), 0U);
    AttentionResult result;
    const End end =
        with_failure(n, [&] { result = attention(large, large, large, {.context = &context}); });
    ASSERT_NE(end, End::OtherError);
    if (end == End::OutOfMemory || !FailNthAllocation::fired()) continue;
    EXPECT_EQ(context.recycled_bytes(), 0U);
    ++gave_back;
  }
  EXPECT_GT(gave_back, 0) << "the output's allocation failed, and succeeded when tried again";
}

}  // namespace
}  // namespace headwise
