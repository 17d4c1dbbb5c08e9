// The backward pass: recomputes P block by block from the row statistics; memory linear in T and S.
//
//   delta = rowsum(dO ∘ O)      P̃ = dropout(P)      dP = dropout(dO·Vᵀ)
//   dS = P ∘ (dP − delta)       dV = P̃ᵀ·dO          dK = scale·dSᵀ·Q     dQ = scale·dS·K
#pragma once

#include <vector>

#include "ops/attention_tiles.h"

namespace headwise::ops {

struct BackwardBuffers {
  ConstHeads query;
  ConstHeads key;
  ConstHeads value;
  ConstHeads output;
  const float* row_reference = nullptr;
  const float* row_sum = nullptr;
  ConstHeads output_gradient;
  MutableHeads query_gradient;  // all three start as zeros
  MutableHeads key_gradient;
  MutableHeads value_gradient;
};

// Tiles of P and dS, for the gradient of the inputs and of the biases alike.
class GradientTiles {
 public:
  GradientTiles(const AttentionPlan& plan, WorkerScratch& scratch);

  struct Worker {
    TileBuffers tile;
    float* gradient;      // dP, then dS
    float* slope;         // of the softcap
    float* key_panels;    // Kᵀ
    float* value_panels;  // Vᵀ
  };
  [[nodiscard]] Worker worker(const WorkerScratch& scratch, const runtime::Lease& lease,
                              int index) const;
  void pack_keys(const Worker& worker, const BackwardBuffers& buffers,
                 const masks::TileRange& range) const;
  // False: nothing is attended. Else probabilities.values holds P and gradient.values dS, both
  // before the softcap's slope and the scale.
  bool compute(const Worker& worker, const BackwardBuffers& buffers, const masks::TileRange& range,
               const float* delta, kernels::ScoreTile& probabilities,
               kernels::ScoreTile& gradient) const;

 private:
  const AttentionPlan& plan_;
  TileLayout tiles_;
  std::size_t gradient_, slope_, key_panels_, value_panels_;
};

class AttentionBackward {
 public:
  AttentionBackward(const AttentionPlan& plan, runtime::ScratchPlan& scratch, int threads);
  void run(const runtime::Lease& lease, const BackwardBuffers& buffers) const;
  // rowsum(dO ∘ O) of every row, in the order of AttentionPlan::row_index; there after run().
  [[nodiscard]] const float* delta(const runtime::Lease& lease) const {
    return lease.scratch<float>(delta_);
  }

 private:
  struct Worker;
  void compute_delta(const runtime::Lease& lease, const BackwardBuffers& buffers) const;
  void differentiate(const runtime::Lease& lease, const BackwardBuffers& buffers,
                     std::int64_t sequence, std::int64_t kv_head, int index) const;
  void add_products(const Worker& worker, const BackwardBuffers& buffers,
                    const masks::TileRange& range, const kernels::ScoreTile& probabilities,
                    const kernels::ScoreTile& gradient) const;

  const AttentionPlan& plan_;
  WorkerScratch scratch_;
  GradientTiles tiles_;
  std::size_t key_rows_, query_rows_, output_rows_;
  std::size_t delta_;
};

// Gradients of the biases, reduced straight to their own shapes: one more pass over the scores for
// each, in which a task owns some rows of the bias and adds all that is broadcast onto them in a
// fixed order.
class BiasGradient {
 public:
  BiasGradient(const AttentionPlan& plan, const std::vector<Bias>& biases,
               runtime::ScratchPlan& scratch, int threads);
  [[nodiscard]] std::vector<Tensor> allocate() const;
  void run(const runtime::Lease& lease, const BackwardBuffers& buffers, const float* delta,
           std::vector<Tensor>& gradients) const;

 private:
  void add(const runtime::Lease& lease, const BackwardBuffers& buffers, const float* delta,
           const masks::DenseArray<float>& gradient) const;

  const AttentionPlan& plan_;
  const std::vector<Bias>& biases_;
  WorkerScratch scratch_;
  GradientTiles tiles_;
};

}  // namespace headwise::ops
