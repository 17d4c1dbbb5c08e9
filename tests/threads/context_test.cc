// A Context brings threads and scratch, and never changes a bit of a result.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"
#include "support/expect_error.h"
#include "support/sanitizers.h"

namespace headwise {
namespace {

using test_support::has_error_form;
using test_support::same_bits;

struct Sizes {
  std::int64_t batch, queries, keys, heads, kv_heads;
};

// More tasks than threads, as many, fewer, one only, none.
const Sizes kSizes[] = {
    {3, 70, 300, 4, 2}, {1, 130, 520, 1, 1}, {2, 5, 7, 2, 1}, {1, 1, 1, 1, 1}, {1, 0, 4, 1, 1}};

struct OpOutcome {
  AttentionResult forward;
  AttentionGradients gradients;
};

OpOutcome run_op(const Sizes& n, Context* context) {
  const Tensor q = Tensor::normal({n.batch, n.queries, n.heads, 16}, 1);
  const Tensor k = Tensor::normal({n.batch, n.keys, n.kv_heads, 16}, 2);
  const Tensor v = Tensor::normal({n.batch, n.keys, n.kv_heads, 12}, 3);
  const AttentionOptions options{.mask = window(200, 100) & aligned(Alignment::BottomRight),
                                 .bias = {Bias(Tensor::normal({n.queries, n.keys}, 5))},
                                 .dropout = {.probability = 0.2F, .seed = 4},
                                 .weights = all_weights(),
                                 .context = context};
  OpOutcome out{attention(q, k, v, options), {}};
  out.gradients =
      attention_backward({q, k, v}, out.forward, Tensor::normal(out.forward.output.shape(), 6),
                         options, {.bias_gradient = true});
  return out;
}

struct LayerOutcome {
  AttentionResult forward;
  LayerGradients gradients;
};

LayerOutcome run_layer(const Sizes& n, Context* context) {
  const AttentionConfig config{.num_heads = n.heads,
                               .num_kv_heads = n.kv_heads,
                               .key_dim = 9,
                               .query_features = 33,
                               .dropout = 0.1F,
                               .use_gate = true,
                               .qk_norm = QkNorm::RmsNorm};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 3));
  const Tensor query = Tensor::normal({n.batch, n.queries, 33}, 1);
  const Tensor key = Tensor::normal({n.batch, n.keys, 33}, 2);
  const ForwardOptions options{.mask = causal(Alignment::BottomRight),
                               .weights = all_weights(),
                               .training = true,
                               .save_for_backward = true,
                               .context = context};
  LayerOutcome out{layer.forward({.query = query, .key = key}, options), {}};
  out.gradients = layer.backward({.query = query, .key = key}, out.forward,
                                 Tensor::normal(out.forward.output.shape(), 6), options);
  return out;
}

TEST(ContextThreads, CountIsWhatWasAskedFor) {
  EXPECT_EQ(Context(1).threads(), 1);
  EXPECT_EQ(Context(7).threads(), 7);
  EXPECT_GE(Context().threads(), 1);
}

TEST(ContextThreads, SameBitsForAnyCount) {
  for (const Sizes& n : kSizes) {
    Context one(1);
    const OpOutcome op = run_op(n, &one);
    const LayerOutcome layer = run_layer(n, &one);
    for (const int threads : {2, 3, 7}) {
      SCOPED_TRACE(threads);
      Context context(threads);
      const OpOutcome other = run_op(n, &context);
      EXPECT_TRUE(same_bits(other.forward, op.forward));
      EXPECT_TRUE(same_bits(other.gradients, op.gradients));
      const LayerOutcome other_layer = run_layer(n, &context);
      EXPECT_TRUE(same_bits(other_layer.forward, layer.forward));
      EXPECT_TRUE(same_bits(other_layer.gradients, layer.gradients));
    }
    const OpOutcome without = run_op(n, nullptr);
    EXPECT_TRUE(same_bits(without.forward, op.forward)) << "a context of the call's own";
    EXPECT_TRUE(same_bits(without.gradients, op.gradients));
  }
}

TEST(ContextThreads, LinearHasTheSameBitsToo) {
  const Tensor x = Tensor::normal({150, 70}, 1);
  const Tensor kernel = Tensor::normal({70, 90}, 2);
  const Tensor bias = Tensor::normal({90}, 3);
  Context one(1);
  const Tensor expected = linear(x, kernel, bias, &one);
  for (const int threads : {2, 3, 7}) {
    Context context(threads);
    EXPECT_TRUE(same_bits(linear(x, kernel, bias, &context), expected));
  }
}

TEST(ContextThreads, OneContextForManyShapes) {
  Context context(2);
  for (int round = 0; round < 2; ++round) {
    for (const Sizes& n : kSizes) {
      Context fresh(1);
      EXPECT_TRUE(same_bits(run_op(n, &context).forward, run_op(n, &fresh).forward));
      EXPECT_TRUE(same_bits(run_layer(n, &context).gradients, run_layer(n, &fresh).gradients));
    }
  }
}

TEST(ContextThreads, SurvivesAnErrorAndAMove) {
  Context context(2);
  const OpOutcome expected = run_op(kSizes[0], &context);
  const Tensor x = Tensor::normal({2, 3, 1, 4}, 1);
  EXPECT_THROW(attention(x, x, x, {.mask = valid_lengths({9, 9}), .context = &context}),
               ArgumentError);
  Context moved = std::move(context);
  EXPECT_EQ(moved.threads(), 2);
  EXPECT_TRUE(same_bits(run_op(kSizes[0], &moved).forward, expected.forward));
  Context assigned(1);
  assigned = std::move(moved);
  EXPECT_EQ(assigned.threads(), 2);
  EXPECT_TRUE(same_bits(run_op(kSizes[0], &assigned).forward, expected.forward));
}

// One call at a time: whoever arrives meanwhile is told so, and its output stays untouched.
TEST(ContextSharing, SecondCallerIsRefused) {
  Context shared(2);
  const Tensor big = Tensor::normal({1, 512, 4, 64}, 1);
  const Tensor small = Tensor::normal({1, 2, 1, 4}, 2);
  const Tensor expected = attention(small, small, small).output;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  const auto is_refusal = [](const ArgumentError& error) {
    return error.function() == "attention" && error.argument() == "options.context" &&
           has_error_form(error);
  };
  std::thread holder([&] {
    while (!stop) {
      try {
        attention(big, big, big, {.context = &shared});
      } catch (const ArgumentError& error) {
        if (!is_refusal(error)) ++wrong;
      }
    }
  });
  int refused = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (refused < 3 && std::chrono::steady_clock::now() < deadline) {
    test_support::SentinelOutput out(small.shape());
    try {
      attention(small, small, small, {.out = out.view(), .context = &shared});
      if (!same_bits(Tensor::copy_of(out.view()), expected)) ++wrong;
    } catch (const ArgumentError& error) {
      ++refused;
      if (!is_refusal(error) || !out.untouched()) ++wrong;
    }
  }
  stop = true;
  holder.join();
  EXPECT_GT(refused, 0) << "the two never met";
  EXPECT_EQ(wrong, 0);
  EXPECT_TRUE(same_bits(attention(small, small, small, {.context = &shared}).output, expected))
      << "usable again afterwards";
}

// ---- fork --------------------------------------------------------------------------------------

// Runs `body` in a forked child; true if it returned true there within 30 s.
template <typename Body>
bool in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);  // a child that waits for threads it does not have dies instead of hanging
    bool good = false;
    try {
      good = body();
    } catch (...) {
      good = false;
    }
    _exit(good ? 0 : 1);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class ContextFork : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test_support::kThreadSanitizer) {
      GTEST_SKIP() << "ThreadSanitizer does not support threads started after fork";
    }
  }
  Context context_{2};
  OpOutcome expected_ = run_op(kSizes[0], &context_);  // its threads are alive now
};

TEST_F(ContextFork, ChildWithoutAContext) {
  EXPECT_TRUE(in_child([&] {
    return static_cast<bool>(same_bits(run_op(kSizes[0], nullptr).forward, expected_.forward));
  }));
}

TEST_F(ContextFork, ChildWithAContextOfItsOwn) {
  EXPECT_TRUE(in_child([&] {
    Context own(3);
    const OpOutcome got = run_op(kSizes[0], &own);
    return same_bits(got.forward, expected_.forward) &&
           same_bits(got.gradients, expected_.gradients);
  }));
}

TEST_F(ContextFork, ChildWithTheParentsContext) {
  EXPECT_TRUE(in_child([&] {
    const OpOutcome got = run_op(kSizes[0], &context_);
    return same_bits(got.forward, expected_.forward) &&
           same_bits(got.gradients, expected_.gradients);
  }));
}

TEST_F(ContextFork, ChildDestroysTheParentsContext) {
  EXPECT_TRUE(in_child([&] {
    const Context mine = std::move(context_);
    return mine.threads() == 2;
  })) << "the destructor may not wait for threads that only the parent has";
}

TEST_F(ContextFork, ParentGoesOn) {
  EXPECT_TRUE(in_child([] { return true; }));
  EXPECT_TRUE(same_bits(run_op(kSizes[0], &context_).forward, expected_.forward));
}

}  // namespace
}  // namespace headwise
