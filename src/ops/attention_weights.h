// Returned attention weights: a second pass over the scores that stores only what was asked for.
// It runs after the forward pass and leaves its results alone, bit for bit.
#pragma once

#include <string_view>

#include "headwise/attention.h"
#include "ops/attention_tiles.h"

namespace headwise::ops {

class AttentionWeightsPass {
 public:
  // Throws ArgumentError on behalf of `function` if the request does not fit.
  AttentionWeightsPass(std::string_view function, const AttentionPlan& plan,
                       const WeightsRequest& request, const runtime::Lease& lease,
                       runtime::ScratchPlan& scratch);
  // Makes the tensors of the result; the only part that allocates.
  void allocate(const runtime::Lease& lease, AttentionResult& result) const;
  void run(const runtime::Lease& lease, const AttentionBuffers& buffers,
           AttentionResult& result) const;

 private:
  // Weights of some rows of one head for one key block.
  struct Tile {
    masks::TileRange range;
    const float* values;
    const std::uint8_t* attended;  // for the largest weights
    std::int64_t stride;
    [[nodiscard]] const float* row(std::int64_t i) const { return values + i * stride; }
  };
  struct Worker;
  [[nodiscard]] bool wanted() const;
  [[nodiscard]] bool wants_every_head() const;
  [[nodiscard]] bool selected(const masks::TileRange& rows) const;
  // The rows and head of `rows`, all keys.
  void visit_rows(const Worker& worker, const AttentionBuffers& buffers,
                  const masks::TileRange& rows, AttentionResult& result) const;
  void visit_group(const Worker& worker, const AttentionBuffers& buffers, const RowGroup& group,
                   masks::TileRange range, AttentionResult& result) const;
  void note_masked(const ScoreBlock& block, std::uint8_t* attended) const;
  void store_matrix(const Tile& tile, Tensor& weights) const;
  void store_top(const Tile& tile, TopWeights& top) const;
  void add_statistics(const Tile& tile, WeightStatistics& statistics) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  WeightsRequest request_;  // with the defaults of heads and rows filled in
  WorkerScratch scratch_;
  ScoreLayout scores_;
  std::size_t key_panels_, reference_, inverse_sum_;
};

}  // namespace headwise::ops
