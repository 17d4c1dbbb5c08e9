// What heads do, in numbers: against sums in float64, and against the statistics that the attention
// itself returns, which are computed from scores and not from weights.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "headwise/attention.h"
#include "headwise/view.h"
#include "some_weights.h"
#include "view/statistics.h"

namespace headwise::test_view {
namespace {

// The definitions, one sum at a time.
HeadSummary reference(const ConstView& weights, std::int64_t first_position) {
  HeadSummary summary;
  const std::int64_t queries = weights.extent(0);
  const std::int64_t keys = weights.extent(1);
  double rows = 0.0;
  for (std::int64_t q = 0; q < queries; ++q) {
    double sum = 0.0;
    for (std::int64_t k = 0; k < keys; ++k) sum += static_cast<double>(weights(q, k));
    summary.largest_sum = std::max(summary.largest_sum, sum);
    if (sum == 0.0) continue;
    summary.smallest_sum = rows == 0.0 ? sum : std::min(summary.smallest_sum, sum);
    rows += 1.0;
  }
  const auto mean = [&](const auto& term) {
    double sum = 0.0;
    for (std::int64_t q = 0; q < queries; ++q) {
      for (std::int64_t k = 0; k < keys; ++k) {
        sum += term(static_cast<double>(weights(q, k)), first_position + q, k);
      }
    }
    return rows > 0.0 ? sum / rows : 0.0;
  };
  using Index = std::int64_t;
  summary.entropy = mean([](double p, Index, Index) { return p > 0.0 ? -p * std::log(p) : 0.0; });
  summary.mean_distance = mean(
      [](double p, Index q, Index k) { return p * static_cast<double>(q > k ? q - k : k - q); });
  summary.first_key_mass = mean([](double p, Index, Index k) { return k == 0 ? p : 0.0; });
  summary.diagonal_mass = mean([](double p, Index q, Index k) { return k == q ? p : 0.0; });
  summary.previous_mass = mean([](double p, Index q, Index k) { return k == q - 1 ? p : 0.0; });
  for (std::int64_t q = 0; q < queries; ++q) {
    for (std::int64_t k = 0; k < keys; ++k) {
      summary.largest_weight = std::max(summary.largest_weight, static_cast<double>(weights(q, k)));
    }
  }
  summary.empty_rows = queries - static_cast<std::int64_t>(rows);
  return summary;
}

void expect_equal(const HeadSummary& actual, const HeadSummary& wanted) {
  // The same float64 terms in another order: a few units in the last place of sums up to 10⁴.
  const auto close = [](double a, double b) {
    return std::abs(a - b) <= 1e-12 * (1.0 + std::abs(b));
  };
  RC_ASSERT(close(actual.entropy, wanted.entropy));
  RC_ASSERT(close(actual.mean_distance, wanted.mean_distance));
  RC_ASSERT(close(actual.first_key_mass, wanted.first_key_mass));
  RC_ASSERT(close(actual.diagonal_mass, wanted.diagonal_mass));
  RC_ASSERT(close(actual.previous_mass, wanted.previous_mass));
  RC_ASSERT(close(actual.largest_sum, wanted.largest_sum));
  RC_ASSERT(close(actual.smallest_sum, wanted.smallest_sum));
  RC_ASSERT(actual.largest_weight == wanted.largest_weight);
  RC_ASSERT(actual.empty_rows == wanted.empty_rows);
}

RC_GTEST_PROP(Statistics, EqualTheirDefinitions, ()) {
  const auto heads = *rc::gen::inRange<std::int64_t>(1, 4);
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 20);
  const auto offset = *rc::gen::inRange<std::int64_t>(-3, 25);
  Tensor weights = random_weights(heads, queries, keys, *rc::gen::arbitrary<std::uint64_t>(),
                                  *rc::gen::arbitrary<bool>());
  const MutableView view = weights;
  if (*rc::gen::arbitrary<bool>()) {  // a query that attends nothing
    for (std::int64_t k = 0; k < keys; ++k) view(0, queries / 2, k) = 0.0F;
  }
  const auto first = *rc::gen::inRange<std::int64_t>(0, queries);
  const auto summaries =
      summarise_heads({.weights = weights, .first_row = first, .query_offset = offset});
  RC_ASSERT(std::ssize(summaries) == heads);
  for (std::int64_t h = 0; h < heads; ++h) {
    const ConstView shown = ConstView(weights).at(0, h).sliced(0, first, queries);
    expect_equal(summaries[static_cast<std::size_t>(h)], reference(shown, offset + first));
    RC_ASSERT(summaries[static_cast<std::size_t>(h)].name == "head " + std::to_string(h));
  }
}

TEST(Statistics, AgreeWithWhatAttentionReturns) {
  const Tensor q = Tensor::normal({1, 9, 3, 8}, 1);
  const Tensor k = Tensor::normal({1, 9, 3, 8}, 2);
  const AttentionResult result =
      attention(q, k, k, {.mask = causal(), .weights = all_weights() | weight_statistics()});
  const auto summaries = summarise_heads({.weights = result.weights});
  ASSERT_EQ(summaries.size(), 3U);
  for (std::int64_t h = 0; h < 3; ++h) {
    double entropy = 0.0;
    double distance = 0.0;
    double first = 0.0;
    for (std::int64_t t = 0; t < 9; ++t) {
      entropy += static_cast<double>(result.statistics.entropy.view()(0, h, t)) / 9.0;
      distance += static_cast<double>(result.statistics.mean_distance.view()(0, h, t)) / 9.0;
      first += static_cast<double>(result.statistics.first_key_mass.view()(0, h, t)) / 9.0;
    }
    // Theirs are float32.
    const HeadSummary& summary = summaries[static_cast<std::size_t>(h)];
    EXPECT_NEAR(summary.entropy, entropy, 2e-6);
    EXPECT_NEAR(summary.mean_distance, distance, 2e-5);
    EXPECT_NEAR(summary.first_key_mass, first, 1e-6);
  }
}

TEST(Statistics, KnownHeads) {
  // Head 0 looks at itself, head 1 at the token before, head 2 everywhere alike.
  Tensor weights({3, 4, 4});
  const MutableView view = weights;
  for (std::int64_t q = 0; q < 4; ++q) {
    view(0, q, q) = 1.0F;
    view(1, q, q == 0 ? 0 : q - 1) = 1.0F;
    for (std::int64_t k = 0; k < 4; ++k) view(2, q, k) = 0.25F;
  }
  const auto heads = summarise_heads({.weights = weights});
  EXPECT_EQ(heads[0].entropy, 0.0);
  EXPECT_EQ(heads[0].diagonal_mass, 1.0);
  EXPECT_EQ(heads[0].mean_distance, 0.0);
  EXPECT_EQ(heads[1].previous_mass, 0.75);
  EXPECT_EQ(heads[1].first_key_mass, 0.5);
  EXPECT_EQ(heads[1].mean_distance, 0.75);
  EXPECT_DOUBLE_EQ(heads[2].entropy, std::log(4.0));
  EXPECT_EQ(heads[2].largest_weight, 0.25);
}

TEST(SummaryText, FromLongToShort) {
  HeadSummary summary{.name = "head 0", .entropy = 1.5, .mean_distance = 2.25};
  summary.first_key_mass = 0.5;
  summary.diagonal_mass = 0.125;
  summary.largest_weight = 0.5;
  EXPECT_EQ(view::summary_texts(summary),
            (std::vector<std::string>{
                "entropy 1.50 (about 4.5 keys) · distance 2.2 · first key 50% · own key 12% · "
                "previous 0%",
                "entropy 1.50 (about 4.5 keys) · distance 2.2 · first key 50%",
                "entropy 1.50 · distance 2.2 · first key 50%", "entropy 1.50 · distance 2.2",
                "entropy 1.50", "1.50"}));
}

TEST(SummaryText, AHeadThatAttendsNothingHasNoNumbers) {
  Tensor weights({2, 3, 3});
  for (std::int64_t query = 0; query < 3; ++query) weights.view()(1, query, query) = 1.0F;
  const view::ShownHeads shown = view::shown_heads("f", {.weights = weights});
  const auto within = [&](std::size_t bytes) {
    return view::fitting_summaries(
        shown, [bytes](const std::string& text) { return text.size() <= bytes; });
  };
  EXPECT_EQ(within(30),
            (std::vector<std::string>{"attends nothing", "entropy 0.00 · distance 0.0"}));
  EXPECT_EQ(within(5), (std::vector<std::string>{"–", "0.00"}));
}

TEST(SummaryText, AllHeadsHaveTheSameForm) {
  // One head at its own key; the other alike at all of 200, so that its numbers are longer.
  Tensor weights({2, 200, 200});
  for (std::int64_t query = 0; query < 200; ++query) {
    weights.view()(0, query, query) = 1.0F;
    for (std::int64_t key = 0; key < 200; ++key) weights.view()(1, query, key) = 0.005F;
  }
  const view::ShownHeads shown = view::shown_heads("f", {.weights = weights});
  const auto within = [&](std::size_t bytes) {
    return view::fitting_summaries(
        shown, [bytes](const std::string& text) { return text.size() <= bytes; });
  };
  const std::string longest = "entropy 5.30 · distance 66.7";
  EXPECT_EQ(within(longest.size())[1], longest);
  EXPECT_EQ(within(longest.size())[0], "entropy 0.00 · distance 0.0");
  EXPECT_EQ(within(longest.size() - 1), (std::vector<std::string>{"entropy 0.00", "entropy 5.30"}));
  EXPECT_EQ(within(0), (std::vector<std::string>{"0.00", "5.30"}));
}

}  // namespace
}  // namespace headwise::test_view
