#include "analyze/vector_loops.h"

// Vectors of unknown size cannot stand in arrays, and the 128-bit loops reach the same peak on the
// cores that have them (except A64FX). AVX-512 needs no variants: its FMA is the same in all.
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128 | HWY_RVV)

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "analyze/vector_loops.cc"
#include <hwy/foreach_target.h>
// After foreach_target, which decides what this header means.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headwise::analyze::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// Two FMA ports of latency 4 need 8 chains, four ports 16. With 16 registers, 12 chains and their
// two operands just fit.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL || HWY_ARCH_ARM_A64
constexpr int kChains = 24;
#else
constexpr int kChains = 12;
#endif

int lanes() { return static_cast<int>(hn::Lanes(D())); }

double multiply_add(std::int64_t steps) {
  const D d;
  // Opaque to the compiler, and such that the sums converge: no denormals, no overflow.
  volatile float factor_source = 0.5F;
  const V factor = hn::Set(d, factor_source);
  const V addend = hn::Set(d, 1.0F);
  V sums[kChains];
#pragma GCC unroll 24
  for (int i = 0; i < kChains; ++i) sums[i] = hn::Set(d, static_cast<float>(i));
  for (std::int64_t step = 0; step < steps; ++step) {
#pragma GCC unroll 24
    for (V& sum : sums) sum = hn::MulAdd(sum, factor, addend);
  }
#pragma GCC unroll 24
  for (int i = 1; i < kChains; ++i) sums[0] = hn::Add(sums[0], sums[i]);
  volatile float sink = hn::GetLane(sums[0]);
  static_cast<void>(sink);
  return 2.0 * kChains * static_cast<double>(hn::Lanes(d)) * static_cast<double>(steps);
}

float read(const float* HWY_RESTRICT data, std::size_t count) {
  constexpr std::size_t kSums = 8;
  const D d;
  const std::size_t n = hn::Lanes(d);
  V sums[kSums];
#pragma GCC unroll 8
  for (V& sum : sums) sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + kSums * n <= count; i += kSums * n) {
#pragma GCC unroll 8
    for (std::size_t j = 0; j < kSums; ++j) {
      sums[j] = hn::Add(sums[j], hn::LoadU(d, data + i + j * n));
    }
  }
#pragma GCC unroll 8
  for (std::size_t j = 1; j < kSums; ++j) sums[0] = hn::Add(sums[0], sums[j]);
  float sum = hn::GetLane(hn::SumOfLanes(d, sums[0]));
  for (; i < count; ++i) sum += data[i];
  return sum;
}

}  // namespace headwise::analyze::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::analyze {

// Chosen by hand and not by HWY_DYNAMIC_DISPATCH: which target that takes is state of the whole
// process, which belongs to the library that is measured.
std::vector<VectorLoops> supported_loops() {
  std::vector<VectorLoops> found;
  const auto add = [&](std::int64_t target, VectorLoops (*loops)()) {
    if ((hwy::SupportedTargets() & target) != 0) found.push_back(loops());
  };
#define HEADWISE_VECTOR_LOOPS(name, space) \
  (+[]() -> VectorLoops { return {name, space::lanes(), space::multiply_add, space::read}; })
#if HWY_TARGETS & HWY_AVX3
  add(HWY_AVX3, HEADWISE_VECTOR_LOOPS("avx512", N_AVX3));
#endif
#if HWY_TARGETS & HWY_AVX2
  add(HWY_AVX2, HEADWISE_VECTOR_LOOPS("avx2", N_AVX2));
#endif
#if HWY_TARGETS & HWY_SSE4
  add(HWY_SSE4, HEADWISE_VECTOR_LOOPS("sse4", N_SSE4));
#endif
#if HWY_TARGETS & HWY_NEON
  add(HWY_NEON, HEADWISE_VECTOR_LOOPS("neon", N_NEON));
#endif
  if (found.empty()) {
    found.push_back({"generic", HWY_STATIC_DISPATCH(lanes)(), HWY_STATIC_DISPATCH(multiply_add),
                     HWY_STATIC_DISPATCH(read)});
  }
#undef HEADWISE_VECTOR_LOOPS
  return found;
}

}  // namespace headwise::analyze
#endif  // HWY_ONCE
