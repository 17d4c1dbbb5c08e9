#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "ops/attention_backward.h"

namespace headwise::ops {

namespace {

// Some rows of one head whose gradient is added to the same rows of the bias as its group's others.
struct Member {
  RowBlock block;
  std::int64_t head = 0;
};

// Rows that share a place in the bias make a group; members are in order of sequence, head and row.
std::vector<std::vector<Member>> group_by_place(const AttentionPlan& plan,
                                                const masks::DenseArray<float>& bias) {
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, std::vector<Member>> groups;
  for (const RowBlock& block : plan.row_blocks) {
    const std::int64_t begin =
        plan.shape.sequences[static_cast<std::size_t>(block.sequence)].query_begin;
    for (std::int64_t head = 0; head < plan.dims.heads; ++head) {
      const std::tuple place{bias.sequence_stride == 0 ? 0 : block.sequence,
                             bias.head_stride == 0 ? 0 : head,
                             bias.query_stride == 0 ? 0 : begin + block.row};
      groups[place].push_back({block, head});
    }
  }
  std::vector<std::vector<Member>> list;
  list.reserve(groups.size());
  for (auto& [place, members] : groups) list.push_back(std::move(members));
  return list;
}

}  // namespace

BiasGradient::BiasGradient(const AttentionPlan& plan, const std::vector<Bias>& biases,
                           runtime::ScratchPlan& scratch, int threads)
    : plan_(plan), biases_(biases), tiles_(plan, scratch_) {
  scratch_.claim(scratch, threads);
}

std::vector<Tensor> BiasGradient::allocate() const {
  std::vector<Tensor> gradients;
  gradients.reserve(biases_.size());
  for (const Bias& bias : biases_) gradients.emplace_back(bias.values.view().shape());
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
  const auto groups = group_by_place(plan_, gradient);
  lease.parallel_for(static_cast<std::int64_t>(groups.size()), [&](std::int64_t task, int index) {
    const GradientTiles::Worker worker = tiles_.worker(scratch_, lease, index);
    for (const Member& member : groups[static_cast<std::size_t>(task)]) {
      const masks::TileRange rows{.sequence = member.block.sequence,
                                  .head = member.head,
                                  .row = member.block.row,
                                  .row_end = member.block.row_end};
      for_each_key_block(plan_, rows, [&](const masks::TileRange& range) {
        kernels::ScoreTile probabilities;
        kernels::ScoreTile scores;
        tiles_.pack_keys(worker, buffers, range);
        if (!tiles_.compute(worker, buffers, range, delta, probabilities, scores)) return;
        const std::int64_t own =
            plan_.shape.sequences[static_cast<std::size_t>(range.sequence)].keys;
        for (std::int64_t row = 0; row < range.rows(); ++row) {
          float* to = gradient.row(plan_.shape, range.sequence, range.head, range.row + row);
          for (std::int64_t key = range.key; key < std::min(own, range.key_end); ++key) {
            to[key * gradient.key_stride] += scores.values[row * scores.stride + key - range.key];
          }
        }
      });
    }
  });
}

}  // namespace headwise::ops
