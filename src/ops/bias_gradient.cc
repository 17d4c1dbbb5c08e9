#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "ops/attention_backward.h"

namespace headwise::ops {

namespace {

// Some rows of one head whose gradient is added to the same rows of the bias as its group's others.
struct Member {
  std::int64_t sequence = 0;
  std::int64_t head = 0;
  std::int64_t row = 0;
  std::int64_t rows = 0;
};

// Rows that share a place in the bias make a group; members are in order of sequence, head and row.
std::vector<std::vector<Member>> group_by_place(const AttentionPlan& plan, std::int64_t most_rows,
                                                const masks::DenseArray<float>& bias) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Member>> groups;
  for (std::int64_t b = 0; b < plan.shape.batch(); ++b) {
    const masks::Sequence& sequence = plan.shape.sequences[static_cast<std::size_t>(b)];
    for (std::int64_t head = 0; head < plan.dims.heads; ++head) {
      for (std::int64_t row = 0; row < sequence.queries; row += most_rows) {
        const std::tuple place{bias.sequence_stride == 0 ? 0 : b, bias.head_stride == 0 ? 0 : head,
                               bias.query_stride == 0 ? 0 : sequence.query_begin + row};
        groups[place].push_back({b, head, row, std::min(most_rows, sequence.queries - row)});
      }
    }
  }
  std::vector<std::vector<Member>> list;
  list.reserve(groups.size());
  for (auto& [place, members] : groups) list.push_back(std::move(members));
  return list;
}

}  // namespace

BiasGradient::BiasGradient(const AttentionPlan& plan, const std::vector<Bias>& biases,
                           const runtime::Lease& lease, runtime::ScratchPlan& scratch)
    : plan_(plan),
      kernels_(lease.kernels()),
      biases_(biases),
      tiles_(plan, kernels_, scratch_),
      key_panels_(scratch_.add_floats(kernels::packed_size(plan.dims.key_size, kBackwardKeys))),
      value_panels_(
          scratch_.add_floats(kernels::packed_size(plan.dims.value_size, kBackwardKeys))) {
  scratch_.claim(scratch, lease.threads());
}

std::vector<Tensor> BiasGradient::allocate(const runtime::Lease& lease) const {
  std::vector<Tensor> gradients;
  gradients.reserve(biases_.size());
  for (const Bias& bias : biases_) gradients.push_back(lease.zeros(bias.values.view().shape()));
  return gradients;
}

void BiasGradient::run(const runtime::Lease& lease, const BackwardBuffers& buffers,
                       const float* delta, std::vector<Tensor>& gradients) const {
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    add(lease, buffers, delta,
        masks::resolve_dense("BiasGradient", "gradient", gradients[i].view(), biases_[i].axes,
                             plan_.shape));
  }
}

void BiasGradient::add(const runtime::Lease& lease, const BackwardBuffers& buffers,
                       const float* delta, const masks::DenseArray<float>& gradient) const {
  // Rows are cut alike on every CPU: the order of what is added to a shared place follows.
  constexpr std::int64_t kRows = 16;
  const auto groups = group_by_place(plan_, kRows, gradient);
  const std::int64_t dk = plan_.dims.key_size;
  const std::int64_t dv = plan_.dims.value_size;
  lease.parallel_for(static_cast<std::int64_t>(groups.size()), [&](std::int64_t task, int index) {
    const GradientTiles::Worker worker = tiles_.worker(scratch_, lease, index);
    auto* key_panels = scratch_.piece<float>(lease, index, key_panels_);
    auto* value_panels = scratch_.piece<float>(lease, index, value_panels_);
    for (const Member& member : groups[static_cast<std::size_t>(task)]) {
      const auto& sequence = plan_.shape.sequences[static_cast<std::size_t>(member.sequence)];
      const std::int64_t kv_head = member.head / plan_.group();
      const RowGroup group =
          tiles_.group(member.sequence, kv_head,
                       member.head % plan_.group() * sequence.queries + member.row, member.rows);
      const GradientTiles::Rows rows = tiles_.open_rows(worker, buffers, group, delta);
      const std::int64_t keys = plan_.shape.all_keys(sequence);
      for (std::int64_t key = 0; key < keys; key += kBackwardKeys) {
        const std::int64_t key_end = std::min(key + kBackwardKeys, keys);
        if (!group.attends(key, key_end)) continue;
        const auto pack = [&](const ConstHeads& heads, std::int64_t features, float* panels) {
          const auto matrix = key_rows(plan_, heads, member.sequence, kv_head, key);
          (void)kernels_.gemm.pack_panels(features, key_end - key, matrix.transposed(), panels);
          return kernels::packed_panels(panels, features);
        };
        const ScoreBlock block = tiles_.compute(worker, group, rows,
                                                {key, key_end, pack(buffers.key, dk, key_panels),
                                                 pack(buffers.value, dv, value_panels)},
                                                false);
        clear_outside_spans(block.tile, kernels_.gemm.tile_rows, worker.gradient, 0.0F);
        for (std::int64_t row = 0; row < member.rows; ++row) {
          float* to = gradient.row(plan_.shape, member.sequence, member.head, member.row + row);
          const float* from = worker.gradient + row * block.tile.stride;
          for (std::int64_t k = key; k < std::min(sequence.keys, key_end); ++k) {
            to[k * gradient.key_stride] += from[k - key];
          }
        }
      }
    }
  });
}

}  // namespace headwise::ops
