#include "analyze/attended_pairs.h"

#include <algorithm>
#include <string>
#include <vector>

#include "masks/resolved_mask.h"

namespace headwise::analyze {

namespace {

constexpr const char* kFunction = "layer_cost";

// Row i of a sequence stands at position offset + i and may attend keys [0, keys) from `left`
// before its position to `right` after it.
struct Band {
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t offset = 0;
  std::optional<std::int64_t> left = {};
  std::optional<std::int64_t> right = {};
};

// Pairs whose key lies at most `ahead` after the query's position: Σ clamp(first + i, 0, keys), an
// arithmetic series between rows that see nothing and rows that see all.
Count pairs_up_to(const Band& band, std::int64_t ahead) {
  const std::int64_t first = band.offset + ahead + 1;  // keys of row 0, were there no ends
  const std::int64_t seeing = std::clamp<std::int64_t>(-first, 0, band.queries);
  const std::int64_t full = std::clamp<std::int64_t>(band.keys - first, seeing, band.queries);
  const std::int64_t rows = full - seeing;
  const Count ramp =
      rows == 0 ? Count(0) : Count(rows) * Count((first + seeing) + (first + full - 1));
  return Count(ramp.value() / 2) + Count(band.queries - full) * Count(band.keys);
}

Count pairs_of(const Band& band) {
  const Count below =
      band.right ? pairs_up_to(band, *band.right) : Count(band.queries) * Count(band.keys);
  return band.left ? below.value() - pairs_up_to(band, -*band.left - 1).value() : below;
}

// Rows for which the boundary at position + shift lies inside the keys.
std::int64_t rows_cut_at(const Band& band, std::int64_t shift) {
  const std::int64_t begin = std::clamp<std::int64_t>(1 - band.offset - shift, 0, band.queries);
  const std::int64_t end =
      std::clamp<std::int64_t>(band.keys - band.offset - shift, begin, band.queries);
  return end - begin;
}

std::int64_t cut_ends_of(const Band& band) {
  return (band.right ? rows_cut_at(band, *band.right + 1) : 0) +
         (band.left ? rows_cut_at(band, -*band.left) : 0);
}

// Beyond these no position can lie, and sums of them cannot overflow.
void require_positions_fit(const LayerCall& call) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  if (call.queries > kMost || call.key_count() > kMost) {
    base::fail(kFunction, "call", "at most 2^40 queries and keys", "more");
  }
}

std::optional<std::int64_t> within(std::optional<std::int64_t> limit) {
  constexpr std::int64_t kUnlimited = std::int64_t{1} << 41;
  return limit && *limit < kUnlimited ? limit : std::nullopt;
}

// Whether every sequence is masked alike: then one stands for all.
bool uniform(const Mask& mask) {
  const auto* offsets = std::get_if<std::vector<std::int64_t>>(&mask.positions);
  return mask.key_lengths.empty() && mask.query_lengths.empty() && mask.keeps.empty() &&
         mask.segments.empty() && (offsets == nullptr || offsets->size() == 1);
}

bool has_row_lengths(const Mask& mask) {
  return std::any_of(mask.key_lengths.begin(), mask.key_lengths.end(),
                     [](const auto& lengths) { return lengths.view().rank() == 2; });
}

masks::ScoreShape score_shape(const LayerCall& call, std::int64_t batch, std::int64_t heads) {
  masks::ScoreShape shape;
  shape.sequences.assign(static_cast<std::size_t>(batch),
                         masks::Sequence{0, call.queries, 0, 0, call.key_count()});
  shape.heads = heads;
  shape.query_rows = call.queries;
  shape.own_keys = call.key_count();
  return shape;
}

std::int64_t shortest(const std::vector<SharedView<std::int64_t>>& lists, std::int64_t sequence,
                      std::int64_t otherwise) {
  for (const auto& lengths : lists) {
    if (lengths.view().rank() == 1) otherwise = std::min(otherwise, lengths.view()(sequence));
  }
  return otherwise;
}

// A sequence whose rows were looked at one by one.
Count pairs_by_rows(const masks::ResolvedMask& mask, std::int64_t sequence, std::int64_t queries) {
  Count pairs;
  for (std::int64_t row = 0; row < queries; ++row) {
    const masks::KeyRange range = mask.row_range(sequence, row);
    pairs += range.end - range.begin;
  }
  return pairs;
}

// A sequence whose scores were looked at one by one, over all heads.
Count pairs_by_scores(const masks::ResolvedMask& mask, const LayerCall& call, std::int64_t heads,
                      std::int64_t sequence) {
  const std::int64_t keys = call.key_count();
  std::vector<std::uint8_t> keep(static_cast<std::size_t>(keys));
  Count pairs;
  for (std::int64_t head = 0; head < heads; ++head) {
    for (std::int64_t row = 0; row < call.queries; ++row) {
      mask.fill({sequence, head, row, row + 1, 0, keys}, keep.data(), keys);
      pairs += std::count(keep.begin(), keep.end(), std::uint8_t{1});
    }
  }
  return pairs;
}

}  // namespace

AttendedPairs count_pairs(const AttentionConfig& config, const LayerCall& call) {
  const Mask& mask = call.mask;
  const Count heads = config.num_heads;
  const std::int64_t extra = config.extra_keys();
  require_positions_fit(call);
  const std::int64_t looked_at = uniform(mask) ? std::min<std::int64_t>(call.batch, 1) : call.batch;
  const masks::ScoreShape shape = score_shape(call, looked_at, config.num_heads);
  const masks::ResolvedMask resolved(kFunction, mask, shape);
  AttendedPairs total;
  for (std::int64_t b = 0; b < looked_at; ++b) {
    const Band band{.queries = shortest(mask.query_lengths, b, call.queries),
                    .keys = shortest(mask.key_lengths, b, call.key_count()),
                    .offset = resolved.offset(b),
                    .left = within(mask.left),
                    .right = within(mask.right)};
    const Count tail = Count(band.queries) * Count(extra) * heads;  // seen by every row there is
    const Count ranges =
        heads * (has_row_lengths(mask) ? pairs_by_rows(resolved, b, call.queries) : pairs_of(band));
    total.in_ranges += ranges + tail;
    total.attended +=
        (resolved.by_ranges() ? ranges : pairs_by_scores(resolved, call, config.num_heads, b)) +
        tail;
    total.cut_ends += heads * cut_ends_of(band);
  }
  if (looked_at == call.batch) return total;
  const Count times = call.batch;
  return {total.attended * times, total.in_ranges * times, total.cut_ends * times};
}

}  // namespace headwise::analyze
