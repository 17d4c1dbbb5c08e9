#include "ops/attention_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <span>
#include <string>

#include "base/check.h"
#include "headwise/error.h"

namespace headwise::ops {

namespace {

using masks::ScoreShape;
using masks::Sequence;

// Sizes that only views of stride 0 or without elements can have are refused before lists of them
// grow until memory is gone.
void require_room(std::int64_t count, std::size_t element_bytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  if (count > kMost) throw OutOfMemory(static_cast<std::size_t>(kMost) * element_bytes);
}

void check_cumulative(std::string_view function, const char* argument,
                      const std::vector<std::int64_t>& cumulative, std::int64_t total) {
  const auto expected = "cumulative lengths from 0 to " + std::to_string(total);
  if (cumulative.empty() || cumulative.front() != 0) {
    base::fail(
        function, argument, expected,
        cumulative.empty() ? "none" : "a first one of " + std::to_string(cumulative.front()));
  }
  for (std::size_t i = 1; i < cumulative.size(); ++i) {
    if (cumulative[i] < cumulative[i - 1]) {
      base::fail(function, argument, expected,
                 std::to_string(cumulative[i]) + " after " + std::to_string(cumulative[i - 1]));
    }
  }
  if (cumulative.back() != total) {
    base::fail(function, argument, expected, "a last one of " + std::to_string(cumulative.back()));
  }
}

void check_tail(std::string_view function, std::int64_t tail, std::int64_t keys) {
  if (tail < 0 || tail > keys) {
    base::fail(function, "options.unmasked_tail", "0 … " + std::to_string(keys) + " keys",
               std::to_string(tail));
  }
}

ScoreShape packed_shape(std::string_view function, const AttentionDims& dims,
                        const PlanOptions& options) {
  const auto& queries = options.packed->query;
  const auto& keys = options.packed->key.empty() ? queries : options.packed->key;
  check_packed(function, *options.packed, dims.queries, dims.keys);
  ScoreShape shape;
  for (std::size_t b = 0; b + 1 < queries.size(); ++b) {
    const std::int64_t stored = keys[b + 1] - keys[b];
    check_tail(function, options.unmasked_tail, stored);
    const std::int64_t own = stored - options.unmasked_tail;
    shape.sequences.push_back(
        {queries[b], queries[b + 1] - queries[b], keys[b], shape.all_own_keys, own});
    shape.own_keys = std::max(shape.own_keys, own);
    shape.all_own_keys += own;
  }
  shape.packed = true;
  return shape;
}

ScoreShape padded_shape(std::string_view function, const AttentionDims& dims,
                        const PlanOptions& options) {
  check_tail(function, options.unmasked_tail, dims.keys);
  ScoreShape shape;
  shape.own_keys = dims.keys - options.unmasked_tail;
  require_room(dims.batch, sizeof(Sequence));
  shape.sequences.assign(static_cast<std::size_t>(dims.batch),
                         Sequence{0, dims.queries, 0, 0, shape.own_keys});
  return shape;
}

ScoreShape score_shape(std::string_view function, const AttentionDims& dims,
                       const PlanOptions& options) {
  ScoreShape shape = options.packed ? packed_shape(function, dims, options)
                                    : padded_shape(function, dims, options);
  shape.heads = dims.heads;
  shape.tail = options.unmasked_tail;
  shape.query_rows = dims.queries;
  return shape;
}

kernels::ScoreRule score_rule(std::string_view function, const AttentionDims& dims,
                              const PlanOptions& options) {
  // Heads without features have scores of 0 whatever the scale.
  const float usual =
      dims.key_size == 0 ? 1.0F : 1.0F / std::sqrt(static_cast<float>(dims.key_size));
  const float scale = options.scale.value_or(usual);
  if (!std::isfinite(scale)) {
    base::fail(function, "options.scale", "a finite number",
               base::to_string(static_cast<double>(scale)));
  }
  const float softcap = options.softcap.value_or(0.0F);
  if (options.softcap && !(std::isfinite(softcap) && softcap > 0.0F)) {
    base::fail(function, "options.softcap", "a finite number > 0",
               base::to_string(static_cast<double>(softcap)));
  }
  // With a positive scale alone, one factor makes exponents of raw products. Where it would be too
  // small or large for that, scores are finished first.
  const auto factor = static_cast<float>(static_cast<double>(scale) * std::numbers::log2e);
  const bool plain =
      !options.softcap && options.bias.empty() && factor > 0x1p-60F && factor < 0x1p60F;
  return {scale, softcap, plain ? factor : std::numbers::log2e_v<float>, !plain};
}

float checked_dropout(std::string_view function, const PlanOptions& options, std::int64_t batch) {
  if (!(options.dropout >= 0.0F && options.dropout < 1.0F)) {
    base::fail(function, "options.dropout.probability", "a number in [0, 1)",
               base::to_string(static_cast<double>(options.dropout)));
  }
  check_sequence_ids(function, "options.dropout.sequence_ids", options.sequence_ids, batch);
  return options.dropout;
}

}  // namespace

void check_packed(std::string_view function, const PackedLengths& packed, std::int64_t queries,
                  std::int64_t keys) {
  const auto& key = packed.key.empty() ? packed.query : packed.key;
  check_cumulative(function, "options.packed.query", packed.query, queries);
  check_cumulative(function, "options.packed.key", key, keys);
  if (packed.query.size() != key.size()) {
    base::fail(function, "options.packed.key",
               std::to_string(packed.query.size() - 1) + " sequences",
               std::to_string(key.size() - 1));
  }
}

void check_sequence_ids(std::string_view function, std::string_view argument,
                        const std::vector<std::int64_t>& ids, std::int64_t batch) {
  if (!ids.empty() && static_cast<std::int64_t>(ids.size()) != batch) {
    base::fail(function, argument, std::to_string(batch) + " ids, one for each sequence",
               std::to_string(ids.size()));
  }
  for (const std::int64_t id : ids) {
    if (id < 0 || id > std::numeric_limits<std::uint32_t>::max()) {
      base::fail(function, argument, "ids within 0 … 2^32 − 1", std::to_string(id));
    }
  }
}

AttentionPlan::AttentionPlan(std::string_view function, const AttentionDims& dims_,
                             const PlanOptions& options)
    : dims(dims_),
      shape(score_shape(function, dims, options)),
      mask(function, options.mask, shape),
      bias(function, options.bias, shape),
      rule(score_rule(function, dims, options)),
      dropout(checked_dropout(function, options, shape.batch())),
      dropout_seed(options.dropout_seed),
      sequence_ids(options.sequence_ids) {
  // Short enough to share out, long enough that a task's own numbers stay in its cache.
  constexpr std::int64_t most_rows = 256;
  std::int64_t chunks = 0;
  const auto chunks_of = [&](const Sequence& sequence) {
    return base::divide_up(sequence.queries * group(), most_rows);
  };
  for (const Sequence& sequence : shape.sequences) {
    chunks += chunks_of(sequence);
    require_room(chunks, sizeof(RowChunk));
  }
  row_chunks.reserve(static_cast<std::size_t>(chunks));
  for (std::int64_t b = 0; b < shape.batch(); ++b) {
    const Sequence& sequence = shape.sequences[static_cast<std::size_t>(b)];
    const std::int64_t rows = sequence.queries * group();
    const std::int64_t count = chunks_of(sequence);
    for (std::int64_t i = 0; i < count; ++i) {
      row_chunks.push_back({b, rows * i / count, rows * (i + 1) / count});
    }
  }
}

std::int64_t AttentionPlan::row_count() const {
  return dims.queries * dims.heads * (shape.packed ? 1 : dims.batch);
}

std::int64_t AttentionPlan::row_index(std::int64_t sequence, std::int64_t head,
                                      std::int64_t row) const {
  const std::int64_t begin = shape.sequences[static_cast<std::size_t>(sequence)].query_begin;
  const std::int64_t batch_index = shape.packed ? 0 : sequence;
  return (batch_index * dims.heads + head) * dims.queries + begin + row;
}

Shape AttentionPlan::row_shape(std::int64_t heads, std::int64_t rows, std::int64_t last) const {
  std::array<std::int64_t, 4> extents{};
  std::size_t rank = 0;
  if (dims.batched && !shape.packed) extents[rank++] = dims.batch;
  if (heads >= 0) extents[rank++] = heads;
  extents[rank++] = rows;
  if (last >= 0) extents[rank++] = last;
  return Shape(std::span(extents).first(rank));
}

kernels::DropoutTile AttentionPlan::dropout_tile(const masks::TileRange& range) const {
  const auto id = sequence_ids.empty() ? range.sequence
                                       : sequence_ids[static_cast<std::size_t>(range.sequence)];
  return {.seed = dropout_seed,
          .sequence = static_cast<std::uint32_t>(id),
          .head = static_cast<std::uint32_t>(range.head),
          .first_query = static_cast<std::uint32_t>(mask.offset(range.sequence) + range.row),
          .first_key = static_cast<std::uint32_t>(range.key),
          .probability = dropout};
}

double AttentionPlan::flops() const {
  double pairs = 0.0;
  for (const Sequence& sequence : shape.sequences) {
    pairs += static_cast<double>(sequence.queries) * static_cast<double>(shape.all_keys(sequence));
  }
  return 2.0 * pairs * static_cast<double>(dims.heads) *
         static_cast<double>(dims.key_size + dims.value_size);
}

}  // namespace headwise::ops
