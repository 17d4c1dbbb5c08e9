#include "ops/attention_tiles.h"

namespace headwise::ops {

TileLayout::TileLayout(const AttentionPlan& plan, WorkerScratch& scratch)
    : scores(scratch.add_floats(kTileSize)),
      bias(scratch.add_floats(plan.bias.none() ? 0 : kTileSize)),
      keep(scratch.add_bytes(kTileSize)) {}

TileBuffers TileLayout::buffers(const WorkerScratch& scratch, const runtime::Lease& lease,
                                int worker) const {
  return {scratch.piece<float>(lease, worker, scores), scratch.piece<float>(lease, worker, bias),
          scratch.piece<std::uint8_t>(lease, worker, keep)};
}

bool open_tile(const AttentionPlan& plan, const masks::TileRange& range, const TileBuffers& buffers,
               kernels::ScoreTile& tile) {
  masks::TileKind kind = plan.mask.tile(range, buffers.keep, kKeyBlock);
  if (kind == masks::TileKind::Skip) return false;
  tile = {.values = buffers.scores,
          .keep = nullptr,
          .bias = nullptr,
          .stride = kKeyBlock,
          .rows = range.rows(),
          .keys = range.keys()};
  if (!plan.bias.none()) {
    kind = plan.bias.tile(range, kind, buffers.bias, buffers.keep, kKeyBlock);
    tile.bias = buffers.bias;
  }
  if (kind == masks::TileKind::Partial) tile.keep = buffers.keep;
  return true;
}

void score_tile(const AttentionPlan& plan, const kernels::ScoreTile& tile,
                kernels::MatrixView query_rows, const float* key_panels, float* slope) {
  kernels::multiply({.rows = tile.rows,
                     .columns = tile.keys,
                     .depth = plan.dims.key_size,
                     .a = query_rows,
                     .panels = key_panels,
                     .c = {tile.values, tile.stride, 1}});
  kernels::finish_scores(tile, plan.rule, slope);
}

bool pack_transposed(const AttentionPlan& plan, const ConstHeads& heads,
                     const masks::TileRange& range, std::int64_t features, float* panels) {
  return kernels::pack_panels(features, range.keys(), key_rows(plan, heads, range).transposed(),
                              panels);
}

bool pack_rows(const AttentionPlan& plan, const ConstHeads& heads, const masks::TileRange& range,
               std::int64_t features, float* panels) {
  return kernels::pack_panels(range.keys(), features, key_rows(plan, heads, range), panels);
}

}  // namespace headwise::ops
