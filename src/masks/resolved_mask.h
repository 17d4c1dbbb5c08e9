// A mask checked against the shapes of a call and ready to answer two questions:
// which keys may a row attend by position and length, and what does a tile look like.
#pragma once

#include <cstdint>
#include <string_view>

#include "headwise/mask.h"
#include "masks/dense_array.h"
#include "masks/score_shape.h"

namespace headwise::masks {

struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

class ResolvedMask {
 public:
  // Throws ArgumentError on behalf of `function` if the mask does not fit. Borrows the mask's
  // arrays.
  ResolvedMask(std::string_view function, const Mask& mask, const ScoreShape& shape);

  // Position of a sequence's query 0 among its keys.
  [[nodiscard]] std::int64_t offset(std::int64_t sequence) const {
    return offsets_[static_cast<std::size_t>(sequence)];
  }
  // Ranges say nothing: every row may attend all keys of its sequence.
  [[nodiscard]] bool unlimited() const { return unlimited_; }
  // Everything is said by row_range; there are no keep masks and no segments.
  [[nodiscard]] bool by_ranges() const { return keeps_.empty() && segments_.empty(); }
  // What positions and lengths allow, before keep masks and segments; without the tail.
  [[nodiscard]] KeyRange row_range(std::int64_t sequence, std::int64_t query) const;
  // Keys that any of a sequence's rows may attend by positions and lengths; without the tail.
  [[nodiscard]] KeyRange sequence_range(std::int64_t sequence) const;
  // Whether query lengths leave the row; only then it sees the tail.
  [[nodiscard]] bool row_present(std::int64_t sequence, std::int64_t query) const {
    return query < query_limits_[static_cast<std::size_t>(sequence)];
  }

  // Writes 1 for every score of a tile that is attended, and 0 for the others, row-major with
  // `stride`.
  void fill(const TileRange& range, std::uint8_t* keep, std::int64_t stride) const;
  // The only keep mask, where it is all there is to say: fill() would copy it.
  [[nodiscard]] const DenseArray<const bool>* only_keep() const {
    return unlimited_ && segments_.empty() && keeps_.size() == 1 ? keeps_.data() : nullptr;
  }

 private:
  struct ResolvedSegments {
    const std::int64_t* query;
    const std::int64_t* key;
    std::int64_t query_batch_stride, query_stride, key_batch_stride, key_stride;
  };

  void resolve_lengths(std::string_view function, const Mask& mask);
  void resolve_positions(std::string_view function, const Mask& mask);
  void resolve_segments(std::string_view function, const Mask& mask);
  void fill_ranges(const TileRange& range, std::uint8_t* keep, std::int64_t stride) const;
  void clear_by_keeps(const TileRange& range, std::uint8_t* keep, std::int64_t stride) const;
  void clear_by_segments(const TileRange& range, std::uint8_t* keep, std::int64_t stride) const;
  [[nodiscard]] std::int64_t own_keys(std::int64_t sequence) const {
    return shape_.sequences[static_cast<std::size_t>(sequence)].keys;
  }

  const ScoreShape& shape_;
  std::int64_t left_;  // kUnlimited where unsaid
  std::int64_t right_;
  bool unlimited_ = true;                         // no length, no window
  base::SmallVector<std::int64_t> offsets_;       // per sequence
  base::SmallVector<std::int64_t> key_limits_;    // per sequence: own keys that are there
  base::SmallVector<std::int64_t> query_limits_;  // per sequence
  base::SmallVector<TensorView<const std::int64_t>, 4> row_lengths_;  // (B,T)
  base::SmallVector<DenseArray<const bool>, 4> keeps_;
  base::SmallVector<ResolvedSegments, 4> segments_;
};

}  // namespace headwise::masks
