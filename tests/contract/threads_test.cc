// The thread count decides nothing.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "contract/recipes.h"
#include "contract/runs.h"

namespace headwise::test_support {
namespace {

// More threads than CPUs and than most cases have tasks, too.
constexpr int kThreads[] = {2, 3, 7};

RC_GTEST_PROP(ThreadContract, AttentionGivesTheSameBits, (const ContractRecipe& recipe)) {
  OpCase c = make_op_case(recipe);
  const auto run = [&](int threads) {
    c.options.context = &shared_context(threads);
    return run_op(c.inputs, c.output_gradient, c.options);
  };
  const Results one = run(1);
  for (const int threads : kThreads) {
    require_same(one, run(threads), std::to_string(threads) + " threads");
  }
}

RC_GTEST_PROP(ThreadContract, LayersGiveTheSameBits, (const ContractRecipe& recipe)) {
  LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const auto run = [&](int threads) {
    c.options.context = &shared_context(threads);
    return run_layer(layer, c.inputs, c.output_gradient, c.options);
  };
  const Results one = run(1);
  for (const int threads : kThreads) {
    require_same(one, run(threads), std::to_string(threads) + " threads");
  }
}

}  // namespace
}  // namespace headwise::test_support
