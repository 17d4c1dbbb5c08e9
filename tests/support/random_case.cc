#include "support/random_case.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headwise::test_support {
namespace {

StrideStyle style_of(const Recipe& recipe, StrideStyle odd) {
  return recipe.odd_strides ? odd : StrideStyle::RowMajor;
}

std::unique_ptr<Context> make_context(const Recipe& recipe) {
  return recipe.threads > 0 ? std::make_unique<Context>(recipe.threads) : nullptr;
}

std::vector<std::int64_t> make_sequence_ids(const Recipe& recipe, const Sizes& sizes, Dice& dice) {
  std::vector<std::int64_t> ids;
  if (!recipe.sequence_ids) return ids;
  for (std::int64_t b = 0; b < sizes.batch; ++b) ids.push_back(dice.between(0, 1000));
  return ids;
}

std::optional<PackedLengths> make_packed(const Recipe& recipe, const Sizes& sizes,
                                         std::int64_t tail) {
  if (!sizes.packed) return {};
  PackedLengths packed = sizes.cumulative(tail);
  // Left out where it says nothing new, as a caller would.
  if (packed.key == packed.query && recipe.seed % 2 == 0) packed.key.clear();
  return packed;
}

Shape head_shape(const Sizes& sizes, Layout layout, std::int64_t rows, std::int64_t heads,
                 std::int64_t size) {
  std::vector<std::int64_t> shape;
  if (sizes.batched) shape.push_back(sizes.batch);
  if (layout == Layout::SequenceFirst) {
    shape.insert(shape.end(), {rows, heads, size});
  } else {
    shape.insert(shape.end(), {heads, rows, size});
  }
  return Shape(shape);
}

Shape feature_shape(const Sizes& sizes, std::int64_t rows, std::int64_t features) {
  return sizes.batched ? Shape{sizes.batch, rows, features} : Shape{rows, features};
}

Tensor drawn(const Shape& shape, Dice& dice, float mean, float deviation) {
  Tensor tensor(shape);
  for (float& value : tensor.values()) value = mean + dice.normal(deviation);
  return tensor;
}

AttentionConfig make_config(const Recipe& r) {
  AttentionConfig config;
  config.num_heads = r.kv_heads * r.group;
  if (r.group > 1) config.num_kv_heads = r.kv_heads;
  config.key_dim = r.key_dim;
  if (r.value_dim != r.key_dim) config.value_dim = r.value_dim;
  config.query_features = r.query_features;
  if (r.inputs != InputKind::AllSame) config.key_features = r.key_features;
  if (r.inputs == InputKind::Three) config.value_features = r.value_features;
  config.output_features = r.output_features;
  config.use_bias = r.use_bias;
  if (r.output_bias != r.use_bias) config.use_output_bias = r.output_bias;
  config.dropout = r.dropout;
  if (r.scale) config.scale = 0.3F;
  if (r.softcap) config.softcap = 2.5F;
  config.use_gate = r.gate;
  config.qk_norm = r.norm == 0 ? QkNorm::None : r.norm == 1 ? QkNorm::RmsNorm : QkNorm::LayerNorm;
  config.add_bias_kv = r.add_bias_kv;
  config.add_zero_attn = r.add_zero_attn;
  config.seed = r.seed ^ 0x5A5AU;
  return config;
}

// Kernels keep the inputs' size; biases and norm scales are drawn too, so that nothing stays hidden
// behind a 0 or a 1.
AttentionWeights make_weights(const AttentionConfig& c, Dice& dice) {
  AttentionWeights w;
  const std::int64_t query_size = c.num_heads * c.key_dim;
  const std::int64_t key_size = c.kv_heads() * c.key_dim;
  const std::int64_t value_size = c.kv_heads() * c.value_size();
  const std::int64_t heads_size = c.num_heads * c.value_size();
  const auto kernel = [&](std::int64_t in, std::int64_t out) {
    return drawn({in, out}, dice, 0.0F, 1.0F / std::sqrt(static_cast<float>(in)));
  };
  const auto vector = [&](bool present, std::int64_t size, float mean) {
    return present ? drawn({size}, dice, mean, 0.5F) : Tensor();
  };
  w.query_kernel = kernel(c.query_features, query_size);
  w.query_bias = vector(c.use_bias, query_size, 0.0F);
  w.key_kernel = kernel(c.key_inputs(), key_size);
  w.key_bias = vector(c.use_bias, key_size, 0.0F);
  w.value_kernel = kernel(c.value_inputs(), value_size);
  w.value_bias = vector(c.use_bias, value_size, 0.0F);
  if (c.use_gate) w.gate_kernel = kernel(c.query_features, heads_size);
  w.gate_bias = vector(c.use_gate && c.use_bias, heads_size, 0.0F);
  w.output_kernel = kernel(heads_size, c.outputs());
  w.output_bias = vector(c.has_output_bias(), c.outputs(), 0.0F);
  w.query_norm = vector(c.qk_norm != QkNorm::None, c.key_dim, 1.0F);
  w.key_norm = vector(c.qk_norm != QkNorm::None, c.key_dim, 1.0F);
  w.extra_key = vector(c.add_bias_kv, key_size, 0.0F);
  w.extra_value = vector(c.add_bias_kv, value_size, 0.0F);
  return w;
}

}  // namespace

PackedLengths Sizes::cumulative(std::int64_t extra_keys) const {
  PackedLengths lengths{{0}, {0}};
  for (std::size_t b = 0; b < queries.size(); ++b) {
    lengths.query.push_back(lengths.query.back() + queries[b]);
    lengths.key.push_back(lengths.key.back() + keys[b] + extra_keys);
  }
  return lengths;
}

std::int64_t Sizes::query_axis() const {
  if (packed) return std::accumulate(queries.begin(), queries.end(), std::int64_t{0});
  return queries.front();
}

std::int64_t Sizes::key_axis() const {
  return keys.empty() ? 0 : *std::max_element(keys.begin(), keys.end());
}

std::int64_t Sizes::total_keys() const {
  return std::accumulate(keys.begin(), keys.end(), std::int64_t{0});
}

Sizes make_sizes(const Recipe& recipe, std::int64_t tail, Dice& dice) {
  Sizes sizes;
  sizes.packed = recipe.batch_kind == BatchKind::Packed;
  sizes.batched = recipe.batch_kind == BatchKind::Padded;
  sizes.batch = recipe.batch_kind == BatchKind::Single ? 1 : recipe.batch;
  sizes.heads = recipe.kv_heads * recipe.group;
  sizes.tail = tail;
  // A window needs to know where the queries stand: as many of them as keys, or a position.
  const bool as_many =
      recipe.window != WindowKind::None && recipe.positions == PositionKind::Unsaid;
  const std::int64_t lengths = sizes.packed ? sizes.batch : std::max<std::int64_t>(sizes.batch, 1);
  for (std::int64_t b = 0; b < lengths; ++b) {
    const bool vary = sizes.packed && dice.chance(0.8);
    sizes.queries.push_back(vary ? dice.between(0, recipe.queries) : recipe.queries);
    const std::int64_t keys = vary ? dice.between(0, recipe.keys) : recipe.keys;
    sizes.keys.push_back(as_many ? sizes.queries.back() : keys);
  }
  return sizes;
}

OpCase make_op_case(const Recipe& recipe) {
  OpCase c;
  c.recipe = recipe;
  Dice dice(recipe.seed);
  const Sizes sizes = make_sizes(recipe, recipe.tail, dice);
  AttentionOptions& o = c.options;
  o.layout = dice.chance(0.5) ? Layout::HeadsFirst : Layout::SequenceFirst;
  o.packed = make_packed(recipe, sizes, recipe.tail);
  o.unmasked_tail = recipe.tail;
  const std::int64_t query_rows = sizes.query_axis();
  const std::int64_t key_rows = sizes.packed ? sizes.total_keys() + sizes.batch * recipe.tail
                                             : sizes.key_axis() + recipe.tail;

  const auto tensor = [&](std::int64_t rows, std::int64_t heads, std::int64_t size,
                          float deviation) {
    return make_filled<float>(head_shape(sizes, o.layout, rows, heads, size),
                              style_of(recipe, StrideStyle::OddOrRepeated), dice, c.memory,
                              [&] { return dice.normal(deviation); });
  };
  c.inputs.query = tensor(query_rows, sizes.heads, recipe.key_dim, recipe.deviation);
  c.inputs.key = tensor(key_rows, recipe.kv_heads, recipe.key_dim, recipe.deviation);
  c.inputs.value = tensor(key_rows, recipe.kv_heads, recipe.value_dim, recipe.deviation);
  c.output_gradient = tensor(query_rows, sizes.heads, recipe.value_dim, 1.0F);
  if (recipe.own_out) {
    o.out =
        make_strided<float>(head_shape(sizes, o.layout, query_rows, sizes.heads, recipe.value_dim),
                            style_of(recipe, StrideStyle::Odd), dice, c.memory)
            .view;
  }
  o.mask = make_mask(recipe, sizes, dice, c.memory);
  o.bias = make_biases(recipe, sizes, dice, c.memory);
  if (recipe.scale) o.scale = 0.3F;
  if (recipe.softcap) o.softcap = 2.5F;
  o.dropout = {recipe.dropout, dice.bits(), make_sequence_ids(recipe, sizes, dice)};
  o.weights = make_weights_request(recipe, sizes, dice);
  c.context = make_context(recipe);
  o.context = c.context.get();
  return c;
}

LayerCase make_layer_case(const Recipe& original) {
  LayerCase c;
  c.recipe = original;
  Recipe& recipe = c.recipe;
  // The query stands for the keys too: as many of them.
  if (recipe.inputs == InputKind::AllSame) recipe.keys = recipe.queries;
  c.config = make_config(recipe);
  Dice dice(recipe.seed);
  Sizes sizes = make_sizes(recipe, c.config.extra_keys(), dice);
  if (recipe.inputs == InputKind::AllSame) sizes.keys = sizes.queries;
  c.weights = make_weights(c.config, dice);

  const std::int64_t key_rows = sizes.packed ? sizes.total_keys() : sizes.key_axis();
  const auto tensor = [&](std::int64_t rows, std::int64_t features, float deviation) {
    return make_filled<float>(feature_shape(sizes, rows, features),
                              style_of(recipe, StrideStyle::OddOrRepeated), dice, c.memory,
                              [&] { return dice.normal(deviation); });
  };
  c.inputs.query = tensor(sizes.query_axis(), c.config.query_features, recipe.deviation);
  if (recipe.inputs != InputKind::AllSame)
    c.inputs.key = tensor(key_rows, c.config.key_inputs(), recipe.deviation);
  if (recipe.inputs == InputKind::Three)
    c.inputs.value = tensor(key_rows, c.config.value_inputs(), recipe.deviation);
  c.output_gradient = tensor(sizes.query_axis(), c.config.outputs(), 1.0F);

  ForwardOptions& o = c.options;
  if (recipe.own_out) {
    o.out = make_strided<float>(feature_shape(sizes, sizes.query_axis(), c.config.outputs()),
                                style_of(recipe, StrideStyle::Odd), dice, c.memory)
                .view;
  }
  o.packed = make_packed(recipe, sizes, 0);
  o.mask = make_mask(recipe, sizes, dice, c.memory);
  o.bias = make_biases(recipe, sizes, dice, c.memory);
  o.weights = make_weights_request(recipe, sizes, dice);
  o.training = recipe.dropout > 0.0F && dice.chance(0.8);
  if (dice.chance(0.5)) o.dropout_seed = dice.bits();
  o.sequence_ids = make_sequence_ids(recipe, sizes, dice);
  c.context = make_context(recipe);
  o.context = c.context.get();
  return c;
}

}  // namespace headwise::test_support
