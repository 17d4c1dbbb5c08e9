// The shape of all scores of a call: one rows × keys matrix for every sequence and head.
#pragma once

#include <cstdint>

#include "base/small_vector.h"

namespace headwise::masks {

// In a padded batch all begins are 0 and the tensors' batch stride tells sequences apart; in a
// packed batch the begins do, and the batch stride is 0. Either way one address formula serves.
struct Sequence {
  std::int64_t query_begin = 0;
  std::int64_t queries = 0;
  std::int64_t key_begin = 0;      // among all stored keys
  std::int64_t own_key_begin = 0;  // among those that masks speak of
  std::int64_t keys = 0;           // that masks speak of; the unmasked tail follows them
};

struct ScoreShape {
  base::SmallVector<Sequence> sequences;
  std::int64_t heads = 0;
  std::int64_t tail = 0;          // keys behind every sequence's own that no mask or bias touches
  std::int64_t query_rows = 0;    // extent of a dense array's query axis
  std::int64_t own_keys = 0;      // extent of its key axis
  std::int64_t all_own_keys = 0;  // packed: keys of all sequences together
  bool packed = false;

  [[nodiscard]] std::int64_t batch() const { return static_cast<std::int64_t>(sequences.size()); }
  [[nodiscard]] std::int64_t all_keys(const Sequence& sequence) const {
    return sequence.keys + tail;
  }
};

// Rows [row, row_end) of a sequence's queries, keys [key, key_end) of its keys and tail, one head.
struct TileRange {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t row_end = 0;
  std::int64_t key = 0;
  std::int64_t key_end = 0;

  [[nodiscard]] std::int64_t rows() const { return row_end - row; }
  [[nodiscard]] std::int64_t keys() const { return key_end - key; }
};

}  // namespace headwise::masks
