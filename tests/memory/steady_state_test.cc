// Call after call with the same Context and output buffer: the scratch is reused, nothing grows.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>

#include "headwise/headwise.h"
#include "memory/allocation_counter.h"

namespace headwise {
namespace {

using test_support::allocation_count;
using test_support::live_bytes;
using test_support::peak_bytes;
using test_support::reset_peak;

struct Cost {
  std::int64_t allocations = 0;
  std::int64_t bytes = 0;  // at the peak, beyond what was there before
};

template <typename Call>
Cost cost_of(const Call& call) {
  const std::int64_t count = allocation_count();
  const std::int64_t before = live_bytes();
  reset_peak();
  call();
  return {allocation_count() - count, peak_bytes() - before};
}

// The second call of `call` may only allocate what it returns.
template <typename Call>
void expect_steady(const char* name, Context& context, std::int64_t result_bytes,
                   const Call& call) {
  const Cost first = cost_of(call);
  const std::size_t scratch = context.scratch_bytes();
  const std::int64_t live = live_bytes();
  const Cost second = cost_of(call);
  std::printf(
      "%s: first call %lld allocations, %lld bytes; second %lld allocations, %lld bytes; "
      "scratch %zu bytes\n",
      name, static_cast<long long>(first.allocations), static_cast<long long>(first.bytes),
      static_cast<long long>(second.allocations), static_cast<long long>(second.bytes),
      context.scratch_bytes());
  EXPECT_EQ(second.allocations, 3) << "log_sum_exp, row_reference and row_sum, and nothing else";
  EXPECT_LE(second.bytes, result_bytes + 3 * 64);  // what the allocator rounds up
  for (int i = 0; i < 5; ++i) call();
  EXPECT_EQ(context.scratch_bytes(), scratch) << "the scratch must not grow";
  EXPECT_EQ(live_bytes(), live) << "nothing stays behind";
}

TEST(SteadyState, Operation) {
  const Tensor q = Tensor::normal({2, 100, 4, 32}, 1);
  const Tensor k = Tensor::normal({2, 300, 2, 32}, 2);
  Tensor out(q.shape());
  Context context(2);
  const AttentionOptions options{
      .mask = valid_lengths({300, 200}), .out = out, .context = &context};
  // log_sum_exp, row_reference and row_sum.
  const std::int64_t result_bytes = 3 * 2 * 4 * 100 * 4;
  expect_steady("attention", context, result_bytes, [&] { attention(q, k, k, options); });
}

TEST(SteadyState, Layer) {
  const AttentionConfig config{.num_heads = 4, .key_dim = 32, .query_features = 128};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 1));
  const Tensor x = Tensor::normal({2, 100, 128}, 1);
  Tensor out(x.shape());
  Context context(2);
  const ForwardOptions options{.mask = causal(), .out = out, .context = &context};
  const std::int64_t result_bytes = 3 * 2 * 4 * 100 * 4;
  expect_steady("layer", context, result_bytes,
                [&] { (void)layer.forward({.query = x}, options); });
}

// Large tensors come back from those that the step before dropped.
TEST(SteadyState, TrainingSteps) {
  const AttentionConfig config{.num_heads = 4, .key_dim = 32, .query_features = 128};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 1));
  const Tensor x = Tensor::normal({2, 256, 128}, 1);
  Context context(2);
  const ForwardOptions options{.save_for_backward = true, .context = &context};
  const auto step = [&] {
    const AttentionResult result = layer.forward({.query = x}, options);
    (void)layer.backward({.query = x}, result, x, options);
  };
  const Cost first = cost_of(step);
  step();
  const std::int64_t live = live_bytes();
  const Cost later = cost_of(step);
  std::printf("training step: first %lld bytes, later %lld\n", static_cast<long long>(first.bytes),
              static_cast<long long>(later.bytes));
  EXPECT_GT(first.bytes, 8 * 2 * 256 * 128 * 4) << "saved activations and gradients";
  EXPECT_LT(later.bytes, 64 * 1024) << "small tensors only";
  EXPECT_EQ(live_bytes(), live);
}

TEST(SteadyState, SmallerCallsFitTheScratchOfLargerOnes) {
  Context context(2);
  const Tensor large = Tensor::normal({1, 400, 2, 32}, 1);
  const Tensor small = Tensor::normal({1, 50, 2, 32}, 1);
  attention(large, large, large, {.context = &context});
  const std::size_t scratch = context.scratch_bytes();
  attention(small, small, small, {.context = &context});
  EXPECT_EQ(context.scratch_bytes(), scratch);
}

TEST(SteadyState, CallsWithoutAContextLeaveNothing) {
  const Tensor x = Tensor::normal({1, 400, 4, 32}, 1);
  attention(x, x, x);
  const std::int64_t live = live_bytes();
  for (int i = 0; i < 3; ++i) attention(x, x, x);
  EXPECT_EQ(live_bytes(), live);
}

}  // namespace
}  // namespace headwise
