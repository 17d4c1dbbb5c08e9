#include "blas.h"

#include <cblas.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace headwise::bench {

namespace {

// Empty: leave the choice to OpenBLAS.
std::string core_type(const std::string& target) {
#if defined(__x86_64__)
  if (target == "avx512") return "SKYLAKEX";
  if (target == "avx2") return static_cast<bool>(__builtin_cpu_is("amd")) ? "ZEN" : "HASWELL";
  return "NEHALEM";
#else
  return "";
#endif
}

}  // namespace

void restart_with_blas_core_type(const std::string& target, char** arguments) {
  const std::string type = core_type(target);
  if (type.empty() || std::getenv("OPENBLAS_CORETYPE") != nullptr) return;
  setenv("OPENBLAS_CORETYPE", type.c_str(), 1);
  // Its idle threads spin for 2^26 cycles by default, into the next row's time. 2^20 is still longer
  // than the gap between two of its own calls.
  setenv("OPENBLAS_THREAD_TIMEOUT", "20", 0);
  execv("/proc/self/exe", arguments);
  // Only a failure returns: go on with what OpenBLAS chose; the report names it.
}

void blas_multiply(const Product& p, int threads) {
  openblas_set_num_threads(threads);
  const auto m = static_cast<blasint>(p.m);
  const auto k = static_cast<blasint>(p.k);
  const auto n = static_cast<blasint>(p.n);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, p.a, k, p.b, n, 0.0F, p.c,
              n);
}

std::string blas_name() {
  std::istringstream config(openblas_get_config());  // "OpenBLAS 0.3.21 NO_LAPACKE …"
  std::string name;
  std::string version;
  config >> name >> version;
  return name + " " + version + ", " + openblas_get_corename();
}

}  // namespace headwise::bench
