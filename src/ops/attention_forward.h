// The forward pass: streams over key blocks with an online softmax; never holds T×S numbers.
#pragma once

#include "ops/attention_tiles.h"

namespace headwise::ops {

// A result with room for what every call returns, but the output.
AttentionResult allocate_result(const AttentionPlan& plan);
// From the row statistics that run() left.
void fill_log_sum_exp(const runtime::Lease& lease, AttentionResult& result);

// Made before memory is reserved, run after it.
class AttentionForward {
 public:
  AttentionForward(const AttentionPlan& plan, const runtime::Lease& lease,
                   runtime::ScratchPlan& scratch);
  void run(const runtime::Lease& lease, const AttentionBuffers& buffers) const;

 private:
  struct Worker;
  [[nodiscard]] Worker worker(const runtime::Lease& lease, int index) const;
  void attend(const Worker& worker, const AttentionBuffers& buffers, const RowChunk& chunk,
              std::int64_t kv_head) const;
  void attend_group(const Worker& worker, const AttentionBuffers& buffers,
                    const RowGroup& group) const;
  // One key block of a row group.
  struct BlockCall {
    std::int64_t block;
    kernels::MatrixView query;
    kernels::MutableMatrix output;
    bool first, last;
  };
  void attend_block(const Worker& worker, const AttentionBuffers& buffers, const RowGroup& group,
                    const BlockCall& call) const;
  void pack_block(const Worker& worker, const AttentionBuffers& buffers, const RowGroup& group,
                  std::int64_t block) const;
  [[nodiscard]] std::int64_t block_end(const RowGroup& group, std::int64_t block) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  std::int64_t group_rows_;  // most of a RowGroup
  std::int64_t slots_;       // key blocks that stay packed
  WorkerScratch scratch_;
  ScoreLayout scores_;
  std::size_t key_panels_, value_panels_, states_, query_, heads_, output_, inverse_,
      reference_, sum_, rescale_;
};

}  // namespace headwise::ops
