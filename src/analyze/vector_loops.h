// The two inner loops of the yardsticks, compiled once for every instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headwise::analyze {

struct VectorLoops {
  const char* target;  // "avx512", "avx2", …
  int lanes;           // of float32
  // Runs `steps` rounds of independent multiply-adds on registers; returns the FLOPs of it.
  double (*multiply_add)(std::int64_t steps);
  // Reads `count` floats once, in order; returns their sum.
  float (*read)(const float* data, std::size_t count);
};

// Those that this CPU can run, widest first. Never empty.
std::vector<VectorLoops> supported_loops();

}  // namespace headwise::analyze
