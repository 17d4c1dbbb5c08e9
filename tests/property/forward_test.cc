// Forward against the oracle: random calls of attention() and of layers.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "property/judge.h"
#include "support/oracle.h"
#include "support/random_case.h"
#include "support/results.h"

namespace headwise::test_support {
namespace {

using oracle::AttentionValues;
using oracle::Form;
using oracle::Named;

// Log-sum-exp as the saved statistics have it: a row's softmax is
// 2^(score·log₂e − row_reference) / row_sum.
Tensor log_sum_exp_of_statistics(const AttentionResult& result) {
  Tensor combined(result.log_sum_exp.shape());
  const auto reference = result.row_reference.values();
  const auto sum = result.row_sum.values();
  for (std::size_t i = 0; i < combined.values().size(); ++i) {
    const double exponent =
        static_cast<double>(reference[i]) + std::log2(static_cast<double>(sum[i]));
    const bool empty = std::isinf(result.log_sum_exp.values()[i]);
    combined.values()[i] = empty ? -std::numeric_limits<float>::infinity()
                                 : static_cast<float>(exponent * std::numbers::ln2);
  }
  return combined;
}

template <typename Scalar>
Named<Scalar> all_results(const AttentionValues<Scalar>& values, const Form& form,
                          const WeightsRequest& request) {
  Named<Scalar> results = oracle::attention_results(values, form, request);
  results["row_reference, row_sum"] = results["log_sum_exp"];
  return results;
}

// Ours under the same names; `statistics` keeps the tensor that only a view is returned of.
Views all_views(const AttentionResult& result, const WeightsRequest& request, Tensor& statistics) {
  RC_ASSERT(result.row_reference.shape() == result.log_sum_exp.shape());
  RC_ASSERT(result.row_sum.shape() == result.log_sum_exp.shape());
  if (request.matrix == WeightsRequest::Matrix::None) RC_ASSERT(result.weights.size() == 0);
  statistics = log_sum_exp_of_statistics(result);
  Views views = {{"row_reference, row_sum", statistics}};
  for (const auto& [name, tensor] : oracle::result_tensors(result, request)) views[name] = *tensor;
  return views;
}

RC_GTEST_PROP(Forward, AttentionMatchesTheOracle, (const Recipe& recipe)) {
  const OpCase c = make_op_case(recipe);
  const AttentionResult result = attention(c.inputs.query, c.inputs.key, c.inputs.value, c.options);
  if (recipe.own_out) RC_ASSERT(result.output.size() == 0);
  Tensor statistics;
  Views ours = all_views(result, c.options.weights, statistics);
  ours["output"] = recipe.own_out ? ConstView(c.options.out) : result.output.view();

  const auto sequences = oracle::head_sequences(c.inputs.query, c.inputs.key, c.options);
  const Form form = oracle::head_form(c.inputs.query, c.inputs.key, c.options);
  const auto values = [&]<typename Scalar>(Scalar) {
    return oracle::attention(oracle::head_tensors<Scalar>(c.inputs, c.options), sequences,
                             c.options);
  };
  const auto expected = [&](auto scalar) {
    const auto computed = values(scalar);
    auto results = all_results(computed, form, c.options.weights);
    results["output"] = in_layout(computed.output, form);
    return results;
  };
  const auto allowed = judge("attention ", expected, ours, kForwardFactor);
  if (recipe.top_k > 0) {
    require(check_top_indices(result.top, values(0.0), form, allowed.at("top.values")));
  }
}

RC_GTEST_PROP(Forward, LayerMatchesTheOracle, (const Recipe& recipe)) {
  const LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const AttentionResult result = layer.forward(c.inputs, c.options);
  if (result.saved) RC_FAIL("saved, though nobody asked");
  if (recipe.own_out) RC_ASSERT(result.output.size() == 0);
  Tensor statistics;
  Views ours = all_views(result, c.options.weights, statistics);
  ours["output"] = recipe.own_out ? ConstView(c.options.out) : result.output.view();

  const ConstView key = c.inputs.key.present() ? c.inputs.key : c.inputs.query;
  const auto sequences = oracle::layer_sequences(c.inputs.query, key, c.options);
  const Form form = oracle::layer_form(c.inputs.query, key);
  const auto values = [&]<typename Scalar>(Scalar) {
    return oracle::layer(oracle::layer_tensors<Scalar>(c.inputs, c.options, c.weights), sequences,
                         c.config, c.options);
  };
  const auto expected = [&](auto scalar) {
    const auto computed = values(scalar);
    auto results = all_results(computed.attention, form, c.options.weights);
    results["output"] = in_batch(computed.output, form);
    return results;
  };
  const auto allowed = judge("layer ", expected, ours, kForwardFactor);
  if (recipe.top_k > 0) {
    require(check_top_indices(result.top, values(0.0).attention, form, allowed.at("top.values")));
  }
}

}  // namespace
}  // namespace headwise::test_support
