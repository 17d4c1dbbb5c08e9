// The backward pass: recomputes P block by block from the row statistics; memory linear in T and S.
//
//   delta = rowsum(dO ∘ O)      P̃ = dropout(P)      dP = dropout(dO·Vᵀ)
//   dS = P ∘ (dP − delta)       dV = P̃ᵀ·dO          dK = scale·dSᵀ·Q     dQ = scale·dS·K
//
// One task takes the keys of a chunk of one key/value head and visits all rows in order, so that dK
// and dV are sums in one fixed order. dQ is a sum over keys: a task adds its share to a row only
// after the task with the keys before has done so (it is certain to be running, since tasks start
// in order). So tasks of one head follow each other like a wave, and need no memory for partial sums.
#pragma once

#include <atomic>
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
  MutableHeads query_gradient;
  MutableHeads key_gradient;
  MutableHeads value_gradient;
};

// Keys of one tile of scores in the backward pass; two make a chunk of one task.
inline constexpr std::int64_t kBackwardKeys = 128;

// Tiles of P and dS, for the gradient of the inputs and of the biases alike.
class GradientTiles {
 public:
  GradientTiles(const AttentionPlan& plan, const kernels::Kernels& kernels, WorkerScratch& scratch);

  [[nodiscard]] std::int64_t group_tiles() const { return group_tiles_; }
  [[nodiscard]] std::int64_t group_rows() const { return group_rows_; }
  [[nodiscard]] std::int64_t tile_rows() const { return kernels_.gemm.tile_rows; }
  [[nodiscard]] RowGroup group(std::int64_t sequence, std::int64_t kv_head, std::int64_t first,
                               std::int64_t rows) const {
    return {plan_, kernels_, sequence, kv_head, first, rows};
  }

  struct Worker {
    ScoreBuffers scores;
    float* gradient;                 // dP, then dS
    float *query, *output_gradient;  // gathered rows
    float *reference, *inverse_sum, *delta;
  };
  [[nodiscard]] Worker worker(const WorkerScratch& scratch, const runtime::Lease& lease,
                              int index) const;

  // Everything about some rows that does not depend on the keys.
  struct Rows {
    kernels::MatrixView query;
    kernels::MatrixView output_gradient;
  };
  Rows open_rows(const Worker& worker, const BackwardBuffers& buffers, const RowGroup& group,
                 const float* delta) const;

  // Kᵀ and Vᵀ of a block.
  struct Keys {
    std::int64_t key, key_end;
    kernels::Panels key_panels, value_panels;
  };
  // Leaves P in worker.scores.scores and dS·scale in worker.gradient (`scale` 1 for the gradient of
  // the scores themselves).
  [[nodiscard]] ScoreBlock compute(const Worker& worker, const RowGroup& group, const Rows& rows,
                                   const Keys& keys, bool of_products) const;

 private:
  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  std::int64_t group_tiles_, group_rows_;
  ScoreLayout scores_;
  std::size_t gradient_, query_, output_gradient_, reference_, inverse_sum_, delta_;
};

class AttentionBackward {
 public:
  AttentionBackward(const AttentionPlan& plan, const runtime::Lease& lease,
                    runtime::ScratchPlan& scratch);
  void run(const runtime::Lease& lease, const BackwardBuffers& buffers) const;
  // rowsum(dO ∘ O) of every row, in the order of AttentionPlan::row_index; there after run().
  [[nodiscard]] const float* delta(const runtime::Lease& lease) const {
    return lease.scratch<float>(delta_);
  }

 private:
  struct Worker;
  struct Chunk;
  using Progress = std::atomic<std::int64_t>;
  void compute_delta(const runtime::Lease& lease, const BackwardBuffers& buffers) const;
  void differentiate(const runtime::Lease& lease, const BackwardBuffers& buffers, std::int64_t task,
                     int index) const;
  // Returns whether all keys are finite.
  [[nodiscard]] bool pack_keys(const Worker& worker, const BackwardBuffers& buffers,
                               const Chunk& chunk) const;
  // Calls wait() before it adds to the query's gradient.
  template <typename Wait>
  void visit_rows(Worker& worker, const BackwardBuffers& buffers, const Chunk& chunk,
                  const RowGroup& group, Wait wait) const;
  void store_keys(const Worker& worker, const BackwardBuffers& buffers, const Chunk& chunk) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  std::int64_t chunks_;  // of the longest sequence
  WorkerScratch scratch_;
  GradientTiles tiles_;
  std::size_t key_columns_, value_columns_, key_rows_, query_rows_, output_rows_, key_gradient_,
      value_gradient_, query_gradient_;
  std::size_t delta_, progress_;
};

// Gradients of the biases, reduced straight to their own shapes: one more pass over the scores for
// each, in which a task owns some rows of the bias and adds all that is broadcast onto them in a
// fixed order.
class BiasGradient {
 public:
  BiasGradient(const AttentionPlan& plan, const std::vector<Bias>& biases,
               const runtime::Lease& lease, runtime::ScratchPlan& scratch);
  [[nodiscard]] std::vector<Tensor> allocate(const runtime::Lease& lease) const;
  void run(const runtime::Lease& lease, const BackwardBuffers& buffers, const float* delta,
           std::vector<Tensor>& gradients) const;

 private:
  void add(const runtime::Lease& lease, const BackwardBuffers& buffers, const float* delta,
           const masks::DenseArray<float>& gradient) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  const std::vector<Bias>& biases_;
  WorkerScratch scratch_;
  GradientTiles tiles_;
  std::size_t key_panels_, value_panels_;
};

}  // namespace headwise::ops
