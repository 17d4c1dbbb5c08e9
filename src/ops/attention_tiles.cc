#include "ops/attention_tiles.h"

#include <algorithm>

namespace headwise::ops {

ScoreLayout::ScoreLayout(const AttentionPlan& plan, std::int64_t rows, std::int64_t keys,
                         WorkerScratch& scratch)
    : stride_(keys + kernels::kPanelWidth),
      scores_(scratch.add_floats(rows * stride_)),
      bias_(scratch.add_floats(plan.bias.none() ? 0 : rows * stride_)),
      keep_(scratch.add_bytes(rows * stride_)),
      slope_(scratch.add_floats(plan.rule.softcap > 0.0F ? rows * stride_ : 0)),
      row_max_(scratch.add_floats((rows + 3) * kernels::kPanelWidth)) {}

ScoreBuffers ScoreLayout::buffers(const WorkerScratch& scratch, const runtime::Lease& lease,
                                  int worker) const {
  return {.scores = scratch.piece<float>(lease, worker, scores_),
          .bias = scratch.piece<float>(lease, worker, bias_),
          .keep = scratch.piece<std::uint8_t>(lease, worker, keep_),
          .slope = scratch.piece<float>(lease, worker, slope_),
          .row_max = scratch.piece<float>(lease, worker, row_max_),
          .stride = stride_};
}

void clear_outside_spans(const kernels::ScoreTile& tile, std::int64_t tile_rows, float* values,
                         float with) {
  if (tile.spans == nullptr) return;
  const kernels::RowTiles tiles(tile.rows, tile_rows);
  for (std::int64_t t = 0; t < tiles.count; ++t) {
    for (std::int64_t row = tiles.row(t); row < tiles.row(t + 1); ++row) {
      float* from = values + row * tile.stride;
      std::fill(from, from + tile.spans[t].begin, with);
      std::fill(from + tile.spans[t].end, from + tile.keys, with);
    }
  }
}

kernels::MatrixView key_rows(const AttentionPlan& plan, const ConstHeads& heads,
                             std::int64_t sequence, std::int64_t kv_head, std::int64_t key) {
  const auto& shape = plan.shape.sequences[static_cast<std::size_t>(sequence)];
  return heads.head(sequence, shape.key_begin + key, kv_head);
}

kernels::MatrixView query_rows(const RowGroup& group, const ConstHeads& heads,
                               std::int64_t features, float* dense) {
  const kernels::MatrixView matrix = group.in_place(heads);
  if (matrix.data != nullptr) return matrix;
  group.gather(heads, features, dense);
  return {dense, features, 1};
}

}  // namespace headwise::ops
