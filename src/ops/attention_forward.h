// The forward pass: streams over key blocks with an online softmax; never holds T×S numbers.
#pragma once

#include "ops/attention_tiles.h"

namespace headwise::ops {

// A result with room for what every call returns, but the output.
AttentionResult allocate_result(const AttentionPlan& plan, const runtime::Lease& lease);
// From the row statistics that run() left.
void fill_log_sum_exp(const runtime::Lease& lease, AttentionResult& result);

// Made before memory is reserved, run after it.
//
// Keys and values are packed into panels. A head with few rows is packed by the task that attends
// it, block by block, while its numbers are in the cache; a head whose rows make several tasks is
// packed before, once for all of them.
//
// Zero times a masked NaN is NaN. That is so rare that rows are attended as if it could not happen,
// and once more with care if their output turns out not to be finite.
class AttentionForward {
 public:
  AttentionForward(const AttentionPlan& plan, const runtime::Lease& lease,
                   runtime::ScratchPlan& scratch);
  void run(const runtime::Lease& lease, const AttentionBuffers& buffers) const;

 private:
  struct Worker;
  struct Head;
  struct BlockCall;
  // How the keys of a sequence are packed.
  struct SequencePlan {
    bool shared = false;           // by all tasks of a head
    std::int64_t keys = 0;         // beyond these, no row attends any
    std::int64_t first_block = 0;  // that any row attends
    std::int64_t blocks = 0;
    std::int64_t shared_before = 0;  // blocks of sequences before that are shared, of one head
  };

  void plan_sequences();
  [[nodiscard]] Worker worker(const runtime::Lease& lease, int index) const;
  [[nodiscard]] Head head(std::int64_t sequence, std::int64_t kv_head) const;
  [[nodiscard]] Head own_head(const runtime::Lease& lease, int index, std::int64_t sequence,
                              std::int64_t kv_head) const;
  [[nodiscard]] Head shared_head(const runtime::Lease& lease, std::int64_t sequence,
                                 std::int64_t kv_head) const;
  void pack_block(const AttentionBuffers& buffers, const Head& head, std::int64_t block) const;
  void pack_if_needed(const AttentionBuffers& buffers, const Head& head, std::int64_t block) const;
  void attend(const Worker& worker, const AttentionBuffers& buffers, const RowChunk& chunk,
              const Head& head) const;
  void attend_group(const Worker& worker, const AttentionBuffers& buffers, const Head& head,
                    const RowGroup& group, bool careful) const;
  [[nodiscard]] bool values_in_place(const AttentionBuffers& buffers) const;
  [[nodiscard]] bool reads_unpacked(const AttentionBuffers& buffers, const RowChunk& chunk) const;
  void report(const runtime::Lease& lease, const AttentionBuffers& buffers) const;
  [[nodiscard]] kernels::RowCursor rows_ahead(const AttentionBuffers& buffers,
                                              std::int64_t task) const;
  void attend_block(const Worker& worker, const AttentionBuffers& buffers, const RowGroup& group,
                    const BlockCall& call) const;
  [[nodiscard]] bool values_finite(const AttentionBuffers& buffers, const ScoreBlock& scores,
                                   const BlockCall& call) const;
  void add_values(const Worker& worker, const AttentionBuffers& buffers, const ScoreBlock& scores,
                  const BlockCall& call) const;
  void add_unpacked_values(const Worker& worker, const AttentionBuffers& buffers,
                           const ScoreBlock& scores, const BlockCall& call) const;

  const AttentionPlan& plan_;
  const kernels::Kernels& kernels_;
  std::int64_t group_rows_;  // most of a RowGroup
  base::SmallVector<SequencePlan> sequences_;
  std::int64_t shared_blocks_ = 0;  // of all sequences, one head
  std::int64_t slots_ = 1;          // blocks that a worker keeps packed
  WorkerScratch scratch_;
  ScoreLayout scores_;
  std::size_t key_panels_, value_panels_, packed_;  // of a worker
  std::size_t shared_keys_, shared_values_;
  std::size_t query_, heads_, output_, inverse_, reference_, sum_, rescale_;
};

}  // namespace headwise::ops
