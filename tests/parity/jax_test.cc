// JAX: jax.nn.dot_product_attention on (B,T,H,d).
#include <algorithm>
#include <cmath>
#include <limits>

#include "parity/parity.h"

namespace headwise::test_support {
namespace {

// JAX: true = attend, causal and windows stand top-left.
Mask jax_mask(GoldenCase& golden) {
  Mask mask;
  if (golden.has("mask")) mask = mask & keep(golden.bools("mask"));
  if (golden.has("key_value_seq_lengths")) {
    mask = mask & valid_lengths(golden.indices("key_value_seq_lengths"));
  }
  if (golden.has("query_seq_lengths")) {
    mask = mask & query_lengths(golden.indices("query_seq_lengths"));
  }
  if (golden.option_or("is_causal", false)) mask = mask & causal(Alignment::TopLeft);
  if (golden.has_option("local_window_size")) {
    const auto sides = golden.option<std::vector<std::int64_t>>("local_window_size");
    mask = mask & window(sides.at(0), sides.at(1)) & aligned(Alignment::TopLeft);
  }
  return mask;
}

// JAX gives (B,T,H). Where a row attends nothing, it stores its most negative masked score; −∞ here.
void expect_log_sum_exp(GoldenCase& golden, const Tensor& ours) {
  if (!golden.has("log_sum_exp")) return;
  Tensor theirs = golden.floats("log_sum_exp");
  std::replace_if(
      theirs.values().begin(), theirs.values().end(), [](float x) { return x < -1e38F; },
      -std::numeric_limits<float>::infinity());
  const ConstView view = theirs.view();
  expect_close("log-sum-exp", ours,
               view.rank() == 3 ? view.permuted({0, 2, 1}) : view.permuted({1, 0}));
}

class JaxParity : public ::testing::TestWithParam<std::string> {};

TEST_P(JaxParity, OutputAndGradients) {
  with_case("jax", GetParam(), [](GoldenCase& golden) {
    const HeadInputs inputs{golden.floats("query"), golden.floats("key"), golden.floats("value")};
    if (golden.has_option("raises")) {
      const Tensor output = attention(inputs.query, inputs.key, inputs.value).output;
      EXPECT_EQ(output.extent(3), inputs.value.extent(3));
      EXPECT_TRUE(std::all_of(output.values().begin(), output.values().end(),
                              [](float x) { return std::isfinite(x); }));
      say_difference("JAX raises " + golden.option<std::string>("raises") +
                     " where values and keys have different sizes");
      return;
    }
    OperatorUnderTest operation{.options = {.mask = jax_mask(golden)}};
    if (golden.has_option("scale")) operation.options.scale = golden.option<float>("scale");
    if (golden.has("bias")) {
      operation.options.bias.emplace_back(golden.floats("bias"));
      operation.biases.emplace_back("bias");
    }
    expect_operator_parity(golden, operation, inputs);
    expect_log_sum_exp(
        golden, attention(inputs.query, inputs.key, inputs.value, operation.options).log_sum_exp);
  });
}

INSTANTIATE_TEST_SUITE_P(Jax, JaxParity, ::testing::ValuesIn(golden_case_names("jax")), case_name);

TEST(JaxGoldenFile, IsComplete) { expect_complete("jax"); }

}  // namespace
}  // namespace headwise::test_support
