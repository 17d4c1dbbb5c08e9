// A sequence gives the same bits alone and in any batch, at any place of it.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "contract/recipes.h"
#include "contract/runs.h"
#include "support/alone.h"

namespace headwise::test_support {
namespace {

// Selected rows of weights are those of the whole batch, and weights of sequences of different
// lengths differ in shape: the suite of properties compares weights.
template <typename Options>
void ask_for_no_matrix(Options& options) {
  options.weights.matrix = WeightsRequest::Matrix::None;
  options.weights.heads.clear();
  options.weights.rows.clear();
}

// Of a result named in Results: the axis of its rows without a batch axis, and whether those are
// keys.
struct RowAxis {
  const char* name;
  int axis;
  bool of_keys;
};

void require_parts(const Results& batch, const Results& own,
                   const std::optional<PackedLengths>& packed, std::int64_t sequence,
                   const std::vector<RowAxis>& axes) {
  for (const auto& [name, axis, of_keys] : axes) {
    const auto found = batch.find(name);
    if (found == batch.end() || !own.contains(name)) continue;
    require_same(part_of(found->second, packed, sequence, axis, of_keys), own.at(name),
                 "sequence " + std::to_string(sequence) + ", " + name);
  }
}

std::vector<RowAxis> row_axes(int heads_axis_first) {
  return {{"output", heads_axis_first, false},
          {"log_sum_exp", 1, false},
          {"row_reference", 1, false},
          {"row_sum", 1, false},
          {"top.values", 1, false},
          {"top.indices", 1, false},
          {"entropy", 1, false},
          {"mean_distance", 1, false},
          {"first_key_mass", 1, false},
          {"query gradient", heads_axis_first, false},
          {"key gradient", heads_axis_first, true},
          {"value gradient", heads_axis_first, true}};
}

RC_GTEST_PROP(BatchContract, AttentionOfASequenceAloneAndInCompany, (ContractRecipe recipe)) {
  recipe.own_out = false;
  if (recipe.batch_kind == BatchKind::Single) recipe.batch_kind = BatchKind::Packed;
  OpCase c = make_op_case(recipe);
  ask_for_no_matrix(c.options);
  const Results batch = run_op(c.inputs, c.output_gradient, c.options);
  const int rows = c.options.layout == Layout::HeadsFirst ? 1 : 0;
  for (std::int64_t b = 0; b < sequence_count(c); ++b) {
    const OpAlone one = alone(c, b);
    const Results own = run_op(one.inputs, one.output_gradient, one.options);
    require_parts(batch, own, c.options.packed, b, row_axes(rows));
  }
}

// Gradients of weights sum over the batch; those of inputs do not.
RC_GTEST_PROP(BatchContract, LayerOfASequenceAloneAndInCompany, (ContractRecipe recipe)) {
  recipe.own_out = false;
  if (recipe.batch_kind == BatchKind::Single) recipe.batch_kind = BatchKind::Packed;
  LayerCase c = make_layer_case(recipe);
  ask_for_no_matrix(c.options);
  const MultiHeadAttention layer(c.config, c.weights);
  const Results batch = run_layer(layer, c.inputs, c.output_gradient, c.options);
  for (std::int64_t b = 0; b < sequence_count(c); ++b) {
    const LayerAlone one = alone(c, b);
    const Results own = run_layer(layer, one.inputs, one.output_gradient, one.options);
    require_parts(batch, own, c.options.packed, b, row_axes(0));
  }
}

}  // namespace
}  // namespace headwise::test_support
