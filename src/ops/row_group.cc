#include "ops/row_group.h"

#include <algorithm>
#include <limits>

#include "ops/copy_row.h"

namespace headwise::ops {

using kernels::kPanelWidth;

namespace {

void hide_maxima(std::int64_t rows, float* row_max) {
  std::fill_n(row_max, rows * kPanelWidth, -std::numeric_limits<float>::infinity());
}

// Kernels read whole panels. What they read behind the last key changes nothing, but should be there.
template <typename T>
void clear_padding(const kernels::ScoreTile& tile, T* values, std::int64_t stride) {
  const std::int64_t end = kernels::panel_count(tile.keys) * kPanelWidth;
  for (std::int64_t row = 0; row < tile.rows; ++row, values += stride) {
    std::fill(values + tile.keys, values + end, T{});
  }
}

}  // namespace

RowGroup::RowGroup(const AttentionPlan& plan, const kernels::Kernels& kernels,
                   std::int64_t sequence, std::int64_t kv_head, std::int64_t first,
                   std::int64_t rows)
    : plan_(plan),
      kernels_(kernels),
      sequence_(sequence),
      kv_head_(kv_head),
      first_(first),
      rows_(rows),
      queries_(shape().queries),
      tiles_(rows, kernels.gemm.tile_rows),
      limited_(!plan.mask.unlimited()) {
  if (!limited_) return;
  all_ = {plan_.shape.all_keys(shape()), 0};
  for_each_segment([&](const RowSegment& segment) {
    for (std::int64_t i = 0; i < segment.count; ++i) {
      const masks::KeyRange keys = plan_.mask.row_range(sequence_, segment.row + i);
      ranges_[segment.offset + i] = keys;
      present_[segment.offset + i] = plan_.mask.row_present(sequence_, segment.row + i);
      any_present_ = any_present_ || present_[segment.offset + i];
      if (keys.begin == keys.end) continue;
      all_ = {std::min(all_.begin, keys.begin), std::max(all_.end, keys.end)};
    }
  });
}

void RowGroup::gather(const ConstHeads& heads, std::int64_t features, float* dense) const {
  for_each_segment([&](const RowSegment& segment) {
    const auto from = heads.head(sequence_, shape().query_begin + segment.row, segment.head);
    for (std::int64_t i = 0; i < segment.count; ++i) {
      copy_row(from.from(i, 0), features, {dense + (segment.offset + i) * features});
    }
  });
}

void RowGroup::scatter(const float* dense, std::int64_t features, const MutableHeads& heads) const {
  for_each_segment([&](const RowSegment& segment) {
    const auto to = heads.head(sequence_, shape().query_begin + segment.row, segment.head);
    for (std::int64_t i = 0; i < segment.count; ++i) {
      copy_row({dense + (segment.offset + i) * features}, features, to.from(i, 0));
    }
  });
}

void RowGroup::load_rows(const float* all, float* values) const {
  for_each_segment([&](const RowSegment& segment) {
    std::copy_n(all + plan_.row_index(sequence_, segment.head, segment.row), segment.count,
                values + segment.offset);
  });
}

void RowGroup::store_rows(const float* values, float* all) const {
  for_each_segment([&](const RowSegment& segment) {
    std::copy_n(values + segment.offset, segment.count,
                all + plan_.row_index(sequence_, segment.head, segment.row));
  });
}

bool RowGroup::attends(std::int64_t key, std::int64_t key_end) const {
  if (!limited_) return true;
  return (all_.begin < key_end && all_.end > key) || (any_present_ && key_end > shape().keys);
}

// Keys of each register tile, and whether they are all that its rows attend. A tile's rows may
// attend different keys; its span holds those of all of them.
bool RowGroup::set_spans(std::int64_t key, std::int64_t key_end) const {
  const std::int64_t own_end = std::min(key_end, shape().keys);
  bool exact = true;
  for (std::int64_t t = 0; t < tiles_.count; ++t) {
    masks::KeyRange span{key_end, key};
    for (std::int64_t row = tiles_.row(t); row < tiles_.row(t + 1); ++row) {
      const std::int64_t begin = std::max(ranges_[row].begin, key);
      const std::int64_t end = std::min(ranges_[row].end, own_end);
      if (begin < end) span = {std::min(span.begin, begin), std::max(span.end, end)};
      if (key_end > own_end && present_[row]) {
        span = {std::min(span.begin, std::max(own_end, key)), key_end};
      }
    }
    if (span.begin >= span.end) span = {key, key};
    spans_[t] = {(span.begin - key) / kPanelWidth * kPanelWidth,
                 std::min(kernels::panel_count(span.end - key) * kPanelWidth, key_end - key)};
    for (std::int64_t row = tiles_.row(t); row < tiles_.row(t + 1); ++row) {
      // A row without gaps attends its own keys, then the tail.
      const std::int64_t end = key_end > own_end && present_[row]
                                   ? (ranges_[row].end >= own_end ? key_end : -1)
                                   : std::min(ranges_[row].end, own_end);
      exact = exact && std::max(ranges_[row].begin, key) == key + spans_[t].begin &&
              end == key + spans_[t].end;
    }
  }
  return exact;
}

void RowGroup::set_keep(ScoreBlock& block, std::int64_t key_end,
                        const ScoreBuffers& buffers) const {
  const auto* only = plan_.mask.only_keep();
  const bool whole = first_ / queries_ == (first_ + rows_ - 1) / queries_ &&
                     key_end <= shape().keys && block.tile.keys % kPanelWidth == 0;
  if (only != nullptr && whole && only->key_stride == 1) {
    const std::int64_t head = kv_head_ * plan_.group() + first_ / queries_;
    const bool* first = only->row(plan_.shape, sequence_, head, first_ % queries_);
    block.extras.keep = reinterpret_cast<const std::uint8_t*>(first) + block.key;
    block.extras.keep_stride = only->query_stride;
    return;
  }
  for_each_segment([&](const RowSegment& segment) {
    plan_.mask.fill({.sequence = sequence_,
                     .head = segment.head,
                     .row = segment.row,
                     .row_end = segment.row + segment.count,
                     .key = block.key,
                     .key_end = key_end},
                    buffers.keep + segment.offset * buffers.stride, buffers.stride);
  });
  clear_padding(block.tile, buffers.keep, buffers.stride);
  block.extras.keep = buffers.keep;
  block.extras.keep_stride = buffers.stride;
}

void RowGroup::set_bias(ScoreBlock& block, std::int64_t key_end,
                        const ScoreBuffers& buffers) const {
  const auto* only = plan_.bias.only();
  const bool whole = first_ / queries_ == (first_ + rows_ - 1) / queries_ &&
                     key_end <= shape().keys && block.tile.keys % kPanelWidth == 0;
  if (only != nullptr && whole && only->key_stride == 1) {
    const std::int64_t head = kv_head_ * plan_.group() + first_ / queries_;
    block.extras.bias = only->row(plan_.shape, sequence_, head, first_ % queries_) + block.key;
    block.extras.bias_stride = only->query_stride;
    return;
  }
  for_each_segment([&](const RowSegment& segment) {
    plan_.bias.fill({.sequence = sequence_,
                     .head = segment.head,
                     .row = segment.row,
                     .row_end = segment.row + segment.count,
                     .key = block.key,
                     .key_end = key_end},
                    buffers.bias + segment.offset * buffers.stride, buffers.stride);
  });
  clear_padding(block.tile, buffers.bias, buffers.stride);
  block.extras.bias = buffers.bias;
  block.extras.bias_stride = buffers.stride;
}

ScoreBlock RowGroup::open(std::int64_t key, std::int64_t key_end,
                          const ScoreBuffers& buffers) const {
  ScoreBlock block{.key = key,
                   .tile = {.values = buffers.scores,
                            .stride = buffers.stride,
                            .rows = rows_,
                            .keys = key_end - key}};
  bool exact = true;
  if (limited_) {
    exact = set_spans(key, key_end);
    block.tile.spans = spans_;
  }
  if (!exact || !plan_.mask.by_ranges()) set_keep(block, key_end, buffers);
  if (!plan_.bias.none()) set_bias(block, key_end, buffers);
  if (plan_.rule.softcap > 0.0F) block.extras.slope = buffers.slope;
  block.finish = plan_.rule.finished || block.extras.keep != nullptr;
  return block;
}

void RowGroup::score(const ScoreBlock& block, kernels::MatrixView queries,
                     const kernels::Panels& keys, const ScoreBuffers& buffers,
                     kernels::RowCursor* ahead) const {
  hide_maxima(rows_, buffers.row_max);
  // A bias that is read where it lies is needed right after the product: it goes first, and with it
  // a row of a block per register tile.
  kernels::RowCursor bias_rows(kKeyBlock / kernels::RowCursor::kSteps);
  if (block.extras.bias != nullptr && block.extras.bias != buffers.bias) {
    bias_rows.add({block.extras.bias, block.extras.bias_stride}, rows_, block.tile.keys);
    ahead = &bias_rows;
  }
  kernels_.gemm.multiply_scores({.rows = rows_,
                                 .columns = block.tile.keys,
                                 .depth = plan_.dims.key_size,
                                 .a = queries,
                                 .b = keys,
                                 .scores = block.tile.values,
                                 .score_stride = block.tile.stride,
                                 .row_max = buffers.row_max,
                                 .columns_of_tile = block.tile.spans,
                                 .ahead = ahead});
  finish(block, buffers);
}

// Tile by tile: a key that no row of a tile attends may not reach the maxima of its rows.
void RowGroup::score_unpacked(const ScoreBlock& block, kernels::MatrixView queries,
                              kernels::MatrixView keys, const ScoreBuffers& buffers) const {
  hide_maxima(rows_, buffers.row_max);
  for (std::int64_t t = 0; t < tiles_.count; ++t) {
    const kernels::TileSpan span =
        block.tile.spans == nullptr ? kernels::TileSpan{0, block.tile.keys} : block.tile.spans[t];
    const std::int64_t row = tiles_.row(t);
    kernels_.gemm.multiply_few_rows(
        {.rows = tiles_.row(t + 1) - row,
         .columns = span.end - span.begin,
         .depth = plan_.dims.key_size,
         .a = queries.from(row, 0),
         .b = keys.from(span.begin, 0),
         .scores = block.tile.values + row * block.tile.stride + span.begin,
         .score_stride = block.tile.stride,
         .row_max = buffers.row_max + row * kPanelWidth});
  }
  finish(block, buffers);
}

void RowGroup::finish(const ScoreBlock& block, const ScoreBuffers& buffers) const {
  if (block.finish) {
    kernels_.tile.finish_scores(block.tile, plan_.rule, block.extras, buffers.row_max);
  }
}

// NOLINTNEXTLINE(readability-non-const-parameter): the kernel writes to them
void RowGroup::drop(const ScoreBlock& block, float* values) const {
  if (plan_.dropout <= 0.0F) return;
  for_each_segment([&](const RowSegment& segment) {
    const kernels::ScoreTile part{.values = values + segment.offset * block.tile.stride,
                                  .stride = block.tile.stride,
                                  .rows = segment.count,
                                  .keys = block.tile.keys,
                                  // Spans are of the whole group's tiles.
                                  .spans = segment.count == rows_ ? block.tile.spans : nullptr};
    kernels_.tile.drop(part, plan_.dropout_tile({.sequence = sequence_,
                                                 .head = segment.head,
                                                 .row = segment.row,
                                                 .row_end = segment.row + segment.count,
                                                 .key = block.key,
                                                 .key_end = block.key + block.tile.keys}));
  });
}

}  // namespace headwise::ops
