#include "masks/resolved_mask.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"

namespace headwise::masks {

namespace {

// Far beyond any sequence, yet small enough that sums of positions cannot overflow.
constexpr std::int64_t kUnlimited = std::int64_t{1} << 40;

std::int64_t limit_or_unlimited(std::optional<std::int64_t> limit) {
  return limit ? std::min(*limit, kUnlimited) : kUnlimited;
}

// window() checks this too, but a Mask is a plain struct that anyone may fill.
void check_window(std::string_view function, const char* side, std::optional<std::int64_t> count) {
  if (count && *count < 0) {
    base::fail(function, "options.mask", std::string("a count ≥ 0 on the ") + side,
               std::to_string(*count));
  }
}

using IndexView = TensorView<const std::int64_t>;

// One number per sequence, each within 0 … limit(sequence).
template <typename Limit>
void check_lengths(std::string_view function, const char* kind, const IndexView& lengths,
                   std::int64_t sequence, std::int64_t length, Limit limit) {
  const std::int64_t most = limit(sequence);
  if (length < 0 || length > most) {
    base::fail(function, "options.mask",
               std::string(kind) + " within 0 … " + std::to_string(most) + " (shape " +
                   lengths.shape().to_string() + ")",
               std::to_string(length) + " for sequence " + std::to_string(sequence));
  }
}

[[noreturn]] void fail_shape(std::string_view function, const std::string& expected,
                             const IndexView& got) {
  base::fail(function, "options.mask", expected, "shape " + got.shape().to_string());
}

}  // namespace

ResolvedMask::ResolvedMask(std::string_view function, const Mask& mask, const ScoreShape& shape)
    : shape_(shape), left_(limit_or_unlimited(mask.left)), right_(limit_or_unlimited(mask.right)) {
  check_window(function, "left", mask.left);
  check_window(function, "right", mask.right);
  resolve_lengths(function, mask);
  resolve_positions(function, mask);
  resolve_segments(function, mask);
  unlimited_ = !mask.left && !mask.right && mask.key_lengths.empty() && mask.query_lengths.empty();
  for (const KeepMask& part : mask.keeps) {
    keeps_.push_back(
        resolve_dense(function, "options.mask", part.values.view(), part.axes, shape_));
  }
}

void ResolvedMask::resolve_lengths(std::string_view function, const Mask& mask) {
  for (const Sequence& sequence : shape_.sequences) {
    key_limits_.push_back(sequence.keys);
    query_limits_.push_back(sequence.queries);
  }
  const std::int64_t batch = shape_.batch();
  const auto keys = [&](std::int64_t b) { return own_keys(b); };
  const auto queries = [&](std::int64_t b) {
    return shape_.sequences[static_cast<std::size_t>(b)].queries;
  };
  const std::string per_sequence = "(" + std::to_string(batch) + ",)";

  for (const auto& part : mask.key_lengths) {
    const IndexView& lengths = part.view();
    if (lengths.rank() == 1 && lengths.extent(0) == batch) {
      for (std::int64_t b = 0; b < batch; ++b) {
        check_lengths(function, "key lengths", lengths, b, lengths(b), keys);
        auto& limit = key_limits_[static_cast<std::size_t>(b)];
        limit = std::min(limit, lengths(b));
      }
    } else if (!shape_.packed && lengths.rank() == 2 && lengths.extent(0) == batch &&
               lengths.extent(1) == shape_.query_rows) {
      for (std::int64_t b = 0; b < batch; ++b) {
        for (std::int64_t t = 0; t < lengths.extent(1); ++t) {
          check_lengths(function, "key lengths", lengths, b, lengths(b, t), keys);
        }
      }
      row_lengths_.push_back(lengths);
    } else {
      fail_shape(function,
                 "key lengths of shape " + per_sequence +
                     (shape_.packed ? ""
                                    : " or (" + std::to_string(batch) + ", " +
                                          std::to_string(shape_.query_rows) + ")"),
                 lengths);
    }
  }
  for (const auto& part : mask.query_lengths) {
    const IndexView& lengths = part.view();
    if (lengths.rank() != 1 || lengths.extent(0) != batch) {
      fail_shape(function, "query lengths of shape " + per_sequence, lengths);
    }
    for (std::int64_t b = 0; b < batch; ++b) {
      check_lengths(function, "query lengths", lengths, b, lengths(b), queries);
      auto& limit = query_limits_[static_cast<std::size_t>(b)];
      limit = std::min(limit, lengths(b));
    }
  }
}

void ResolvedMask::resolve_positions(std::string_view function, const Mask& mask) {
  const bool uses_positions = mask.left || mask.right;
  const auto batch = static_cast<std::size_t>(shape_.batch());
  offsets_.assign(batch, 0);

  if (const auto* alignment = std::get_if<Alignment>(&mask.positions)) {
    if (*alignment == Alignment::TopLeft) return;
    for (std::size_t b = 0; b < batch; ++b) offsets_[b] = key_limits_[b] - query_limits_[b];
  } else if (const auto* offsets = std::get_if<std::vector<std::int64_t>>(&mask.positions)) {
    if (offsets->size() != 1 && offsets->size() != batch) {
      base::fail(function, "options.mask",
                 "one query offset, or one for each of " + std::to_string(batch) + " sequences",
                 std::to_string(offsets->size()));
    }
    for (std::size_t b = 0; b < batch; ++b) {
      offsets_[b] = (*offsets)[offsets->size() == 1 ? 0 : b];
      // Dropout tells positions apart by 32 bits.
      constexpr std::int64_t kMost = std::int64_t{1} << 31;
      if (offsets_[b] < -kMost || offsets_[b] > kMost) {
        base::fail(function, "options.mask", "query offsets within ±2^31",
                   std::to_string(offsets_[b]));
      }
    }
  } else if (uses_positions) {
    for (const Sequence& sequence : shape_.sequences) {
      if (sequence.queries != sequence.keys) {
        base::fail(
            function, "options.mask",
            "Alignment::TopLeft, Alignment::BottomRight or a query_offset beside causal() or "
            "window() where queries and keys differ in number",
            std::to_string(sequence.queries) + " queries and " + std::to_string(sequence.keys) +
                " keys without it");
      }
    }
  }
}

void ResolvedMask::resolve_segments(std::string_view function, const Mask& mask) {
  // (n) for all sequences, or (B,n); packed: (total).
  const auto check = [&](const IndexView& ids, std::int64_t extent, const char* side) {
    const bool shared = ids.rank() == 1 && ids.extent(0) == extent;
    const bool own = !shape_.packed && ids.rank() == 2 && ids.extent(0) == shape_.batch() &&
                     ids.extent(1) == extent;
    if (!shared && !own) {
      fail_shape(function,
                 std::string(side) + " segment ids of shape (" + std::to_string(extent) + ",)" +
                     (shape_.packed ? ""
                                    : " or (" + std::to_string(shape_.batch()) + ", " +
                                          std::to_string(extent) + ")"),
                 ids);
    }
  };
  for (const Segments& part : mask.segments) {
    const IndexView& query = part.query.view();
    const IndexView& key = part.key.view();
    check(query, shape_.query_rows, "query");
    check(key, shape_.packed ? shape_.all_own_keys : shape_.own_keys, "key");
    segments_.push_back({query.data(), key.data(), query.rank() == 2 ? query.stride(0) : 0,
                         query.stride(query.rank() - 1), key.rank() == 2 ? key.stride(0) : 0,
                         key.stride(key.rank() - 1)});
  }
}

KeyRange ResolvedMask::row_range(std::int64_t sequence, std::int64_t query) const {
  if (!row_present(sequence, query)) return {};
  const std::int64_t position = offset(sequence) + query;
  std::int64_t end = key_limits_[static_cast<std::size_t>(sequence)];
  end = std::min(end, position + right_ + 1);
  for (const auto& lengths : row_lengths_) end = std::min(end, lengths(sequence, query));
  const std::int64_t begin = std::max<std::int64_t>(0, position - left_);
  return begin < end ? KeyRange{begin, end} : KeyRange{};
}

KeyRange ResolvedMask::sequence_range(std::int64_t sequence) const {
  const std::int64_t limit = key_limits_[static_cast<std::size_t>(sequence)];
  const std::int64_t queries = query_limits_[static_cast<std::size_t>(sequence)];
  if (queries == 0) return {};
  // Ranges move on with the rows.
  const std::int64_t first = offset(sequence);
  const std::int64_t begin = std::clamp<std::int64_t>(first - left_, 0, limit);
  const std::int64_t end = std::clamp<std::int64_t>(first + queries + right_, begin, limit);
  return {begin, end};
}

void ResolvedMask::fill(const TileRange& range, std::uint8_t* keep, std::int64_t stride) const {
  fill_ranges(range, keep, stride);
  clear_by_keeps(range, keep, stride);
  clear_by_segments(range, keep, stride);
}

void ResolvedMask::fill_ranges(const TileRange& range, std::uint8_t* keep,
                               std::int64_t stride) const {
  const std::int64_t own = own_keys(range.sequence);
  for (std::int64_t row = range.row; row < range.row_end; ++row, keep += stride) {
    const KeyRange keys = row_range(range.sequence, row);
    const std::int64_t begin = std::clamp(keys.begin, range.key, range.key_end);
    const std::int64_t end = std::clamp(std::min(keys.end, own), begin, range.key_end);
    const std::int64_t tail = std::clamp(own, end, range.key_end);
    std::fill_n(keep, begin - range.key, std::uint8_t{0});
    std::fill_n(keep + (begin - range.key), end - begin, std::uint8_t{1});
    std::fill_n(keep + (end - range.key), tail - end, std::uint8_t{0});
    const bool present = row_present(range.sequence, row);
    std::fill_n(keep + (tail - range.key), range.key_end - tail, present ? 1 : 0);
  }
}

void ResolvedMask::clear_by_keeps(const TileRange& range, std::uint8_t* keep,
                                  std::int64_t stride) const {
  const std::int64_t own_end = std::min(range.key_end, own_keys(range.sequence));
  for (const auto& part : keeps_) {
    std::uint8_t* to = keep;
    for (std::int64_t row = range.row; row < range.row_end; ++row, to += stride) {
      const bool* from = part.row(shape_, range.sequence, range.head, row);
      for (std::int64_t key = range.key; key < own_end; ++key) {
        to[key - range.key] &= static_cast<std::uint8_t>(from[key * part.key_stride]);
      }
    }
  }
}

void ResolvedMask::clear_by_segments(const TileRange& range, std::uint8_t* keep,
                                     std::int64_t stride) const {
  const Sequence& sequence = shape_.sequences[static_cast<std::size_t>(range.sequence)];
  const std::int64_t own_end = std::min(range.key_end, sequence.keys);
  for (const ResolvedSegments& part : segments_) {
    const std::int64_t* query_ids = part.query + range.sequence * part.query_batch_stride +
                                    sequence.query_begin * part.query_stride;
    const std::int64_t* key_ids = part.key + range.sequence * part.key_batch_stride +
                                  sequence.own_key_begin * part.key_stride;
    std::uint8_t* to = keep;
    for (std::int64_t row = range.row; row < range.row_end; ++row, to += stride) {
      const std::int64_t id = query_ids[row * part.query_stride];
      for (std::int64_t key = range.key; key < own_end; ++key) {
        to[key - range.key] &= static_cast<std::uint8_t>(key_ids[key * part.key_stride] == id);
      }
    }
  }
}

}  // namespace headwise::masks
