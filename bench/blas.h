// OpenBLAS, the peer of the projections.
#pragma once

#include <cstdint>
#include <string>

namespace headwise::bench {

// OpenBLAS picks its kernels while it is loaded and does not know every newer CPU (0.3.21 falls to
// 18% of the peak on one). This tells it the core type that fits the target and starts the program
// anew; returns at once if that has happened, or if OPENBLAS_CORETYPE was set by the caller.
void restart_with_blas_core_type(const std::string& target, char** arguments);

// c (m,n) = a (m,k) · b (k,n), all row-major.
struct Product {
  std::int64_t m;
  std::int64_t k;
  std::int64_t n;
  const float* a;
  const float* b;
  float* c;
};
void blas_multiply(const Product& product, int threads);

std::string blas_name();  // "OpenBLAS 0.3.21, SkylakeX"

}  // namespace headwise::bench
