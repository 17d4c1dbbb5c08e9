// The memory of dropped results comes back in the next ones of the same size, as zeros.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "headwise/attention.h"
#include "headwise/context.h"
#include "runtime/context_state.h"
#include "support/expect_bits.h"
#include "support/sanitizers.h"
#include "tensor/recycled_memory.h"

namespace headwise {
namespace {

using test_support::same_bits;

struct Step {
  Tensor query = Tensor::normal({2, 4, 128, 64}, 1);
  Tensor key = Tensor::normal({2, 4, 128, 64}, 2);
  Tensor value = Tensor::normal({2, 4, 128, 64}, 3);

  [[nodiscard]] AttentionResult forward(Context* context) const {
    AttentionOptions options;
    options.layout = Layout::HeadsFirst;
    options.context = context;
    return attention(query, key, value, options);
  }
  [[nodiscard]] AttentionGradients backward(const AttentionResult& result, Context* context) const {
    AttentionOptions options;
    options.layout = Layout::HeadsFirst;
    options.context = context;
    return attention_backward({query, key, value}, result, query, options);
  }
};
constexpr std::size_t kOutputBytes = std::size_t{2} * 4 * 128 * 64 * sizeof(float);

TEST(RecycledMemory, ComesBackInTheNextResult) {
  const Step step;
  Context context(1);
  const float* first = nullptr;
  {
    const AttentionResult result = step.forward(&context);
    first = result.output.data();
    EXPECT_EQ(context.recycled_bytes(), 0U) << "the result still has it";
  }
  EXPECT_EQ(context.recycled_bytes(), kOutputBytes);
  const AttentionResult result = step.forward(&context);
  EXPECT_EQ(result.output.data(), first);
  EXPECT_EQ(context.recycled_bytes(), 0U);
}

// Gradients are added up in place: what an earlier step left there may not show.
TEST(RecycledMemory, StepsHaveTheSameBits) {
  const Step step;
  Context context(2);
  const AttentionResult result = step.forward(&context);
  const AttentionGradients fresh = step.backward(result, nullptr);
  for (int round = 0; round < 3; ++round) {
    const AttentionGradients again = step.backward(result, &context);
    EXPECT_TRUE(same_bits(again.query, fresh.query));
    EXPECT_TRUE(same_bits(again.key, fresh.key));
    EXPECT_TRUE(same_bits(again.value, fresh.value));
  }
  EXPECT_GT(context.recycled_bytes(), 0U) << "or the rounds proved nothing";
}

TEST(RecycledMemory, ResultsOutliveTheContext) {
  const Step step;
  std::optional<Context> context(std::in_place, 1);
  const AttentionResult kept = step.forward(&*context);
  const Tensor copy = kept.output;
  context.reset();
  EXPECT_TRUE(same_bits(kept.output, copy));
}

void* block(std::size_t bytes) {
  return ::operator new (bytes, std::align_val_t{detail::kTensorAlignment});
}
constexpr std::size_t kMegabyte = std::size_t{1} << 20U;

TEST(RecycledMemory, TheOldestGoesWhenThereIsTooMuch) {
  detail::RecycledMemory store;
  void* blocks[3] = {block(100 * kMegabyte), block(101 * kMegabyte), block(102 * kMegabyte)};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(store.give(blocks[i], (100 + static_cast<std::size_t>(i)) * kMegabyte));
  }
  EXPECT_EQ(store.bytes(), 203 * kMegabyte);
  EXPECT_EQ(store.take(100 * kMegabyte), nullptr);
  EXPECT_EQ(store.take(101 * kMegabyte), blocks[1]);
  EXPECT_EQ(store.take(101 * kMegabyte), nullptr) << "given out once";
  ::operator delete (blocks[1], std::align_val_t{detail::kTensorAlignment});
}

TEST(RecycledMemory, TooSmallAndTooLargeAreNotKept) {
  detail::RecycledMemory store;
  float small = 0.0F;  // never touched, so anything will do
  EXPECT_FALSE(store.give(&small, sizeof small));
  EXPECT_FALSE(store.give(&small, 257 * kMegabyte));
  EXPECT_EQ(store.bytes(), 0U);
}

TEST(RecycledMemory, KeepsSoManyBlocks) {
  constexpr std::size_t kBytes = kMegabyte / 16;
  detail::RecycledMemory store;
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(store.give(block(kBytes), kBytes));
  EXPECT_EQ(store.bytes(), 32 * kBytes);
}

TEST(RecycledMemory, NothingStaysWhenTheContextIsGone) {
  const Step step;
  std::optional<Context> context(std::in_place, 1);
  const std::shared_ptr<detail::RecycledMemory> store = context->state()->recycled;
  std::optional<AttentionResult> kept = step.forward(&*context);
  { const AttentionResult dropped = step.forward(&*context); }
  EXPECT_EQ(store->bytes(), kOutputBytes);
  context.reset();
  EXPECT_EQ(store->bytes(), 0U);
  kept.reset();
  EXPECT_EQ(store->bytes(), 0U) << "closed";
}

// A child may inherit a store that a thread of its parent was changing at that moment.
TEST(RecycledMemory, SurvivesAForkAtAnyMoment) {
  if (test_support::kSanitized) GTEST_SKIP() << "sanitizers do not expect a fork amid allocations";
  constexpr std::size_t kBytes = detail::RecycledMemory::kSmallest;
  auto store = std::make_unique<detail::RecycledMemory>();
  std::atomic<bool> stop{false};
  std::thread busy([&] {
    while (!stop) {
      for (int i = 0; i < 4; ++i) {
        void* memory = block(kBytes);
        if (!store->give(memory, kBytes)) {
          ::operator delete (memory, std::align_val_t{detail::kTensorAlignment});
        }
      }
      void* taken = store->take(kBytes);
      ::operator delete (taken, std::align_val_t{detail::kTensorAlignment});
    }
  });
  int failed = 0;
  for (int round = 0; round < 200; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      store.reset();
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    failed += status == 0 ? 0 : 1;
  }
  stop = true;
  busy.join();
  EXPECT_EQ(failed, 0);
}

TEST(RecycledMemory, DroppedOnManyThreads) {
  const Step step;
  Context context(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<AttentionResult> results;
    for (int i = 0; i < 4; ++i) results.push_back(step.forward(&context));
    std::vector<std::thread> threads;
    for (AttentionResult& result : results) {
      threads.emplace_back([dropped = std::move(result)] { EXPECT_GT(dropped.output.size(), 0); });
    }
    for (std::thread& thread : threads) thread.join();
  }
  // Whoever found the store in use gave its memory to the system instead.
  EXPECT_LE(context.recycled_bytes(), 4 * kOutputBytes);
}

}  // namespace
}  // namespace headwise
