// Masks are typed values: say what they mean, combine them with &, pass the result.
//
//   causal() & valid_lengths({128, 90})        keep(mask, Axes::BatchQueryKey) & window(64, 0)
//
// A key is attended when every part agrees. Biases are not masks: they are added to scores.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "headwise/tensor.h"

namespace headwise {

// Which axes an array has, in order. An extent of 1 is broadcast over its axis. Rank 2 means
// QueryKey and rank 4 BatchHeadQueryKey unless said otherwise; rank 3 must say.
// In a packed batch the query axis runs over all packed rows, the key axis over the longest
// sequence's keys, and the batch axis is 1 or absent.
enum class Axes { BatchHeadQueryKey, QueryKey, BatchQueryKey, HeadQueryKey, BatchKey, BatchQuery };

// Where query 0 stands among the keys when there are not as many queries as keys. BottomRight puts
// the last (valid) query on the last (valid) key.
enum class Alignment { TopLeft, BottomRight };

struct KeepMask {
  SharedView<bool> values;  // true = attend
  std::optional<Axes> axes;
};

struct Segments {
  SharedView<std::int64_t> query;  // (T) or (B,T); packed: (total)
  SharedView<std::int64_t> key;    // (S) or (B,S); attended where the numbers are equal
};

struct Mask {
  std::optional<std::int64_t> left;   // keys before the query's position; none = unlimited
  std::optional<std::int64_t> right;  // keys after it; causal = 0
  // Position of each sequence's query 0: unsaid, an alignment, or absolute offsets (1 or B of
  // them).
  std::variant<std::monostate, Alignment, std::vector<std::int64_t>> positions;
  std::vector<SharedView<std::int64_t>> key_lengths;    // (B) or (B,T), of keys that are there
  std::vector<SharedView<std::int64_t>> query_lengths;  // (B), of queries that are there
  std::vector<KeepMask> keeps;
  std::vector<Segments> segments;
};

Mask operator&(Mask a, const Mask& b);

Mask causal();  // an error where T ≠ S: say which alignment, or an offset
Mask causal(Alignment alignment);
Mask aligned(Alignment alignment);  // positions only; hides nothing
Mask query_offset(std::int64_t offset);
Mask query_offsets(std::vector<std::int64_t> offsets);
// Inclusive counts of keys on either side of the query's position; nullopt = unlimited.
Mask window(std::optional<std::int64_t> left, std::optional<std::int64_t> right);
Mask valid_lengths(SharedView<std::int64_t> lengths);
Mask query_lengths(SharedView<std::int64_t> lengths);
Mask keep(SharedView<bool> values, std::optional<Axes> axes = {});
Mask segments(
    const SharedView<std::int64_t>& ids);  // self-attention: the same for queries and keys
Mask segments(SharedView<std::int64_t> query_ids, SharedView<std::int64_t> key_ids);

// Added to the scores after scale and softcap. −∞ hides a key just as a mask does.
struct Bias {
  explicit Bias(SharedView<float> values_, std::optional<Axes> axes_ = {})
      : values(std::move(values_)), axes(axes_) {}

  SharedView<float> values;
  std::optional<Axes> axes;
};

}  // namespace headwise
