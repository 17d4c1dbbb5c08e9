// The forward pass: streams over key blocks with an online softmax; never holds T×S numbers.
#pragma once

#include "ops/attention_tiles.h"

namespace headwise::ops {

// A result with room for what every call returns, but the output.
AttentionResult allocate_result(const AttentionPlan& plan);
// From the row statistics that run() left.
void fill_log_sum_exp(AttentionResult& result);

// Made before memory is reserved, run after it.
class AttentionForward {
 public:
  AttentionForward(const AttentionPlan& plan, runtime::ScratchPlan& scratch, int threads);
  void run(const runtime::Lease& lease, const AttentionBuffers& buffers) const;

 private:
  struct Worker;
  [[nodiscard]] Worker worker(const runtime::Lease& lease, int index) const;
  void attend(const Worker& worker, const AttentionBuffers& buffers, const RowBlock& block,
              std::int64_t kv_head) const;
  void attend_tile(const Worker& worker, const kernels::ScoreTile& tile,
                   const masks::TileRange& range, bool values_finite) const;
  void finish(const Worker& worker, const AttentionBuffers& buffers,
              const masks::TileRange& range) const;

  const AttentionPlan& plan_;
  WorkerScratch scratch_;
  TileLayout tiles_;
  std::size_t key_panels_, value_panels_, heads_, reference_, sum_, rescale_;
};

}  // namespace headwise::ops
