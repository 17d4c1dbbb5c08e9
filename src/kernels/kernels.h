// All kernels of one CPU target, and the choice among targets.
#pragma once

#include <string_view>

#include "kernels/attention/tile.h"
#include "kernels/gemm/gemm.h"

namespace headwise::kernels {

struct Kernels {
  std::string_view target;
  GemmKernels gemm;
  TileKernels tile;
};

// Targets that this CPU can run, the best one first; the last is the readable reference, which runs
// on any.
struct TargetList {
  const Kernels* const* begin_ = nullptr;
  const Kernels* const* end_ = nullptr;
  [[nodiscard]] const Kernels* const* begin() const { return begin_; }
  [[nodiscard]] const Kernels* const* end() const { return end_; }
};
TargetList targets();

// Null: this CPU has no such target.
const Kernels* find_target(std::string_view name);

}  // namespace headwise::kernels
