#include "contract/recipes.h"

#include <algorithm>
#include <limits>
#include <ostream>
#include <vector>

namespace headwise::test_support {
namespace {

template <typename T>
T within(T low, T high) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange<T>(low, high + 1));
}

std::int64_t one_of(const std::vector<std::int64_t>& sizes) { return *rc::gen::elementOf(sizes); }

// Panels are 16 wide, key blocks 128 (backward) and 256 (forward) long, row groups 24 to 112 rows
// high, projections cut into chunks of 128 and 256 rows; up to 8 rows take kernels of their own.
void enlarge(Recipe& r) {
  r.keys =
      within(0, 2) == 0 ? one_of({255, 256, 257, 511, 512, 513}) : within<std::int64_t>(1, 700);
  const int kind = within(0, 3);
  r.queries = kind == 0   ? within<std::int64_t>(1, 9)
              : kind == 1 ? one_of({16, 24, 47, 48, 49, 127, 128, 129, 257})
                          : within<std::int64_t>(1, 600);
  r.batch = within<std::int64_t>(1, 3);
  r.kv_heads = within<std::int64_t>(1, 2);
  r.group = within<std::int64_t>(1, 4);
  r.key_dim = one_of({16, 24, 33, 40, 64, 80, 128});
  r.value_dim = one_of({16, 31, 32, 48, 64, 65, 128});
  r.query_features = one_of({24, 64, 129, 200});
  r.key_features = one_of({24, 64, 129});
  r.value_features = one_of({24, 64, 129});
  r.output_features = one_of({24, 64, 129, 200});
  if (within(0, 1) == 1) r.keeps = r.segments = r.key_lengths = r.biases = 0;  // ranges alone
  // A case runs several times: keep each of them within some milliseconds.
  constexpr std::int64_t most_entries = 150'000;
  constexpr std::int64_t most_work = 40'000'000;
  const auto too_much = [&] {
    return r.batch * r.kv_heads * r.group * r.queries * r.keys > most_entries ||
           multiply_adds(r) > most_work || projection_multiply_adds(r) > 2 * most_work;
  };
  if (too_much()) r.batch = 1;
  if (too_much()) r.kv_heads = 1;
  if (too_much()) r.group = 1;
  while (too_much()) (r.queries > r.keys ? r.queries : r.keys) -= 37;
}

// The views of a case are read-only; what they look at is the case's own.
void plant(const ConstView& view, Dice& dice) {
  static constexpr float kInfinity = std::numeric_limits<float>::infinity();
  // No denormal: a product that underflows leaves a zero whose sign a hidden key's +0 changes.
  static constexpr float kSpoilt[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity,
                                      -kInfinity, 3e38F, -1e30F};
  if (!view.present() || view.size() == 0) return;
  std::vector<std::int64_t> offsets;
  for_each_offset(view, [&](std::int64_t offset) { offsets.push_back(offset); });
  const auto last = static_cast<std::int64_t>(offsets.size()) - 1;
  for (std::int64_t count = dice.between(0, 2); count > 0; --count) {
    const std::int64_t offset = offsets[static_cast<std::size_t>(dice.between(0, last))];
    const_cast<float*>(view.data())[offset] = kSpoilt[dice.between(0, 4)];
  }
}

template <typename Case>
void plant_all(Case& c, const ContractRecipe& recipe) {
  if (!recipe.spoilt) return;
  Dice dice(recipe.seed ^ 0x5901U);
  for (const ConstView& view : {c.inputs.query, c.inputs.key, c.inputs.value, c.output_gradient}) {
    plant(view, dice);
  }
}

}  // namespace

std::ostream& operator<<(std::ostream& stream, const ContractRecipe& recipe) {
  return stream << describe(recipe) << (recipe.spoilt ? " spoilt" : "");
}

std::int64_t multiply_adds(const Recipe& r) {
  const std::int64_t entries = r.batch * r.kv_heads * r.group * r.queries * r.keys;
  return entries * (4 * r.key_dim + 3 * r.value_dim);
}

std::int64_t projection_multiply_adds(const Recipe& r) {
  const std::int64_t of_query =
      r.kv_heads * r.group *
      (r.query_features * (r.key_dim + r.value_dim) + r.value_dim * r.output_features);
  const std::int64_t of_key =
      r.kv_heads * (r.key_features * r.key_dim + r.value_features * r.value_dim);
  return 3 * r.batch * (r.queries * of_query + r.keys * of_key);
}

rc::Gen<ContractRecipe> contract_recipes() {
  return rc::gen::exec([] {
    ContractRecipe recipe{*recipes()};
    if (within(0, 1) == 1) enlarge(recipe);
    recipe.spoilt = within(0, 5) == 5;
    return recipe;
  });
}

OpCase make_op_case(const ContractRecipe& recipe) {
  OpCase c = make_op_case(static_cast<const Recipe&>(recipe));
  plant_all(c, recipe);
  return c;
}

LayerCase make_layer_case(const ContractRecipe& recipe) {
  LayerCase c = make_layer_case(static_cast<const Recipe&>(recipe));
  plant_all(c, recipe);
  return c;
}

}  // namespace headwise::test_support
