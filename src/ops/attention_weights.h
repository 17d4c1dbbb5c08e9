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
                       const WeightsRequest& request, runtime::ScratchPlan& scratch, int threads);
  // Makes the tensors of the result; the only part that allocates.
  void allocate(AttentionResult& result) const;
  void run(const runtime::Lease& lease, const AttentionBuffers& buffers,
           AttentionResult& result) const;

 private:
  [[nodiscard]] bool wanted() const;
  [[nodiscard]] bool wants_every_head() const;
  void visit_rows(const runtime::Lease& lease, const AttentionBuffers& buffers,
                  const RowBlock& block, int worker, AttentionResult& result) const;
  [[nodiscard]] bool any_row_selected(const RowBlock& block) const;
  void store_matrix(const kernels::ScoreTile& tile, const masks::TileRange& range,
                    Tensor& weights) const;
  void store_top(const kernels::ScoreTile& tile, const masks::TileRange& range,
                 TopWeights& top) const;
  void add_statistics(const kernels::ScoreTile& tile, const masks::TileRange& range,
                      WeightStatistics& statistics) const;

  const AttentionPlan& plan_;
  WeightsRequest request_;  // with the defaults of heads and rows filled in
  WorkerScratch scratch_;
  TileLayout tiles_;
  std::size_t key_panels_;
};

}  // namespace headwise::ops
