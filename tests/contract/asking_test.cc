// What else is asked for, where results go and in which layout changes no bit of the rest.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "contract/recipes.h"
#include "contract/runs.h"

namespace headwise::test_support {
namespace {

// Both, so that one of them differs from what the case asks for.
const WeightsRequest& nothing() {
  static const WeightsRequest request = no_weights();
  return request;
}
const WeightsRequest& everything() {
  static const WeightsRequest request = all_weights() | top_k_weights(5) | weight_statistics();
  return request;
}

RC_GTEST_PROP(AskingContract, AttentionWithAndWithoutWeightsOrAnOutputBuffer,
              (ContractRecipe recipe)) {
  recipe.own_out = false;
  OpCase c = make_op_case(recipe);
  const auto run = [&](const WeightsRequest& weights, const MutableView& out) {
    c.options.weights = weights;
    c.options.out = out;
    return run_op(c.inputs, c.output_gradient, c.options);
  };
  const Results plain = run(nothing(), {});
  require_same_where_both(plain, run(everything(), {}), "with weights");
  Tensor out(plain.at("output").shape());
  require_same(plain, run(nothing(), out), "with a buffer");
}

RC_GTEST_PROP(AskingContract, LayersWithAndWithoutWeightsOrAnOutputBuffer,
              (ContractRecipe recipe)) {
  recipe.own_out = false;
  LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const auto run = [&](const WeightsRequest& weights, const MutableView& out) {
    c.options.weights = weights;
    c.options.out = out;
    return run_layer(layer, c.inputs, c.output_gradient, c.options);
  };
  const Results plain = run(nothing(), {});
  require_same_where_both(plain, run(everything(), {}), "with weights");
  Tensor out(plain.at("output").shape());
  require_same(plain, run(nothing(), out), "with a buffer");
}

ConstView heads_and_rows_swapped(const ConstView& view) {
  return view.rank() == 4 ? view.permuted({0, 2, 1, 3}) : view.permuted({1, 0, 2});
}

// Row-major in each of them, so that kernels meet other strides.
RC_GTEST_PROP(AskingContract, AttentionInEitherLayout, (ContractRecipe recipe)) {
  recipe.own_out = false;
  const OpCase c = make_op_case(recipe);
  const Results one = run_op(c.inputs, c.output_gradient, c.options);

  const Tensor query = Tensor::copy_of(heads_and_rows_swapped(c.inputs.query));
  const Tensor key = Tensor::copy_of(heads_and_rows_swapped(c.inputs.key));
  const Tensor value = Tensor::copy_of(heads_and_rows_swapped(c.inputs.value));
  const Tensor gradient = Tensor::copy_of(heads_and_rows_swapped(c.output_gradient));
  AttentionOptions options = c.options;
  options.layout =
      options.layout == Layout::HeadsFirst ? Layout::SequenceFirst : Layout::HeadsFirst;
  Results other = run_op({query, key, value}, gradient, options);
  for (const char* name : {"output", "query gradient", "key gradient", "value gradient"}) {
    other[name] = Tensor::copy_of(heads_and_rows_swapped(other.at(name)));
  }
  require_same(one, other, "the other layout");
}

}  // namespace
}  // namespace headwise::test_support
