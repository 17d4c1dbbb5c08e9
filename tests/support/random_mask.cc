// Masks, biases and weight requests of random cases.
#include <limits>
#include <set>

#include "support/random_case.h"

namespace headwise::test_support {
namespace {

StrideStyle array_style(const Recipe& recipe) {
  return recipe.odd_strides ? StrideStyle::OddOrRepeated : StrideStyle::RowMajor;
}

struct ArrayForm {
  std::optional<Axes> axes;
  Shape shape;
};

// Any of the six kinds of axes, any of them broadcast; a packed batch has a batch axis of 1.
ArrayForm draw_array_form(const Sizes& sizes, Dice& dice) {
  const std::int64_t b = sizes.packed ? 1 : sizes.batch;
  const std::int64_t h = sizes.heads;
  const std::int64_t q = sizes.query_axis();
  const std::int64_t k = sizes.key_axis();
  std::vector<std::int64_t> extents;
  const auto axes = static_cast<Axes>(dice.between(0, static_cast<std::int64_t>(Axes::BatchQuery)));
  switch (axes) {
    case Axes::BatchHeadQueryKey:
      extents = {b, h, q, k};
      break;
    case Axes::QueryKey:
      extents = {q, k};
      break;
    case Axes::BatchQueryKey:
      extents = {b, q, k};
      break;
    case Axes::HeadQueryKey:
      extents = {h, q, k};
      break;
    case Axes::BatchKey:
      extents = {b, k};
      break;
    case Axes::BatchQuery:
      extents = {b, q};
      break;
  }
  for (std::int64_t& extent : extents) {
    if (dice.chance(0.25)) extent = 1;
  }
  const bool understood = axes == Axes::BatchHeadQueryKey || axes == Axes::QueryKey;
  ArrayForm form{axes, Shape(extents)};
  if (understood && dice.chance(0.5)) form.axes.reset();
  return form;
}

Mask position_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice) {
  const auto offset = [&] { return dice.between(0, sizes.key_axis() + 2); };
  switch (recipe.positions) {
    case PositionKind::Unsaid:
      return {};
    case PositionKind::TopLeft:
      return aligned(Alignment::TopLeft);
    case PositionKind::BottomRight:
      return aligned(Alignment::BottomRight);
    case PositionKind::Offset:
      return query_offset(offset());
    case PositionKind::Offsets:
      break;
  }
  std::vector<std::int64_t> offsets;
  for (std::int64_t b = 0; b < sizes.batch; ++b) offsets.push_back(offset());
  return offsets.empty() ? query_offset(0) : query_offsets(offsets);
}

Mask window_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice) {
  if (recipe.window == WindowKind::None) return {};
  if (recipe.window == WindowKind::Causal) {
    const bool says_alignment = recipe.positions == PositionKind::BottomRight;
    return says_alignment ? causal(Alignment::BottomRight) : causal();
  }
  const auto side = [&]() -> std::optional<std::int64_t> {
    if (dice.chance(0.3)) return std::nullopt;
    return dice.between(0, 1 + sizes.key_axis() / 2);
  };
  const auto left = side();
  return window(left, side());
}

// A packed batch's lengths are those of its sequences; per query they would need a padded T.
Mask length_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice, Memory& memory) {
  Mask mask;
  const auto of_sequences = [&](const std::vector<std::int64_t>& longest) {
    std::size_t b = 0;
    return make_filled<std::int64_t>(
        {sizes.batch}, recipe.odd_strides ? StrideStyle::Odd : StrideStyle::RowMajor, dice, memory,
        [&] { return dice.between(0, longest[sizes.packed ? b++ : 0]); });
  };
  if ((recipe.key_lengths & 1) != 0) mask = mask & valid_lengths(of_sequences(sizes.keys));
  if ((recipe.key_lengths & 2) != 0 && !sizes.packed) {
    const Shape per_query{sizes.batch, sizes.query_axis()};
    mask = mask & valid_lengths(
                      make_filled<std::int64_t>(per_query, array_style(recipe), dice, memory,
                                                [&] { return dice.between(0, sizes.key_axis()); }));
  }
  if (recipe.query_lengths) mask = mask & query_lengths(of_sequences(sizes.queries));
  return mask;
}

Mask segment_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice, Memory& memory) {
  if (recipe.segments == 0) return {};
  const auto ids = [&](std::int64_t rows) {
    const bool per_sequence = recipe.segments == 2 && !sizes.packed;
    return make_filled<std::int64_t>(per_sequence ? Shape{sizes.batch, rows} : Shape{rows},
                                     array_style(recipe), dice, memory,
                                     [&] { return dice.between(0, 2); });
  };
  const std::int64_t query_rows = sizes.query_axis();
  const std::int64_t key_rows = sizes.packed ? sizes.total_keys() : sizes.key_axis();
  const auto query_ids = ids(query_rows);
  // As many keys as queries, in every sequence: the same ids may serve for both.
  if (sizes.queries == sizes.keys && dice.chance(0.5)) return segments(query_ids);
  return segments(query_ids, ids(key_rows));
}

// Some of 0 … n−1, in any order.
std::vector<std::int64_t> draw_some(std::int64_t n, Dice& dice) {
  std::vector<std::int64_t> some;
  for (std::int64_t i = 0; i < n; ++i) {
    if (dice.chance(0.4)) some.push_back(i);
  }
  dice.shuffle(some);
  return some;
}

}  // namespace

Mask make_mask(const Recipe& recipe, const Sizes& sizes, Dice& dice, Memory& memory) {
  Mask mask = window_mask(recipe, sizes, dice) & position_mask(recipe, sizes, dice);
  mask = mask & length_mask(recipe, sizes, dice, memory);
  for (int i = 0; i < recipe.keeps; ++i) {
    const ArrayForm form = draw_array_form(sizes, dice);
    mask = mask & keep(make_filled<bool>(form.shape, array_style(recipe), dice, memory,
                                         [&] { return dice.chance(0.8); }),
                       form.axes);
  }
  return mask & segment_mask(recipe, sizes, dice, memory);
}

std::vector<Bias> make_biases(const Recipe& recipe, const Sizes& sizes, Dice& dice,
                              Memory& memory) {
  constexpr float hidden = -std::numeric_limits<float>::infinity();
  std::vector<Bias> biases;
  for (int i = 0; i < recipe.biases; ++i) {
    const ArrayForm form = draw_array_form(sizes, dice);
    biases.emplace_back(make_filled<float>(form.shape, array_style(recipe), dice, memory,
                                           [&] {
                                             if (recipe.infinite_bias && dice.chance(0.1))
                                               return hidden;
                                             return dice.normal(1.0F);
                                           }),
                        form.axes);
  }
  return biases;
}

WeightsRequest make_weights_request(const Recipe& recipe, const Sizes& sizes, Dice& dice) {
  WeightsRequest request = no_weights();
  if (recipe.matrix == MatrixKind::PerHead) request = all_weights();
  if (recipe.matrix == MatrixKind::Averaged) request = averaged_weights();
  if (recipe.matrix == MatrixKind::Selected) {
    request = selected_weights(draw_some(sizes.heads, dice), draw_some(sizes.query_axis(), dice));
  }
  if (recipe.top_k > 0) request = request | top_k_weights(recipe.top_k);
  if (recipe.statistics) request = request | weight_statistics();
  return request;
}

}  // namespace headwise::test_support
