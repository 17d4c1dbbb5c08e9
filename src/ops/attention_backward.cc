#include "ops/attention_backward.h"

#include <algorithm>

namespace headwise::ops {

GradientTiles::GradientTiles(const AttentionPlan& plan, WorkerScratch& scratch)
    : plan_(plan),
      tiles_(plan, scratch),
      gradient_(scratch.add_floats(kTileSize)),
      slope_(scratch.add_floats(plan.rule.softcap > 0.0F ? kTileSize : 0)),
      key_panels_(scratch.add_floats(kernels::packed_size(plan.dims.key_size, kKeyBlock))),
      value_panels_(scratch.add_floats(kernels::packed_size(plan.dims.value_size, kKeyBlock))) {}

GradientTiles::Worker GradientTiles::worker(const WorkerScratch& scratch,
                                            const runtime::Lease& lease, int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch.piece<float>(lease, index, offset);
  };
  return {tiles_.buffers(scratch, lease, index), floats(gradient_), floats(slope_),
          floats(key_panels_), floats(value_panels_)};
}

void GradientTiles::pack_keys(const Worker& worker, const BackwardBuffers& buffers,
                              const masks::TileRange& range) const {
  (void)pack_transposed(plan_, buffers.key, range, plan_.dims.key_size, worker.key_panels);
  (void)pack_transposed(plan_, buffers.value, range, plan_.dims.value_size, worker.value_panels);
}

bool GradientTiles::compute(const Worker& worker, const BackwardBuffers& buffers,
                            const masks::TileRange& range, const float* delta,
                            kernels::ScoreTile& probabilities, kernels::ScoreTile& gradient) const {
  if (!open_tile(plan_, range, worker.tile, probabilities)) return false;
  const std::int64_t first = plan_.row_index(range.sequence, range.head, range.row);
  score_tile(plan_, probabilities, query_rows(plan_, buffers.query, range), worker.key_panels,
             worker.slope);
  kernels::normalise(probabilities, buffers.row_reference + first, buffers.row_sum + first);

  gradient = probabilities;
  gradient.values = worker.gradient;
  kernels::multiply({.rows = gradient.rows,
                     .columns = gradient.keys,
                     .depth = plan_.dims.value_size,
                     .a = query_rows(plan_, buffers.output_gradient, range),
                     .panels = worker.value_panels,
                     .c = {gradient.values, gradient.stride, 1}});
  kernels::drop(gradient, plan_.dropout_tile(range));
  kernels::score_gradient(gradient, probabilities.values, delta + first);
  return true;
}

struct AttentionBackward::Worker {
  GradientTiles::Worker tiles;
  float* key_rows;     // K, packed for dS·K
  float* query_rows;   // Q, packed for dSᵀ·Q
  float* output_rows;  // dO, packed for P̃ᵀ·dO
  bool keys_finite;
};

AttentionBackward::AttentionBackward(const AttentionPlan& plan, runtime::ScratchPlan& scratch,
                                     int threads)
    : plan_(plan),
      tiles_(plan, scratch_),
      key_rows_(scratch_.add_floats(kernels::packed_size(kKeyBlock, plan.dims.key_size))),
      query_rows_(scratch_.add_floats(kernels::packed_size(kRowBlock, plan.dims.key_size))),
      output_rows_(scratch_.add_floats(kernels::packed_size(kRowBlock, plan.dims.value_size))),
      delta_(scratch.add<float>(plan.row_count())) {
  scratch_.claim(scratch, threads);
}

void AttentionBackward::run(const runtime::Lease& lease, const BackwardBuffers& buffers) const {
  compute_delta(lease, buffers);
  // Key and value gradients of a head are sums over all its rows: one task keeps their order.
  lease.parallel_for(plan_.shape.batch() * plan_.dims.kv_heads, [&](std::int64_t task, int index) {
    differentiate(lease, buffers, task / plan_.dims.kv_heads, task % plan_.dims.kv_heads, index);
  });
}

void AttentionBackward::compute_delta(const runtime::Lease& lease,
                                      const BackwardBuffers& buffers) const {
  auto* delta = lease.scratch<float>(delta_);
  const auto blocks = static_cast<std::int64_t>(plan_.row_blocks.size());
  lease.parallel_for(blocks * plan_.dims.heads, [&](std::int64_t task, int) {
    const RowBlock& block = plan_.row_blocks[static_cast<std::size_t>(task % blocks)];
    const masks::TileRange range{.sequence = block.sequence,
                                 .head = task / blocks,
                                 .row = block.row,
                                 .row_end = block.row_end};
    const auto output = query_rows(plan_, buffers.output, range);
    const auto gradient = query_rows(plan_, buffers.output_gradient, range);
    const std::int64_t first = plan_.row_index(range.sequence, range.head, range.row);
    for (std::int64_t row = 0; row < range.rows(); ++row) {
      double sum = 0.0;  // an error here is shared by the whole row of dS
      for (std::int64_t i = 0; i < plan_.dims.value_size; ++i) {
        sum += static_cast<double>(output(row, i)) * static_cast<double>(gradient(row, i));
      }
      delta[first + row] = static_cast<float>(sum);
    }
  });
}

// One key/value head of one sequence: key blocks outside, the group's heads and rows inside.
void AttentionBackward::differentiate(const runtime::Lease& lease, const BackwardBuffers& buffers,
                                      std::int64_t sequence, std::int64_t kv_head,
                                      int index) const {
  const auto floats = [&](std::size_t offset) {
    return scratch_.piece<float>(lease, index, offset);
  };
  Worker worker{tiles_.worker(scratch_, lease, index), floats(key_rows_), floats(query_rows_),
                floats(output_rows_), true};
  const auto* delta = lease.scratch<float>(delta_);
  const std::int64_t group = plan_.group();
  if (group == 0) return;
  const std::int64_t queries = plan_.shape.sequences[static_cast<std::size_t>(sequence)].queries;

  masks::TileRange keys{.sequence = sequence, .head = kv_head * group};
  for_each_key_block(plan_, keys, [&](masks::TileRange range) {
    tiles_.pack_keys(worker.tiles, buffers, range);
    worker.keys_finite = pack_rows(plan_, buffers.key, range, plan_.dims.key_size, worker.key_rows);
    for (std::int64_t member = 0; member < group; ++member) {
      range.head = kv_head * group + member;
      for (range.row = 0; range.row < queries; range.row += kRowBlock) {
        range.row_end = std::min(queries, range.row + kRowBlock);
        kernels::ScoreTile probabilities;
        kernels::ScoreTile gradient;
        if (!tiles_.compute(worker.tiles, buffers, range, delta, probabilities, gradient)) continue;
        kernels::drop(probabilities, plan_.dropout_tile(range));
        add_products(worker, buffers, range, probabilities, gradient);
      }
    }
  });
}

void AttentionBackward::add_products(const Worker& worker, const BackwardBuffers& buffers,
                                     const masks::TileRange& range,
                                     const kernels::ScoreTile& probabilities,
                                     const kernels::ScoreTile& gradient) const {
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  // From the gradient of finished scores to that of the raw products Q·Kᵀ.
  for (std::int64_t row = 0; row < gradient.rows; ++row) {
    float* values = gradient.values + row * gradient.stride;
    const float* slope = worker.tiles.slope + row * gradient.stride;
    for (std::int64_t key = 0; key < gradient.keys; ++key) {
      if (!gradient.kept(row, key)) continue;
      values[key] *= plan_.rule.softcap > 0.0F ? plan_.rule.scale * slope[key] : plan_.rule.scale;
    }
  }
  const auto query = query_rows(plan_, buffers.query, range);
  const auto output = query_rows(plan_, buffers.output_gradient, range);
  const bool query_finite = kernels::pack_panels(range.rows(), dk, query, worker.query_rows);
  const bool output_finite = kernels::pack_panels(range.rows(), dv, output, worker.output_rows);

  const kernels::MatrixView ds{gradient.values, gradient.stride, 1};
  const kernels::MatrixView p{probabilities.values, probabilities.stride, 1};
  const kernels::ByteMatrix keep{gradient.keep, gradient.stride, 1};
  // Masked places hold zeros; beside numbers that are not finite they must not even be multiplied.
  const auto add = [&](const kernels::Product& product, bool finite, kernels::ByteMatrix kept) {
    if (gradient.keep == nullptr || finite) {
      kernels::multiply(product);
    } else {
      kernels::multiply_selected(product, kept);
    }
  };
  add({.rows = range.keys(),
       .columns = dv,
       .depth = range.rows(),
       .a = p.transposed(),
       .panels = worker.output_rows,
       .c = key_rows(plan_, buffers.value_gradient, range),
       .accumulate = true},
      output_finite, keep.transposed());
  add({.rows = range.keys(),
       .columns = dk,
       .depth = range.rows(),
       .a = ds.transposed(),
       .panels = worker.query_rows,
       .c = key_rows(plan_, buffers.key_gradient, range),
       .accumulate = true},
      query_finite, keep.transposed());
  add({.rows = range.rows(),
       .columns = dk,
       .depth = range.keys(),
       .a = ds,
       .panels = worker.key_rows,
       .c = query_rows(plan_, buffers.query_gradient, range),
       .accumulate = true},
      worker.keys_finite, keep);
}

}  // namespace headwise::ops
