// What a call returns beside its output: weights in all their forms, statistics, log-sum-exp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

#include "headwise/headwise.h"
#include "support/expect_bits.h"

namespace headwise {
namespace {

using test_support::close_to;
using test_support::same_bits;

constexpr std::int64_t kBatch = 2, kHeads = 4, kQueries = 9, kKeys = 300, kDim = 6;

class Results : public ::testing::Test {
 protected:
  AttentionResult run(const WeightsRequest& request) const {
    return attention(q_, k_, v_, {.mask = mask_, .weights = request});
  }

  Tensor q_ = Tensor::normal({kBatch, kQueries, kHeads, kDim}, 1);
  Tensor k_ = Tensor::normal({kBatch, kKeys, 2, kDim}, 2);
  Tensor v_ = Tensor::normal({kBatch, kKeys, 2, kDim}, 3);
  // Query t stands at position t + 290; the second sequence has 3 keys.
  Mask mask_ = causal() & query_offset(290) & valid_lengths({kKeys, 3});
};

// The weights by their definition, in double.
Tensor weights_by_definition(const Tensor& q, const Tensor& k) {
  Tensor weights({kBatch, kHeads, kQueries, kKeys});
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t t = 0; t < kQueries; ++t) {
        std::vector<double> row(static_cast<std::size_t>(b == 0 ? std::min(t + 291, kKeys) : 3));
        double sum = 0.0;
        for (std::size_t s = 0; s < row.size(); ++s) {
          double dot = 0.0;
          for (std::int64_t c = 0; c < kDim; ++c) {
            dot += static_cast<double>(q.view()(b, t, h, c)) *
                   static_cast<double>(k.view()(b, s, h / 2, c));
          }
          sum += row[s] = std::exp(dot / std::sqrt(static_cast<double>(kDim)));
        }
        for (std::size_t s = 0; s < row.size(); ++s) {
          weights.view()(b, h, t, s) = static_cast<float>(row[s] / sum);
        }
      }
    }
  }
  return weights;
}

TEST_F(Results, NothingUnlessAskedFor) {
  const AttentionResult r = run(no_weights());
  EXPECT_EQ(r.weights.size(), 0);
  EXPECT_EQ(r.top.values.size(), 0);
  EXPECT_EQ(r.top.indices.size(), 0);
  EXPECT_EQ(r.statistics.entropy.size(), 0);
}

TEST_F(Results, AllWeights) {
  EXPECT_TRUE(close_to(run(all_weights()).weights, weights_by_definition(q_, k_), 1e-6));
}

TEST_F(Results, RequestsLeaveTheOutputAlone) {
  const AttentionResult plain = run(no_weights());
  for (const WeightsRequest& request :
       {all_weights(), averaged_weights(), selected_weights({1}, {0, 3}), top_k_weights(4),
        weight_statistics(), all_weights() | top_k_weights(2) | weight_statistics()}) {
    const AttentionResult r = run(request);
    EXPECT_TRUE(same_bits(r.output, plain.output));
    EXPECT_TRUE(same_bits(r.log_sum_exp, plain.log_sum_exp));
  }
}

TEST_F(Results, SelectedHeadsAndRows) {
  const Tensor all = run(all_weights()).weights;
  // In the order asked for, which need not be ascending.
  const std::vector<std::int64_t> heads{3, 0};
  const std::vector<std::int64_t> rows{5, 2, 8};
  const Tensor some = run(selected_weights(heads, rows)).weights;
  ASSERT_EQ(some.shape(), Shape({kBatch, 2, 3, kKeys}));
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < 2; ++h) {
      for (std::int64_t t = 0; t < 3; ++t) {
        const ConstView got = some.view().at(0, b).at(0, h).at(0, t);
        const ConstView expected = all.view()
                                       .at(0, b)
                                       .at(0, heads.at(static_cast<std::size_t>(h)))
                                       .at(0, rows.at(static_cast<std::size_t>(t)));
        EXPECT_TRUE(same_bits(Tensor::copy_of(got), Tensor::copy_of(expected)));
      }
    }
  }
}

TEST_F(Results, SelectedHeadsOrRowsAlone) {
  const Tensor all = run(all_weights()).weights;
  const Tensor head = run(selected_weights({2}, {})).weights;
  EXPECT_TRUE(same_bits(head, Tensor::copy_of(all.view().sliced(1, 2, 3))));
  const Tensor row = run(selected_weights({}, {4})).weights;
  EXPECT_TRUE(same_bits(row, Tensor::copy_of(all.view().sliced(2, 4, 5))));
}

TEST_F(Results, Averaged) {
  const Tensor all = run(all_weights()).weights;
  Tensor mean({kBatch, kQueries, kKeys});
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t t = 0; t < kQueries; ++t) {
      for (std::int64_t s = 0; s < kKeys; ++s) {
        double sum = 0.0;
        for (std::int64_t h = 0; h < kHeads; ++h)
          sum += static_cast<double>(all.view()(b, h, t, s));
        mean.view()(b, t, s) = static_cast<float>(sum / static_cast<double>(kHeads));
      }
    }
  }
  EXPECT_TRUE(close_to(run(averaged_weights()).weights, mean, 1e-7));
}

TEST_F(Results, TopK) {
  constexpr std::int64_t kTop = 5;
  const AttentionResult r = run(top_k_weights(kTop) | all_weights());
  ASSERT_EQ(r.top.values.shape(), Shape({kBatch, kHeads, kQueries, kTop}));
  ASSERT_EQ(r.top.indices.shape(), Shape({kBatch, kHeads, kQueries, kTop}));
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t t = 0; t < kQueries; ++t) {
        const auto weight = [&](std::int64_t s) { return r.weights.view()(b, h, t, s); };
        std::vector<std::int64_t> order(kKeys);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::int64_t i, std::int64_t j) { return weight(i) > weight(j); });
        for (std::int64_t i = 0; i < kTop; ++i) {
          const bool there = b == 0 || i < 3;  // the second sequence has 3 keys
          EXPECT_EQ(r.top.indices.view()(b, h, t, i),
                    there ? order[static_cast<std::size_t>(i)] : -1);
          EXPECT_EQ(r.top.values.view()(b, h, t, i),
                    there ? weight(order[static_cast<std::size_t>(i)]) : 0.0F);
        }
      }
    }
  }
}

TEST(ResultsOfTies, LowerIndexFirst) {
  // All 600 scores are equal: the first keys win, across key blocks.
  const AttentionResult r = attention(Tensor({2, 1, 3}), Tensor({600, 1, 3}), Tensor({600, 1, 2}),
                                      {.weights = top_k_weights(4)});
  for (std::int64_t t = 0; t < 2; ++t) {
    for (std::int64_t i = 0; i < 4; ++i) {
      EXPECT_EQ(r.top.indices.view()(0, t, i), i);
      EXPECT_NEAR(r.top.values.view()(0, t, i), 1.0F / 600.0F, 1e-8F);
    }
  }
}

TEST(ResultsOfTies, LargerThanTheKeys) {
  const AttentionResult r = attention(Tensor({1, 1, 3}), Tensor({2, 1, 3}), Tensor({2, 1, 2}),
                                      {.weights = top_k_weights(4)});
  ASSERT_EQ(r.top.indices.shape(), Shape({1, 1, 4}));
  EXPECT_EQ(r.top.indices.values()[0], 0);
  EXPECT_EQ(r.top.indices.values()[1], 1);
  EXPECT_EQ(r.top.indices.values()[2], -1);
  EXPECT_EQ(r.top.indices.values()[3], -1);
  EXPECT_EQ(r.top.values.values()[3], 0.0F);
}

TEST_F(Results, Statistics) {
  const AttentionResult r = run(weight_statistics() | all_weights());
  ASSERT_EQ(r.statistics.entropy.shape(), Shape({kBatch, kHeads, kQueries}));
  ASSERT_EQ(r.statistics.mean_distance.shape(), Shape({kBatch, kHeads, kQueries}));
  ASSERT_EQ(r.statistics.first_key_mass.shape(), Shape({kBatch, kHeads, kQueries}));
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t t = 0; t < kQueries; ++t) {
        double entropy = 0.0;
        double distance = 0.0;
        for (std::int64_t s = 0; s < kKeys; ++s) {
          const auto p = static_cast<double>(r.weights.view()(b, h, t, s));
          if (p > 0.0) entropy -= p * std::log(p);
          distance += p * std::abs(static_cast<double>(t + 290 - s));
        }
        EXPECT_NEAR(r.statistics.entropy.view()(b, h, t), entropy, 1e-4);
        EXPECT_NEAR(r.statistics.mean_distance.view()(b, h, t), distance, 1e-2);
        EXPECT_NEAR(r.statistics.first_key_mass.view()(b, h, t), r.weights.view()(b, h, t, 0),
                    1e-7);
      }
    }
  }
}

TEST(ResultsStatistics, KnownValues) {
  // Uniform over 8 keys; one key; nothing.
  const Mask lengths = valid_lengths(IndexTensor::from({1, 3}, {8, 1, 0}));
  const AttentionResult r =
      attention(Tensor({1, 3, 1, 2}), Tensor({1, 8, 1, 2}), Tensor({1, 8, 1, 2}),
                {.mask = lengths & query_offset(0), .weights = weight_statistics()});
  const auto entropy = r.statistics.entropy.values();
  EXPECT_NEAR(entropy[0], std::log(8.0), 1e-6);
  EXPECT_NEAR(entropy[1], 0.0, 1e-6);
  EXPECT_EQ(entropy[2], 0.0F);
  const auto distance = r.statistics.mean_distance.values();
  EXPECT_NEAR(distance[0], (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7) / 8.0, 1e-5);
  EXPECT_NEAR(distance[1], 1.0, 1e-6) << "query 1, key 0";
  EXPECT_EQ(distance[2], 0.0F);
  const auto first = r.statistics.first_key_mass.values();
  EXPECT_NEAR(first[0], 0.125, 1e-7);
  EXPECT_NEAR(first[1], 1.0, 1e-6);
  EXPECT_EQ(first[2], 0.0F);
}

TEST_F(Results, LogSumExp) {
  const AttentionResult r = run(all_weights());
  ASSERT_EQ(r.log_sum_exp.shape(), Shape({kBatch, kHeads, kQueries}));
  for (std::int64_t b = 0; b < kBatch; ++b) {
    for (std::int64_t h = 0; h < kHeads; ++h) {
      for (std::int64_t t = 0; t < kQueries; ++t) {
        // weight = exp(score − lse), seen on key 0, which every row attends.
        double dot = 0.0;
        for (std::int64_t c = 0; c < kDim; ++c) {
          dot += static_cast<double>(q_.view()(b, t, h, c)) *
                 static_cast<double>(k_.view()(b, 0, h / 2, c));
        }
        const double expected = dot / std::sqrt(static_cast<double>(kDim)) -
                                std::log(static_cast<double>(r.weights.view()(b, h, t, 0)));
        EXPECT_NEAR(r.log_sum_exp.view()(b, h, t), expected, 1e-5);
      }
    }
  }
}

TEST_F(Results, ShapesWithoutABatch) {
  const ConstView q = q_.view().at(0, 0);
  const ConstView k = k_.view().at(0, 0);
  const ConstView v = v_.view().at(0, 0);
  const AttentionResult r =
      attention(q, k, v, {.weights = all_weights() | top_k_weights(2) | weight_statistics()});
  EXPECT_EQ(r.output.shape(), Shape({kQueries, kHeads, kDim}));
  EXPECT_EQ(r.log_sum_exp.shape(), Shape({kHeads, kQueries}));
  EXPECT_EQ(r.weights.shape(), Shape({kHeads, kQueries, kKeys}));
  EXPECT_EQ(r.top.values.shape(), Shape({kHeads, kQueries, 2}));
  EXPECT_EQ(r.statistics.entropy.shape(), Shape({kHeads, kQueries}));
  EXPECT_EQ(attention(q, k, v, {.weights = averaged_weights()}).weights.shape(),
            Shape({kQueries, kKeys}));
  const AttentionResult batched = attention(q_, k_, v_);
  EXPECT_TRUE(same_bits(r.output, Tensor::copy_of(batched.output.view().at(0, 0))));
}

TEST_F(Results, OperatorOrTakesBoth) {
  const WeightsRequest both = top_k_weights(3) | averaged_weights() | weight_statistics();
  EXPECT_EQ(both.matrix, WeightsRequest::Matrix::Averaged);
  EXPECT_EQ(both.top_k, 3);
  EXPECT_TRUE(both.statistics);
  const WeightsRequest chosen = weight_statistics() | selected_weights({1}, {2});
  EXPECT_EQ(chosen.matrix, WeightsRequest::Matrix::PerHead);
  EXPECT_EQ(chosen.heads, std::vector<std::int64_t>{1});
  EXPECT_EQ(chosen.rows, std::vector<std::int64_t>{2});
  EXPECT_EQ((no_weights() | no_weights()).matrix, WeightsRequest::Matrix::None);
}

TEST_F(Results, CallersBufferTakesTheOutput) {
  Tensor out({kBatch, kQueries, kHeads, kDim});
  const AttentionResult r = attention(q_, k_, v_, {.mask = mask_, .out = out});
  EXPECT_EQ(r.output.size(), 0);
  EXPECT_TRUE(same_bits(out, run(no_weights()).output));
}

TEST_F(Results, ThroughALayer) {
  const AttentionConfig config{.num_heads = 4, .key_dim = 3, .query_features = 8};
  const MultiHeadAttention layer(config, AttentionWeights::glorot(config, 3));
  const Tensor x = Tensor::normal({2, 5, 8}, 1);
  const AttentionResult r = layer.forward(
      {.query = x},
      {.mask = causal(), .weights = all_weights() | top_k_weights(2) | weight_statistics()});
  EXPECT_EQ(r.weights.shape(), Shape({2, 4, 5, 5}));
  EXPECT_EQ(r.log_sum_exp.shape(), Shape({2, 4, 5}));
  EXPECT_EQ(r.top.indices.view()(1, 3, 0, 1), -1) << "row 0 attends one key";
  EXPECT_NEAR(r.statistics.first_key_mass.view()(1, 3, 0), 1.0F, 1e-6F);
  EXPECT_TRUE(same_bits(r.output, layer.forward({.query = x}, {.mask = causal()}).output));
  EXPECT_EQ(layer.forward({.query = x}, {.weights = averaged_weights()}).weights.shape(),
            Shape({2, 5, 5}));
}

}  // namespace
}  // namespace headwise
