#include "layer/layer_plan.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "ops/attention_inputs.h"

namespace headwise::layer {

namespace {

void check_input(std::string_view function, const char* argument, const ConstView& view, int rank,
                 std::int64_t features) {
  if (view.rank() != rank || view.extent(rank - 1) != features) {
    const std::string axes = rank == 3 ? "(batch, rows, " : "(rows, ";
    base::fail(function, argument, "shape " + axes + std::to_string(features) + ")",
               view.shape().to_string());
  }
}

AttentionInputs checked_inputs(std::string_view function, const AttentionConfig& config,
                               const AttentionInputs& given, bool packed) {
  AttentionInputs inputs = ops::with_defaults(given);
  const int rank = packed || inputs.query.rank() == 2 ? 2 : 3;
  check_input(function, "query", inputs.query, rank, config.query_features);
  check_input(function, "key", inputs.key, rank, config.key_inputs());
  check_input(function, "value", inputs.value, rank, config.value_inputs());
  const std::int64_t keys = inputs.key.extent(rank - 2);
  if (inputs.value.extent(rank - 2) != keys) {
    base::fail(function, "value", std::to_string(keys) + " rows as key has",
               inputs.value.shape().to_string());
  }
  for (const auto& [name, view] :
       {std::pair{"key", &inputs.key}, std::pair{"value", &inputs.value}}) {
    if (rank == 3 && view->extent(0) != inputs.query.extent(0)) {
      base::fail(function, name,
                 "batch " + std::to_string(inputs.query.extent(0)) + " as query has",
                 view->shape().to_string());
    }
  }
  return inputs;
}

std::int64_t packed_sequences(const PackedLengths& packed) {
  return packed.query.empty() ? 0 : static_cast<std::int64_t>(packed.query.size()) - 1;
}

ops::AttentionDims attention_dims(const AttentionConfig& config, const AttentionInputs& inputs,
                                  const ForwardOptions& options) {
  const int rank = inputs.query.rank();
  const std::int64_t sequences = options.packed ? packed_sequences(*options.packed) : 1;
  return {.batch = rank == 3 ? inputs.query.extent(0) : 1,
          .queries = inputs.query.extent(rank - 2),
          .keys = inputs.key.extent(rank - 2) + sequences * config.extra_keys(),
          .heads = config.num_heads,
          .kv_heads = config.kv_heads(),
          .key_size = config.key_dim,
          .value_size = config.value_size(),
          .batched = rank == 3};
}

// Lengths as the operation inside takes them: with the extra keys of every sequence.
std::optional<PackedLengths> stored_lengths(std::string_view function,
                                            const AttentionConfig& config,
                                            const AttentionInputs& inputs,
                                            const ForwardOptions& options) {
  std::optional<PackedLengths> packed = options.packed;
  if (packed && config.extra_keys() > 0) {
    // Checked here as the caller gave them, before the extra keys move them apart.
    ops::check_packed(function, *packed, inputs.query.extent(0), inputs.key.extent(0));
    auto& keys = packed->key;
    if (keys.empty()) keys = packed->query;
    for (std::size_t b = 0; b < keys.size(); ++b) {
      keys[b] += static_cast<std::int64_t>(b) * config.extra_keys();
    }
  }
  return packed;
}

// The layer's options as the operation inside takes them.
ops::PlanOptions plan_options(std::string_view function, const AttentionConfig& config,
                              const AttentionInputs& inputs, const ForwardOptions& options,
                              const std::optional<PackedLengths>& packed) {
  const std::int64_t batch = options.packed             ? packed_sequences(*options.packed)
                             : inputs.query.rank() == 3 ? inputs.query.extent(0)
                                                        : 1;
  ops::check_sequence_ids(function, "options.sequence_ids", options.sequence_ids, batch);
  return {.mask = options.mask,
          .bias = options.bias,
          .scale = config.score_scale(),
          .softcap = config.softcap,
          .dropout = options.training ? config.dropout : 0.0F,
          .dropout_seed = options.training ? options.dropout_seed.value_or(config.seed) : 0,
          .sequence_ids = options.sequence_ids,
          .packed = packed,
          .unmasked_tail = config.extra_keys()};
}

}  // namespace

LayerPlan::LayerPlan(std::string_view function, const AttentionConfig& config,
                     const AttentionInputs& given, const ForwardOptions& options)
    : inputs(checked_inputs(function, config, given, options.packed.has_value())),
      widths(config),
      attention(function, attention_dims(config, inputs, options),
                plan_options(function, config, inputs, options,
                             stored_lengths(function, config, inputs, options))) {
  const int rank = inputs.query.rank();
  output_shape = rank == 3 ? Shape{inputs.query.extent(0), inputs.query.extent(1), config.outputs()}
                           : Shape{inputs.query.extent(0), config.outputs()};
}

std::int64_t LayerPlan::stored_keys() const {
  return attention.dims.keys * (attention.shape.packed ? 1 : attention.dims.batch);
}

double LayerPlan::projection_flops(const AttentionConfig& config) const {
  const auto product = [](std::int64_t rows, std::int64_t in, std::int64_t out) {
    return 2.0 * static_cast<double>(rows) * static_cast<double>(in) * static_cast<double>(out);
  };
  return product(query_rows(), config.query_features, widths.query) +
         product(stored_keys(), config.key_inputs(), widths.key) +
         product(stored_keys(), config.value_inputs(), widths.value) +
         product(query_rows(), widths.heads, config.outputs());
}

}  // namespace headwise::layer
