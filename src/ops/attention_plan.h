// Plan of one attention call: everything that follows from shapes and options, before memory is
// reserved and threads are woken. Made and validated once; the loops below only read it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "headwise/attention.h"
#include "kernels/attention/tile.h"
#include "kernels/gemm/gemm.h"
#include "masks/resolved_bias.h"
#include "masks/resolved_mask.h"
#include "masks/score_shape.h"

namespace headwise::ops {

// Key blocks begin at multiples of kKeyBlock whatever the mask or the offset, so that a row's sums
// are cut at the same places however the call was cut.
inline constexpr std::int64_t kKeyBlock = 256;

// Heads of all sequences, in whatever order memory has them.
template <typename T>
struct HeadTensor {
  T* data = nullptr;
  std::int64_t sequence_stride = 0;
  std::int64_t row_stride = 0;
  std::int64_t head_stride = 0;
  std::int64_t feature_stride = 1;

  // NOLINTNEXTLINE(google-explicit-constructor): reading what may be written is fine
  operator HeadTensor<const T>() const requires(!std::is_const_v<T>) {
    return {data, sequence_stride, row_stride, head_stride, feature_stride};
  }
  // Rows × features of one head, from `row` on; packed sequences count rows from the first one's.
  [[nodiscard]] kernels::StridedMatrix<T> head(std::int64_t sequence, std::int64_t row,
                                               std::int64_t head_index) const {
    return {data + sequence * sequence_stride + row * row_stride + head_index * head_stride,
            row_stride, feature_stride};
  }
};
using ConstHeads = HeadTensor<const float>;
using MutableHeads = HeadTensor<float>;

// Shapes of a call, before masks. In a packed batch, queries and keys count all sequences' rows.
struct AttentionDims {
  std::int64_t batch = 1;
  std::int64_t queries = 0;
  std::int64_t keys = 0;  // with the unmasked tail
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t key_size = 0;
  std::int64_t value_size = 0;
  bool batched = true;  // whether results have a batch axis
};

// Throws ArgumentError unless the lengths are cumulative, end at the totals, and pair up.
void check_packed(std::string_view function, const PackedLengths& packed, std::int64_t queries,
                  std::int64_t keys);
// Throws ArgumentError unless there are no ids, or one for every sequence that the hash can hold.
void check_sequence_ids(std::string_view function, std::string_view argument,
                        const std::vector<std::int64_t>& ids, std::int64_t batch);

// Some stacked rows (see row_group.h) of a sequence's key/value heads: the share of one task, for
// each of them.
struct RowChunk {
  std::int64_t sequence = 0;
  std::int64_t row = 0;
  std::int64_t row_end = 0;
};

// What a plan needs of a call's options. Borrowed, and not copied: masks hold lists.
struct PlanOptions {
  const Mask& mask;
  const std::vector<Bias>& bias;
  std::optional<float> scale;
  std::optional<float> softcap;
  float dropout = 0.0F;
  std::uint64_t dropout_seed = 0;
  const std::vector<std::int64_t>& sequence_ids;  // empty: 0, 1, 2, …
  const std::optional<PackedLengths>& packed;
  std::int64_t unmasked_tail = 0;
};

struct AttentionPlan {
  // Throws ArgumentError on behalf of `function`. Borrows the arrays of masks and biases, and the
  // options' sequence ids.
  AttentionPlan(std::string_view function, const AttentionDims& dims, const PlanOptions& options);
  AttentionPlan(const AttentionPlan&) = delete;  // its parts refer to each other
  AttentionPlan& operator=(const AttentionPlan&) = delete;

  AttentionDims dims;
  masks::ScoreShape shape;
  masks::ResolvedMask mask;
  masks::ResolvedBias bias;
  kernels::ScoreRule rule;
  float dropout;  // probability
  std::uint64_t dropout_seed;
  const std::vector<std::int64_t>& sequence_ids;
  base::SmallVector<RowChunk> row_chunks;

  [[nodiscard]] std::int64_t group() const {  // query heads that read one key/value head
    return dims.kv_heads == 0 ? 0 : dims.heads / dims.kv_heads;
  }
  [[nodiscard]] std::int64_t row_count() const;  // of all sequences and heads
  [[nodiscard]] std::int64_t longest_keys() const { return shape.own_keys + shape.tail; }
  // Place of a row in (B,H,T) or (H,total).
  [[nodiscard]] std::int64_t row_index(std::int64_t sequence, std::int64_t head,
                                       std::int64_t row) const;
  // (B,H,T), (H,T) or (H,total), with `last` as one more axis unless it is negative.
  [[nodiscard]] Shape row_shape(std::int64_t heads, std::int64_t rows, std::int64_t last) const;
  [[nodiscard]] kernels::DropoutTile dropout_tile(const masks::TileRange& range) const;
  [[nodiscard]] double flops() const;  // of the forward products, were nothing masked
};

}  // namespace headwise::ops
