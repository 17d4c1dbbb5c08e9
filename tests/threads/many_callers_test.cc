// Many user threads on one layer at once: every one gets the bits of a single-threaded run.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::same_bits;

constexpr int kCallers = 8;
constexpr int kRounds = 4;

class ManyCallers : public ::testing::Test {
 protected:
  struct Outcome {
    AttentionResult forward;
    LayerGradients gradients;
  };

  // Every caller has another input, length and mask, so that mixed-up state would show. Large
  // enough that the library wakes threads of its own.
  [[nodiscard]] Outcome call(int caller, Context* context) const {
    const std::int64_t length = 90 + 7 * caller;
    const Tensor x = Tensor::normal({2, length, 24}, static_cast<std::uint64_t>(caller));
    const ForwardOptions options{
        .mask = causal() & valid_lengths({length, length - caller}),
        .bias = {Bias(shared_bias_.view().sliced(0, 0, length).sliced(1, 0, length))},
        .weights = all_weights(),
        .training = true,
        .dropout_seed = static_cast<std::uint64_t>(caller),
        .save_for_backward = true,
        .context = context};
    Outcome out{layer_.forward({.query = x}, options), {}};
    out.gradients =
        layer_.backward({.query = x}, out.forward, Tensor::normal(out.forward.output.shape(), 9),
                        options, {.bias_gradient = true});
    return out;
  }

  // All callers start together and go on for some rounds; counts results that differ.
  template <typename MakeContext>
  void run_together(MakeContext make_context) {
    std::vector<Outcome> expected;
    for (int caller = 0; caller < kCallers; ++caller) {
      Context one(1);
      expected.push_back(call(caller, &one));
    }
    std::atomic<int> wrong{0};
    std::atomic<int> thrown{0};
    std::barrier start(kCallers);
    std::vector<std::thread> threads;
    for (int caller = 0; caller < kCallers; ++caller) {
      threads.emplace_back([&, caller] {
        const std::unique_ptr<Context> context = make_context(caller);
        start.arrive_and_wait();
        try {
          for (int round = 0; round < kRounds; ++round) {
            const Outcome got = call(caller, context.get());
            const Outcome& want = expected[static_cast<std::size_t>(caller)];
            if (!same_bits(got.forward, want.forward)) ++wrong;
            if (!same_bits(got.gradients, want.gradients)) ++wrong;
          }
        } catch (...) {
          ++thrown;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(thrown, 0);
  }

  AttentionConfig config_{.num_heads = 4,
                          .num_kv_heads = 2,
                          .key_dim = 16,
                          .query_features = 24,
                          .dropout = 0.2F,
                          .use_gate = true,
                          .qk_norm = QkNorm::LayerNorm};
  MultiHeadAttention layer_{config_, AttentionWeights::glorot(config_, 3)};
  Tensor shared_bias_ = Tensor::normal({150, 150}, 11);
};

TEST_F(ManyCallers, EachWithItsOwnContext) {
  run_together([](int caller) { return std::make_unique<Context>(1 + caller % 3); });
}

TEST_F(ManyCallers, WithoutContexts) {
  run_together([](int) { return std::unique_ptr<Context>(); });
}

// The operation by itself, with inputs that all callers share.
TEST_F(ManyCallers, OnTheSameInputs) {
  const Tensor q = Tensor::normal({2, 40, 4, 8}, 1);
  const Tensor k = Tensor::normal({2, 300, 2, 8}, 2);
  const Tensor v = Tensor::normal({2, 300, 2, 8}, 3);
  const AttentionOptions options{.mask = valid_lengths({300, 123})};
  const Tensor expected = attention(q, k, v, options).output;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        if (!same_bits(attention(q, k, v, options).output, expected)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// Threads may also build, use and drop layers and contexts of their own side by side.
TEST_F(ManyCallers, MakingAndDroppingLayers) {
  const Tensor x = Tensor::normal({1, 9, 24}, 1);
  const Tensor expected = layer_.forward({.query = x}).output;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < kCallers; ++caller) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const MultiHeadAttention own(config_, layer_.weights());
        Context context(2);
        if (!same_bits(own.forward({.query = x}, {.context = &context}).output, expected)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace headwise
