// How much of the machine's peak the library's kernels reach: what turns a count into a time.
//
// All are shares of the FMA peak of the same vector width, or counts of operations, so that they
// hold from machine to machine. Measured on Zen 3 (AVX2) and Zen 4 (AVX-512, AVX2), and for SSE4 on
// Zen 3; docs/plan.md tells how, and how far off predictions are. A faster kernel changes these.
#pragma once

#include <cstdint>
#include <string_view>

namespace headwise::analyze {

struct KernelShares {
  std::string_view target;
  double tile_rows;     // of the highest register tile
  double tile_columns;  // beside it
  double projection;    // a product with a packed kernel; the same from 4 rows on
  // Reads and writes its result for every 256 rows, packs dy and copies x.
  double weight_gradient;
  // Q·Kᵀ and P·V, whatever the size of a head: a tile's start, maxima and end. Backward packs
  // row groups as well, and its sums are as short as these are high.
  double heads;
  double heads_backward;
  double operations;  // of softmax: shifts, comparisons, loads and stores stand between them
};

inline constexpr KernelShares kKernelShares[] = {
    {"avx512", 14.0, 32.0, 0.94, 0.75, 0.92, 0.885, 0.65},
    {"avx2", 6.0, 16.0, 0.94, 0.75, 0.90, 0.885, 0.53},
    {"neon", 6.0, 16.0, 0.94, 0.75, 0.90, 0.885, 0.53},  // as AVX2: not measured
    // Products and sums apart, in 16 registers: its yardstick has neither limit.
    {"sse4", 2.0, 16.0, 0.72, 0.57, 0.70, 0.70, 0.50},
};

// Of the target, or of the closest there is.
inline const KernelShares& kernel_shares(std::string_view target) {
  for (const KernelShares& shares : kKernelShares) {
    if (shares.target == target) return shares;
  }
  return kKernelShares[1];
}

// Keys by which a mask's edge lengthens a row: half of a register tile, its rows and columns, is
// computed and hidden, and a partly hidden block costs something itself. Backward, blocks of 128
// keys and groups of 96 rows are cleared before the products that sum over them.
inline constexpr double kCutKeys = 25.0;
inline constexpr double kBackwardCutKeys = 63.0;
inline double cut_keys(const KernelShares& shares, bool backward) {
  return (shares.tile_rows + shares.tile_columns) / 2.0 + (backward ? kBackwardCutKeys : kCutKeys);
}
// Operations for every number that is packed: a transposition in registers, a load and a store. Keys
// and values that a few queries read where they lie are transposed as well, and cost the same.
inline constexpr double kPackOperations = 10.0;
// Bookkeeping of an attention task (a head's rows), as a part of the smallest layer's call.
inline constexpr double kTaskCalls = 0.5;
// Threads meet behind the projections, attention, its logarithms and the output; whoever is early
// waits for the last task. Each time takes about as long as the smallest layer's call.
inline constexpr double kMeetings = 4.0;
// Results are cleared by one thread, and clearing is slower than reading.
inline constexpr double kClearingSpeed = 0.5;

// Where the library cuts work, see src/ops and src/runtime.
inline constexpr double kFlopsWorthThreads = 2e6;
inline constexpr std::int64_t kPanel = 16;  // columns that a product fills up to
inline constexpr std::int64_t kTaskRows = 256;
inline constexpr std::int64_t kBackwardTaskKeys = 256;
inline constexpr std::int64_t kProjectionRows = 96;
constexpr std::int64_t projection_columns(std::int64_t rows) { return rows < 4 ? 64 : 32; }

}  // namespace headwise::analyze
