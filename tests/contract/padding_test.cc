// Padding, whatever it holds, changes no bit: neither of a row nor of a sum over rows.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "contract/padded.h"
#include "contract/recipes.h"
#include "contract/runs.h"

namespace headwise::test_support {
namespace {

void make_packed(ContractRecipe& recipe) {
  recipe.batch_kind = BatchKind::Packed;
  recipe.batch = std::max<std::int64_t>(recipe.batch, 1);
  recipe.own_out = false;
  recipe.matrix = MatrixKind::None;  // (…, S), and S differs
  recipe.tail = 0;
  recipe.add_bias_kv = recipe.add_zero_attn = false;
}

RC_GTEST_PROP(PaddingContract, AttentionPaddedAndPacked, (ContractRecipe recipe)) {
  make_packed(recipe);
  const OpCase packed = make_op_case(recipe);
  const OpCase c = padded(packed);
  const Results expected = run_op(packed.inputs, packed.output_gradient, packed.options);
  const Results got = unpadded(run_op(c.inputs, c.output_gradient, c.options),
                               *packed.options.packed, packed.options.layout);
  require_same_where_both(expected, got, "padded");
}

RC_GTEST_PROP(PaddingContract, LayersPaddedAndPacked, (ContractRecipe recipe)) {
  make_packed(recipe);
  // Normalising one number gives exactly 0, and 0·NaN is taken for 0 only where NaN was seen among
  // the keys, if but in the padding.
  if (recipe.norm == 2 && recipe.key_dim == 1) recipe.spoilt = false;
  const LayerCase packed = make_layer_case(recipe);
  const LayerCase c = padded(packed);
  const MultiHeadAttention layer(c.config, c.weights);
  const Results expected = run_layer(layer, packed.inputs, packed.output_gradient, packed.options);
  const Results got = unpadded(run_layer(layer, c.inputs, c.output_gradient, c.options),
                               *packed.options.packed, Layout::SequenceFirst);
  require_same_where_both(expected, got, "padded");
}

}  // namespace
}  // namespace headwise::test_support
