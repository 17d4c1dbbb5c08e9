// Query heads that share a key/value head give what they would give with a copy of their own.
// Gradients of keys and values are sums over the group there, so those are not compared.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "contract/recipes.h"
#include "contract/runs.h"

namespace headwise::test_support {
namespace {

// Every index of the axis `group` times in a row.
Tensor repeated(const ConstView& view, int axis, std::int64_t group) {
  std::vector<std::int64_t> extents(view.shape().begin(), view.shape().end());
  extents[static_cast<std::size_t>(axis)] *= group;
  Tensor copies{Shape(extents)};
  for (std::int64_t i = 0; i < copies.extent(axis); ++i) {
    const Tensor one = Tensor::copy_of(view.sliced(axis, i / group, i / group + 1));
    const MutableView place = copies.view().sliced(axis, i, i + 1);
    std::int64_t next = 0;
    for_each_offset(place, [&](std::int64_t offset) { place.data()[offset] = one.data()[next++]; });
  }
  return copies;
}

void make_grouped(ContractRecipe& recipe) {
  recipe.own_out = false;
  recipe.group = std::max<std::int64_t>(recipe.group, 2);
}

void forget_shared_gradients(Results& results) {
  std::erase_if(results, [](const auto& named) {
    return named.first.starts_with("key") || named.first.starts_with("value") ||
           named.first.starts_with("extra");
  });
}

RC_GTEST_PROP(GroupedHeadsContract, AttentionWithKeysAndValuesRepeated, (ContractRecipe recipe)) {
  make_grouped(recipe);
  const OpCase c = make_op_case(recipe);
  const Results grouped = run_op(c.inputs, c.output_gradient, c.options);
  const int heads = c.inputs.key.rank() - (c.options.layout == Layout::HeadsFirst ? 3 : 2);
  const Tensor key = repeated(c.inputs.key, heads, recipe.group);
  const Tensor value = repeated(c.inputs.value, heads, recipe.group);
  Results own = run_op({c.inputs.query, key, value}, c.output_gradient, c.options);
  forget_shared_gradients(own);
  require_same_where_both(grouped, own, "repeated");
}

// (in, Hkv·d) or (Hkv·d) with each head's columns `group` times.
Tensor repeated_heads(const Tensor& tensor, std::int64_t heads, std::int64_t group) {
  if (tensor.size() == 0) return tensor;
  const std::int64_t size = tensor.extent(tensor.rank() - 1) / heads;
  const std::int64_t in = tensor.rank() == 2 ? tensor.extent(0) : 1;
  const Tensor copies = repeated(tensor.reshaped({in, heads, size}), 1, group);
  return tensor.rank() == 2 ? copies.reshaped({in, heads * group * size})
                            : copies.reshaped({heads * group * size});
}

RC_GTEST_PROP(GroupedHeadsContract, LayerWithKeyAndValueWeightsRepeated, (ContractRecipe recipe)) {
  make_grouped(recipe);
  const LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const Results grouped = run_layer(layer, c.inputs, c.output_gradient, c.options);
  AttentionConfig config = c.config;
  config.num_kv_heads.reset();
  AttentionWeights weights = c.weights;
  for (Tensor* tensor : {&weights.key_kernel, &weights.key_bias, &weights.value_kernel,
                         &weights.value_bias, &weights.extra_key, &weights.extra_value}) {
    *tensor = repeated_heads(*tensor, recipe.kv_heads, recipe.group);
  }
  const MultiHeadAttention copied(config, weights);
  Results own = run_layer(copied, c.inputs, c.output_gradient, c.options);
  forget_shared_gradients(own);
  require_same_where_both(grouped, own, "repeated");
}

}  // namespace
}  // namespace headwise::test_support
