// Gradients against the oracle: random calls of attention_backward() and of layers' backward.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "property/judge.h"
#include "support/oracle.h"
#include "support/random_case.h"
#include "support/results.h"

namespace headwise::test_support {
namespace {

using oracle::Named;
using oracle::RowsOf;

// Asked for in most cases; not asked for, nothing may come.
BackwardOptions draw_backward(const Recipe& recipe) {
  return {.bias_gradient = recipe.seed % 4 != 0};
}

template <typename Scalar>
void add_biases(const std::vector<oracle::Array<Scalar>>& biases, Named<Scalar>& named) {
  for (std::size_t i = 0; i < biases.size(); ++i) {
    named["score bias " + std::to_string(i)] = biases[i];
  }
}

void add_biases(const std::vector<Tensor>& biases, Views& views) {
  for (std::size_t i = 0; i < biases.size(); ++i) {
    views["score bias " + std::to_string(i)] = biases[i];
  }
}

RC_GTEST_PROP(Backward, AttentionMatchesTheOracle, (const Recipe& recipe)) {
  const OpCase c = make_op_case(recipe);
  const AttentionResult result = attention(c.inputs.query, c.inputs.key, c.inputs.value, c.options);
  const BackwardOptions backward = draw_backward(recipe);
  const AttentionGradients gradients =
      attention_backward(c.inputs, result, c.output_gradient, c.options, backward);
  Views ours = {{"query", gradients.query}, {"key", gradients.key}, {"value", gradients.value}};
  add_biases(gradients.bias, ours);

  const auto sequences = oracle::head_sequences(c.inputs.query, c.inputs.key, c.options);
  const oracle::Form form = oracle::head_form(c.inputs.query, c.inputs.key, c.options);
  const auto expected = [&]<typename Scalar>(Scalar) {
    const auto g = oracle::attention_backward(
        oracle::head_tensors<Scalar>(c.inputs, c.options), sequences,
        oracle::head_rows<Scalar>(c.output_gradient, c.options), c.options);
    Named<Scalar> named = {{"query", in_layout(g.query, form)},
                           {"key", in_layout(g.key, form, RowsOf::Keys)},
                           {"value", in_layout(g.value, form, RowsOf::Keys)}};
    if (backward.bias_gradient) add_biases(g.bias, named);
    return named;
  };
  judge("attention gradient: ", expected, ours, kGradientFactor);
}

RC_GTEST_PROP(Backward, LayerMatchesTheOracle, (const Recipe& recipe)) {
  LayerCase c = make_layer_case(recipe);
  c.options.save_for_backward = true;
  const MultiHeadAttention layer(c.config, c.weights);
  const AttentionResult result = layer.forward(c.inputs, c.options);
  const BackwardOptions backward = draw_backward(recipe);
  const LayerGradients gradients =
      layer.backward(c.inputs, result, c.output_gradient, c.options, backward);
  Views ours = {{"query", gradients.query}, {"key", gradients.key}, {"value", gradients.value}};
  add_biases(gradients.bias, ours);
  for (const auto& weight : oracle::weight_names<float>()) {
    const Tensor& gradient = gradients.weights.*weight.library;
    const bool present = (c.weights.*weight.library).size() > 0;
    if (present) ours[weight.name] = gradient;
    if (!present) RC_ASSERT(gradient.size() == 0);
  }

  const ConstView key = c.inputs.key.present() ? c.inputs.key : c.inputs.query;
  const auto sequences = oracle::layer_sequences(c.inputs.query, key, c.options);
  const oracle::Form form = oracle::layer_form(c.inputs.query, key);
  const auto expected = [&]<typename Scalar>(Scalar) {
    const auto g = oracle::layer_backward(
        oracle::layer_tensors<Scalar>(c.inputs, c.options, c.weights), sequences, c.config,
        oracle::feature_rows<Scalar>(c.output_gradient), c.options);
    Named<Scalar> named = {{"query", in_batch(g.query, form)},
                           {"key", in_batch(g.key, form, RowsOf::Keys)},
                           {"value", in_batch(g.value, form, RowsOf::Keys)}};
    if (backward.bias_gradient) add_biases(g.bias, named);
    for (const auto& weight : oracle::weight_names<Scalar>()) {
      const auto& gradient = g.weights.*weight.oracle;
      if (!gradient.values.empty()) named[weight.name] = gradient;
    }
    return named;
  };
  judge("layer gradient: ", expected, ours, kGradientFactor);
}

}  // namespace
}  // namespace headwise::test_support
