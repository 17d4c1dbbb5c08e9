// Training needs memory that grows with T and S, never with T×S.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <vector>

#include "headwise/headwise.h"
#include "memory/allocation_counter.h"
#include "support/expect_bits.h"
#include "support/sanitizers.h"

namespace headwise {
namespace {

using test_support::live_bytes;
using test_support::peak_bytes;
using test_support::reset_peak;

constexpr std::int64_t kMega = 1 << 20;

std::int64_t bytes_of(const Tensor& tensor) {
  return tensor.size() * static_cast<std::int64_t>(sizeof(float));
}

double megabytes(std::int64_t bytes) { return static_cast<double>(bytes) / kMega; }

struct Peaks {
  std::int64_t forward = 0;   // beyond inputs and output
  std::int64_t backward = 0;  // beyond inputs, output and gradients
};

// One head of size 64, forward and backward with dropout, on two threads.
Peaks train_operation(std::int64_t length) {
  const Shape shape{1, length, 1, 64};
  const Tensor q = Tensor::normal(shape, 1);
  const Tensor k = Tensor::normal(shape, 2);
  const Tensor v = Tensor::normal(shape, 3);
  const Tensor gradient = Tensor::normal(shape, 4);
  Peaks peaks;
  const std::int64_t before = live_bytes();
  Context context(2);
  const AttentionOptions options{.dropout = {.probability = 0.1F, .seed = 5}, .context = &context};
  reset_peak();
  const AttentionResult r = attention(q, k, v, options);
  peaks.forward = peak_bytes() - before - bytes_of(r.output);
  reset_peak();
  const AttentionGradients g = attention_backward({q, k, v}, r, gradient, options);
  peaks.backward = peak_bytes() - before - bytes_of(r.output) - bytes_of(g.query) -
                   bytes_of(g.key) - bytes_of(g.value);
  EXPECT_TRUE(test_support::all_finite(r.output));
  EXPECT_TRUE(test_support::all_finite(g.key));
  return peaks;
}

TEST(LinearMemory, TrainingTheOperation) {
  const std::int64_t length = test_support::kSanitized ? 1024 : 8192;
  const Peaks peaks = train_operation(length);
  const std::int64_t matrix = length * length * static_cast<std::int64_t>(sizeof(float));
  std::printf(
      "T = S = %lld, 1 head, d = 64: peak extra memory %.2f MB forward, %.2f MB backward; "
      "one T×S matrix would be %.0f MB\n",
      static_cast<long long>(length), megabytes(peaks.forward), megabytes(peaks.backward),
      megabytes(matrix));
  EXPECT_LT(peaks.forward, 16 * kMega);
  EXPECT_LT(peaks.backward, 16 * kMega);
}

TEST(LinearMemory, TwiceTheLengthTwiceTheMemory) {
  const Peaks once = train_operation(1024);
  const Peaks twice = train_operation(2048);
  EXPECT_LT(static_cast<double>(twice.forward), 2.1 * static_cast<double>(once.forward));
  EXPECT_LT(static_cast<double>(twice.backward), 2.1 * static_cast<double>(once.backward));
}

TEST(LinearMemory, TrainingALayer) {
  const std::int64_t length = test_support::kSanitized ? 512 : 4096;
  const AttentionConfig config{
      .num_heads = 1, .key_dim = 64, .query_features = 64, .dropout = 0.1F};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 1));
  const Tensor x = Tensor::normal({1, length, 64}, 1);
  const Tensor gradient = Tensor::normal({1, length, 64}, 2);
  Context context(2);
  const ForwardOptions options{
      .mask = causal(), .training = true, .save_for_backward = true, .context = &context};
  const std::int64_t before = live_bytes();
  reset_peak();
  const AttentionResult r = layer.forward({.query = x}, options);
  const LayerGradients g = layer.backward({.query = x}, r, gradient, options);
  const std::int64_t extra = peak_bytes() - before;
  const std::int64_t matrix = length * length * static_cast<std::int64_t>(sizeof(float));
  std::printf(
      "layer at T = S = %lld, 1 head, d = 64: peak %.2f MB with results and gradients; "
      "one T×S matrix would be %.0f MB\n",
      static_cast<long long>(length), megabytes(extra), megabytes(matrix));
  // Inputs, projections, heads, output and their gradients are about 20 rows of 64 numbers a token.
  EXPECT_LT(extra, 4 * kMega + 40 * length * 64 * static_cast<std::int64_t>(sizeof(float)));
  EXPECT_TRUE(test_support::all_finite(g.weights.query_kernel));
}

// Selected rows, top-k and statistics do not make the whole matrix either.
TEST(LinearMemory, SummariesOfTheWeights) {
  const std::int64_t length = 2048;
  const Shape shape{1, length, 1, 16};
  const Tensor x = Tensor::normal(shape, 1);
  Context context(2);
  const std::int64_t before = live_bytes();
  reset_peak();
  const AttentionResult r = attention(
      x, x, x,
      {.weights = selected_weights({0}, {1, 100, 2047}) | top_k_weights(4) | weight_statistics(),
       .context = &context});
  const std::int64_t extra = peak_bytes() - before;
  std::printf("summaries of 2048 × 2048 weights: peak %.2f MB; all of them would be 16 MB\n",
              megabytes(extra));
  EXPECT_LT(extra, 8 * kMega);
  EXPECT_EQ(r.weights.shape(), Shape({1, 1, 3, length}));
}

// One long sequence among many short ones: what is packed follows their keys, not the longest one's.
TEST(LinearMemory, PackedBatchesOfUnequalLengths) {
  std::vector<std::int64_t> begins = {0};
  for (int i = 0; i < 300; ++i) begins.push_back(begins.back() + 1);
  begins.push_back(begins.back() + 2048);
  const Tensor x = Tensor::normal({begins.back(), 2, 64}, 1);
  Context context(2);
  (void)attention(x, x, x, {.packed = PackedLengths{begins, {}}, .context = &context});
  const auto scratch = static_cast<std::int64_t>(context.scratch_bytes());
  std::printf("300 sequences of 1 and one of 2048: scratch %.2f MB, keys and values %.2f MB\n",
              megabytes(scratch), megabytes(2 * bytes_of(x)));
  EXPECT_LT(scratch, 2 * 2 * bytes_of(x));
}

}  // namespace
}  // namespace headwise
