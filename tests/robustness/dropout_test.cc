// Dropout is a function of (seed, sequence id, head, query position, key) and of nothing else.
// With V the identity, the output is the matrix of dropped weights itself.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::same_bits;

struct Sizes {
  std::int64_t b = 1, t = 1, h = 1, s = 1;
};

// (B,S,H,S): V of every sequence and head is the identity.
Tensor identity_values(const Sizes& n) {
  Tensor v({n.b, n.s, n.h, n.s});
  for (std::int64_t b = 0; b < n.b; ++b) {
    for (std::int64_t s = 0; s < n.s; ++s) {
      for (std::int64_t h = 0; h < n.h; ++h) v.view()(b, s, h, s) = 1.0F;
    }
  }
  return v;
}

// Dropped weights (B,T,H,S) where every weight was 1/S before.
Tensor dropped_uniform(const Sizes& n, const Dropout& dropout, Context* context = nullptr) {
  return attention(Tensor({n.b, n.t, n.h, 1}), Tensor({n.b, n.s, n.h, 1}), identity_values(n),
                   {.dropout = dropout, .context = context})
      .output;
}

// ---- Statistics --------------------------------------------------------------------------------

class DropoutStatistics : public ::testing::TestWithParam<float> {
 protected:
  static constexpr Sizes kSizes{.b = 4, .t = 64, .h = 4, .s = 300};
  double p_ = static_cast<double>(GetParam());
  Tensor dropped_ = dropped_uniform(kSizes, {.probability = GetParam(), .seed = 12});
  double count_ = static_cast<double>(dropped_.size());

  // 1 if kept, 0 if dropped.
  [[nodiscard]] double kept(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t s) const {
    return dropped_.view()(b, t, h, s) != 0.0F ? 1.0 : 0.0;
  }
  // Correlation of an entry with the one a step away; independent entries give about ±1/√n.
  [[nodiscard]] double correlation(const Sizes& step) const {
    double sum = 0.0;
    double pairs = 0.0;
    for (std::int64_t b = 0; b + step.b < kSizes.b; ++b) {
      for (std::int64_t t = 0; t + step.t < kSizes.t; ++t) {
        for (std::int64_t h = 0; h + step.h < kSizes.h; ++h) {
          for (std::int64_t s = 0; s + step.s < kSizes.s; ++s) {
            sum += (kept(b, t, h, s) - (1.0 - p_)) *
                   (kept(b + step.b, t + step.t, h + step.h, s + step.s) - (1.0 - p_));
            pairs += 1.0;
          }
        }
      }
    }
    return sum / pairs / (p_ * (1.0 - p_)) * std::sqrt(pairs);  // in standard deviations
  }
};

TEST_P(DropoutStatistics, KeptFraction) {
  double kept_count = 0.0;
  for (const float x : dropped_.values()) kept_count += x != 0.0F ? 1.0 : 0.0;
  const double deviation = std::sqrt(p_ * (1.0 - p_) / count_);
  EXPECT_NEAR(kept_count / count_, 1.0 - p_, 5.0 * deviation);
}

TEST_P(DropoutStatistics, KeptEntriesAreScaledAndTheMeanPreserved) {
  const double scaled = 1.0 / static_cast<double>(kSizes.s) / (1.0 - p_);
  double sum = 0.0;
  for (const float x : dropped_.values()) {
    if (x != 0.0F) {
      ASSERT_NEAR(static_cast<double>(x) / scaled, 1.0, 1e-5);
    }
    sum += static_cast<double>(x);
  }
  const double deviation = scaled * std::sqrt(p_ * (1.0 - p_) / count_);
  EXPECT_NEAR(sum / count_, 1.0 / static_cast<double>(kSizes.s), 5.0 * deviation);
}

TEST_P(DropoutStatistics, NeighboursAreIndependent) {
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 0, .h = 0, .s = 1})), 5.0) << "keys";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 0, .h = 0, .s = 4})), 5.0) << "keys, 4 apart";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 0, .h = 0, .s = 16})), 5.0) << "keys, 16 apart";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 0, .h = 0, .s = 256})), 5.0) << "key blocks";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 1, .h = 0, .s = 0})), 5.0) << "queries";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 1, .h = 0, .s = 1})), 5.0) << "diagonals";
  EXPECT_LT(std::abs(correlation({.b = 0, .t = 0, .h = 1, .s = 0})), 5.0) << "heads";
  EXPECT_LT(std::abs(correlation({.b = 1, .t = 0, .h = 0, .s = 0})), 5.0) << "sequences";
}

INSTANTIATE_TEST_SUITE_P(Probabilities, DropoutStatistics,
                         ::testing::Values(0.05F, 0.1F, 0.5F, 0.9F));

TEST(DropoutSeeds, SameSeedSameBitsOtherSeedOtherBits) {
  const Sizes n{.b = 2, .t = 20, .h = 2, .s = 40};
  const auto with_seed = [&](std::uint64_t seed) {
    return dropped_uniform(n, {.probability = 0.5F, .seed = seed});
  };
  EXPECT_TRUE(same_bits(with_seed(1), with_seed(1)));
  // Differences in any part of the 64 bits count: about half of all entries change.
  for (const std::uint64_t other : {std::uint64_t{2}, std::uint64_t{1} | std::uint64_t{1} << 40}) {
    const Tensor a = with_seed(1);
    const Tensor b = with_seed(other);
    std::int64_t changed = 0;
    for (std::size_t i = 0; i < a.values().size(); ++i) changed += a.values()[i] != b.values()[i];
    EXPECT_NEAR(static_cast<double>(changed) / static_cast<double>(a.size()), 0.5, 0.1);
  }
}

// ---- What the choice does not depend on --------------------------------------------------------

class DropoutCounter : public ::testing::Test {
 protected:
  static constexpr std::int64_t kBatch = 3, kQueries = 12, kHeads = 4, kKeys = 270, kDim = 6;
  Tensor q_ = Tensor::normal({kBatch, kQueries, kHeads, kDim}, 1);
  Tensor k_ = Tensor::normal({kBatch, kKeys, 2, kDim}, 2);
  Tensor v_ = Tensor::normal({kBatch, kKeys, 2, kDim}, 3);
  Dropout dropout_{.probability = 0.4F, .seed = 99, .sequence_ids = {70, 50, 60}};
};

Tensor rows_of_batch(const Tensor& tensor, const std::vector<std::int64_t>& order) {
  std::vector<float> values;
  for (const std::int64_t b : order) {
    const Tensor part = Tensor::copy_of(tensor.view().at(0, b));
    values.insert(values.end(), part.values().begin(), part.values().end());
  }
  std::vector<std::int64_t> extents(tensor.shape().begin(), tensor.shape().end());
  extents[0] = static_cast<std::int64_t>(order.size());
  return Tensor::copy_of_values(Shape(extents), values);
}

TEST_F(DropoutCounter, BatchOrderAndBatchSplit) {
  const Tensor whole = attention(q_, k_, v_, {.dropout = dropout_}).output;
  for (const auto& order : std::vector<std::vector<std::int64_t>>{{2, 0, 1}, {1, 0}, {0}, {2}}) {
    Dropout dropout = dropout_;
    dropout.sequence_ids.clear();
    for (const std::int64_t b : order) {
      dropout.sequence_ids.push_back(dropout_.sequence_ids[static_cast<std::size_t>(b)]);
    }
    const Tensor part = attention(rows_of_batch(q_, order), rows_of_batch(k_, order),
                                  rows_of_batch(v_, order), {.dropout = dropout})
                            .output;
    EXPECT_TRUE(same_bits(part, rows_of_batch(whole, order)));
  }
}

TEST_F(DropoutCounter, SequenceIdsCountFromZeroUnlessSaid) {
  Dropout unsaid = dropout_;
  unsaid.sequence_ids = {};
  Dropout said = dropout_;
  said.sequence_ids = {0, 1, 2};
  EXPECT_TRUE(same_bits(attention(q_, k_, v_, {.dropout = unsaid}).output,
                        attention(q_, k_, v_, {.dropout = said}).output));
  EXPECT_FALSE(same_bits(attention(q_, k_, v_, {.dropout = unsaid}).output,
                         attention(q_, k_, v_, {.dropout = dropout_}).output));
}

TEST_F(DropoutCounter, Threads) {
  Context one(1);
  const Tensor expected = attention(q_, k_, v_, {.dropout = dropout_, .context = &one}).output;
  for (const int threads : {2, 3, 5}) {
    Context context(threads);
    EXPECT_TRUE(same_bits(attention(q_, k_, v_, {.dropout = dropout_, .context = &context}).output,
                          expected));
  }
}

TEST_F(DropoutCounter, ChunksOfQueriesKeepTheirPositions) {
  const Tensor whole = attention(q_, k_, v_, {.dropout = dropout_}).output;
  for (const auto& [begin, end] : {std::pair{0, 5}, {5, 6}, {6, 12}}) {
    const Tensor chunk = attention(q_.view().sliced(1, begin, end), k_, v_,
                                   {.mask = query_offset(begin), .dropout = dropout_})
                             .output;
    EXPECT_TRUE(same_bits(chunk, Tensor::copy_of(whole.view().sliced(1, begin, end))));
  }
}

TEST_F(DropoutCounter, PaddingDoesNotShiftTheChoice) {
  // The same 200 keys, alone or followed by 70 hidden ones.
  const Tensor padded =
      attention(q_, k_, v_, {.mask = valid_lengths({200, 200, 200}), .dropout = dropout_}).output;
  const Tensor cut =
      attention(q_, k_.view().sliced(1, 0, 200), v_.view().sliced(1, 0, 200), {.dropout = dropout_})
          .output;
  EXPECT_TRUE(same_bits(padded, cut));
}

TEST_F(DropoutCounter, PackedSequencesDropAsTheyDoAlone) {
  const Tensor x = Tensor::normal({9, 2, 4}, 5);
  const AttentionOptions options{
      .dropout = {.probability = 0.5F, .seed = 3, .sequence_ids = {8, 6}},
      .packed = PackedLengths{.query = {0, 4, 9}, .key = {}}};
  const Tensor packed = attention(x, x, x, options).output;
  const Tensor second = Tensor::copy_of(x.view().sliced(0, 4, 9)).reshaped({1, 5, 2, 4});
  const Tensor alone = attention(second, second, second,
                                 {.dropout = {.probability = 0.5F, .seed = 3, .sequence_ids = {6}}})
                           .output;
  EXPECT_TRUE(
      same_bits(Tensor::copy_of(packed.view().sliced(0, 4, 9)).reshaped(alone.shape()), alone));
}

TEST_F(DropoutCounter, WeightsAndLogSumExpAreThoseBeforeDropout) {
  const AttentionResult with =
      attention(q_, k_, v_, {.dropout = dropout_, .weights = all_weights()});
  const AttentionResult without = attention(q_, k_, v_, {.weights = all_weights()});
  EXPECT_TRUE(same_bits(with.weights, without.weights));
  EXPECT_TRUE(same_bits(with.log_sum_exp, without.log_sum_exp));
  EXPECT_FALSE(same_bits(with.output, without.output));
}

TEST_F(DropoutCounter, ProbabilityZeroIsNoDropout) {
  EXPECT_TRUE(same_bits(attention(q_, k_, v_, {.dropout = {.probability = 0.0F, .seed = 5}}).output,
                        attention(q_, k_, v_).output));
}

// ---- Backward ----------------------------------------------------------------------------------

// d(output)/dV is the dropped weight: a cotangent that is 1 for one query reads that query's row.
TEST(DropoutBackward, RegeneratesTheForwardsMask) {
  const Sizes n{.b = 2, .t = 6, .h = 2, .s = 300};
  const Tensor q = Tensor::normal({n.b, n.t, n.h, 4}, 1);
  const Tensor k = Tensor::normal({n.b, n.s, n.h, 4}, 2);
  const Tensor v = identity_values(n);
  const AttentionOptions options{
      .dropout = {.probability = 0.3F, .seed = 8, .sequence_ids = {5, 9}}};
  const AttentionResult r = attention(q, k, v, options);
  for (std::int64_t t = 0; t < n.t; ++t) {
    Tensor cotangent(r.output.shape());
    for (std::int64_t b = 0; b < n.b; ++b) {
      for (std::int64_t h = 0; h < n.h; ++h) cotangent.view()(b, t, h, 0) = 1.0F;
    }
    const AttentionGradients g = attention_backward({q, k, v}, r, cotangent, options);
    for (std::int64_t b = 0; b < n.b; ++b) {
      for (std::int64_t h = 0; h < n.h; ++h) {
        for (std::int64_t s = 0; s < n.s; ++s) {
          const float dropped = r.output.view()(b, t, h, s);
          const float gradient = g.value.view()(b, s, h, 0);
          ASSERT_EQ(gradient == 0.0F, dropped == 0.0F) << b << ' ' << h << ' ' << t << ' ' << s;
          ASSERT_NEAR(gradient, dropped, 1e-6F);
        }
      }
    }
  }
}

// ---- The layer ---------------------------------------------------------------------------------

class LayerDropout : public ::testing::Test {
 protected:
  static MultiHeadAttention make(float dropout, std::uint64_t seed) {
    const AttentionConfig config{
        .num_heads = 2, .key_dim = 4, .query_features = 8, .dropout = dropout, .seed = seed};
    return {config, AttentionWeights::glorot(config, 3)};
  }
  Tensor x_ = Tensor::normal({3, 10, 8}, 1);
  MultiHeadAttention layer_ = make(0.5F, 21);
};

TEST_F(LayerDropout, OnlyInTraining) {
  const Tensor without = make(0.0F, 21).forward({.query = x_}, {.training = true}).output;
  EXPECT_TRUE(same_bits(layer_.forward({.query = x_}).output, without));
  EXPECT_FALSE(same_bits(layer_.forward({.query = x_}, {.training = true}).output, without));
}

TEST_F(LayerDropout, SeedOfTheCallOrOfTheConfiguration) {
  const Tensor own = layer_.forward({.query = x_}, {.training = true}).output;
  EXPECT_TRUE(
      same_bits(own, layer_.forward({.query = x_}, {.training = true, .dropout_seed = 21}).output));
  EXPECT_TRUE(same_bits(
      own, make(0.5F, 4).forward({.query = x_}, {.training = true, .dropout_seed = 21}).output));
  EXPECT_FALSE(same_bits(own, make(0.5F, 4).forward({.query = x_}, {.training = true}).output));
}

TEST_F(LayerDropout, BatchOrder) {
  const Tensor whole =
      layer_.forward({.query = x_}, {.training = true, .sequence_ids = {7, 8, 9}}).output;
  const std::vector<std::int64_t> order{2, 0, 1};
  const Tensor permuted = layer_
                              .forward({.query = rows_of_batch(x_, order)},
                                       {.training = true, .sequence_ids = {9, 7, 8}})
                              .output;
  EXPECT_TRUE(same_bits(permuted, rows_of_batch(whole, order)));
}

}  // namespace
}  // namespace headwise
