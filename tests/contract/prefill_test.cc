// A query gives the same bits however the prefill was cut, and whether it came by prefill or by
// decode.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <limits>

#include "contract/cut_rows.h"
#include "contract/recipes.h"
#include "contract/runs.h"
#include "support/expect_bits.h"

namespace headwise::test_support {
namespace {

// One sequence, its rows' positions known; weights of all rows or none.
void make_cuttable(ContractRecipe& recipe) {
  recipe.batch_kind = BatchKind::Single;
  recipe.batch = 1;
  recipe.own_out = false;
  recipe.queries = std::max<std::int64_t>(recipe.queries, 1);
  if (recipe.positions == PositionKind::BottomRight) recipe.positions = PositionKind::Offset;
  if (recipe.matrix != MatrixKind::None) recipe.matrix = MatrixKind::PerHead;
}

struct Rows {
  std::int64_t begin, end;
};

// All rows in pieces of any size, many of them of few rows: those take kernels of their own.
std::vector<Rows> random_cuts(std::int64_t rows, Dice& dice) {
  std::vector<Rows> cuts;
  const int most = 6;  // a case runs once for each
  for (std::int64_t begin = 0; begin < rows;) {
    const std::int64_t left = rows - begin;
    std::int64_t size = dice.chance(0.5) ? dice.between(1, 9) : dice.between(1, left);
    // Where masks end with a panel nothing of it is hidden, and kernels take a shorter way.
    if (dice.chance(0.3)) size = (begin + size + 15) / 16 * 16 - begin;
    if (static_cast<int>(cuts.size()) == most - 1) size = left;
    size = std::min(size, left);
    cuts.push_back({begin, begin + size});
    begin += size;
  }
  return cuts;
}

std::string name_of(const Rows& rows) {
  return "rows " + std::to_string(rows.begin) + " to " + std::to_string(rows.end);
}

RC_GTEST_PROP(PrefillContract, AttentionInChunks, (ContractRecipe recipe)) {
  make_cuttable(recipe);
  const OpCase c = make_op_case(recipe);
  const int row_axis = c.options.layout == Layout::HeadsFirst ? 1 : 0;
  const Results whole = run_op(c.inputs, c.output_gradient, c.options);
  Dice dice(recipe.seed);
  for (const Rows& rows : random_cuts(c.inputs.query.extent(row_axis), dice)) {
    const OpAlone cut = cut_rows(c, rows.begin, rows.end);
    const Results own = run_op(cut.inputs, cut.output_gradient, cut.options);
    require_same_where_both(cut_rows(whole, row_axis, rows.begin, rows.end), own, name_of(rows));
  }
}

RC_GTEST_PROP(PrefillContract, LayerInChunks, (ContractRecipe recipe)) {
  make_cuttable(recipe);
  // Otherwise the query's gradient would be that of the keys as well.
  if (recipe.inputs == InputKind::AllSame) recipe.inputs = InputKind::KeyIsValue;
  const LayerCase c = make_layer_case(recipe);
  const MultiHeadAttention layer(c.config, c.weights);
  const Results whole = run_layer(layer, c.inputs, c.output_gradient, c.options);
  Dice dice(recipe.seed);
  for (const Rows& rows : random_cuts(c.inputs.query.extent(0), dice)) {
    const LayerAlone cut = cut_rows(c, rows.begin, rows.end);
    const Results own = run_layer(layer, cut.inputs, cut.output_gradient, cut.options);
    require_same_where_both(cut_rows(whole, 0, rows.begin, rows.end), own, name_of(rows));
  }
}

// As a decoder meets it: the last queries of a causal prefill, over the keys there are by then.
RC_GTEST_PROP(PrefillContract, LastQueriesOfACausalPrefill, (ContractRecipe recipe)) {
  make_cuttable(recipe);
  recipe.window = WindowKind::Causal;
  recipe.positions = PositionKind::Unsaid;
  recipe.keys = recipe.queries = std::max(recipe.keys, recipe.queries);
  while (multiply_adds(recipe) > 40'000'000) recipe.keys = recipe.queries /= 2;
  recipe.tail = 0;
  recipe.segments = recipe.keeps = recipe.biases = 0;  // (T,S) arrays would have to lose keys too
  recipe.key_lengths = 0;
  const OpCase c = make_op_case(recipe);
  const int axis = c.options.layout == Layout::HeadsFirst ? 1 : 0;
  const std::int64_t keys = c.inputs.key.extent(axis);
  const Results whole = run_op(c.inputs, c.output_gradient, c.options);
  Dice dice(recipe.seed);
  for (int i = 0; i < 4; ++i) {
    std::int64_t end = i == 0 ? keys : dice.between(1, keys);
    if (i > 1) end = std::min(keys, (end + 15) / 16 * 16);
    const Rows rows{std::max<std::int64_t>(0, end - (i == 0 ? 1 : dice.between(1, 9))), end};
    OpAlone cut = cut_rows(c, rows.begin, rows.end);
    cut.inputs.key = cut.inputs.key.sliced(axis, 0, end);
    cut.inputs.value = cut.inputs.value.sliced(axis, 0, end);
    Results own = run_op(cut.inputs, cut.output_gradient, cut.options);
    own.erase("weights");  // (…, end) there, (…, S) in the whole
    require_same_where_both(cut_rows(whole, axis, rows.begin, rows.end), own, name_of(rows));
  }
}

// A decoder's cache is longer than what it holds, and nobody clears the rest. Every length, because
// kernels treat one that ends with a panel of 16 keys unlike others.
TEST(PrefillContract, QueriesBeforeGarbageInTheCache) {
  constexpr std::int64_t kCache = 300;
  const Tensor query = Tensor::normal({9, 2, 32}, 1);
  const Tensor key = Tensor::normal({kCache, 1, 32}, 2);
  const Tensor value = Tensor::normal({kCache, 1, 48}, 3);
  for (std::int64_t length = 1; length < kCache; ++length) {
    Tensor spoilt_key = key;
    Tensor spoilt_value = value;
    const auto spoil = [](Tensor& tensor, std::int64_t first, float with) {
      std::fill(tensor.data() + first * tensor.extent(2), tensor.data() + tensor.size(), with);
    };
    const float nan = std::numeric_limits<float>::quiet_NaN();
    spoil(spoilt_key, length, length % 2 == 0 ? 1e4F : nan);
    spoil(spoilt_value, length, nan);
    for (const std::int64_t rows : {1, 2, 5, 8, 9}) {
      const ConstView queries = query.view().sliced(0, 0, rows);
      const auto exact =
          attention(queries, key.view().sliced(0, 0, length), value.view().sliced(0, 0, length));
      for (const Mask& mask : {valid_lengths({length}), window({}, length - 1) & query_offset(0) &
                                                            valid_lengths({length})}) {
        const auto got = attention(queries, spoilt_key, spoilt_value, {.mask = mask});
        ASSERT_TRUE(same_bits(exact, got)) << length << " keys, " << rows << " queries";
      }
    }
  }
}

}  // namespace
}  // namespace headwise::test_support
