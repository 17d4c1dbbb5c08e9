// Compiles the SIMD kernels once per CPU target, by Highway's own loop over targets.
#include "kernels/kernels.h"

#include <cstddef>
#include <cstdint>

#include "kernels/attention/tile_reference.h"
#include "kernels/gemm/gemm_reference.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/kernels.cc"
#include <hwy/foreach_target.h>  // the rest of the file, again and again
#include <hwy/highway.h>
#include <hwy/targets.h>

#include "kernels/attention/tile-inl.h"
#include "kernels/gemm/gemm-inl.h"

#if HWY_ONCE
namespace headwise::kernels {

namespace {

struct Target {
  std::int64_t bit;  // Highway's; 0: needs nothing of the CPU
  Kernels kernels;
};

constexpr std::size_t kMostTargets = 4;

// What was compiled, the best first, and what of it this CPU can run.
struct Targets {
  const Target compiled[kMostTargets] = {
#if HWY_TARGETS & HWY_AVX3
      {HWY_AVX3, {"avx512", N_AVX3::kGemmKernels, N_AVX3::kTileKernels}},
#endif
#if HWY_TARGETS & HWY_AVX2
      {HWY_AVX2, {"avx2", N_AVX2::kGemmKernels, N_AVX2::kTileKernels}},
#endif
#if HWY_TARGETS & HWY_SSE4
      {HWY_SSE4, {"sse4", N_SSE4::kGemmKernels, N_SSE4::kTileKernels}},
#endif
#if HWY_TARGETS & HWY_NEON
      {HWY_NEON, {"neon", N_NEON::kGemmKernels, N_NEON::kTileKernels}},
#endif
      {0, {"reference", reference::kGemmKernels, reference::kTileKernels}},
  };
  const Kernels* supported[kMostTargets] = {};
  std::size_t count = 0;

  Targets() {
    const std::int64_t cpu = hwy::SupportedTargets();
    for (const Target& target : compiled) {
      if (target.kernels.target.empty()) break;
      if (target.bit == 0 || (cpu & target.bit) != 0) supported[count++] = &target.kernels;
    }
  }
};

}  // namespace

TargetList targets() {
  static const Targets all;
  return {all.supported, all.supported + all.count};
}

const Kernels* find_target(std::string_view name) {
  for (const Kernels* kernels : targets()) {
    if (kernels->target == name) return kernels;
  }
  return nullptr;
}

}  // namespace headwise::kernels
#endif
