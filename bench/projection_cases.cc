// A projection alone, next to OpenBLAS on the same numbers.
#include <memory>

#include "blas.h"
#include "case.h"
#include "headwise/linear.h"

namespace headwise::bench {

namespace {

struct Matrices {
  Matrices(std::int64_t m, std::int64_t k, std::int64_t n)
      : input(Tensor::uniform({m, k}, 1, -1.0F, 1.0F)),
        kernel(Tensor::uniform({k, n}, 2, -1.0F, 1.0F)),
        output({m, n}) {}
  Tensor input;
  Tensor kernel;
  Tensor output;
};

constexpr const char* kGroup = "projection, its kernel packed once";

std::function<void(Context&)> library_run(std::shared_ptr<Matrices> m) {
  const auto map = std::make_shared<PackedLinear>(m->kernel);
  return [m = std::move(m), map](Context& context) {
    map->apply(m->input, m->output.view(), &context);
  };
}

std::function<void(Context&)> blas_run(std::shared_ptr<Matrices> m) {
  return [m = std::move(m)](Context& context) {
    blas_multiply({m->input.extent(0), m->input.extent(1), m->kernel.extent(1), m->input.data(),
                   m->kernel.data(), m->output.data()},
                  context.threads());
  };
}

void add_pair(std::vector<Case>& cases, std::int64_t m, std::int64_t k, std::int64_t n) {
  const std::string size = std::to_string(k) + "×" + std::to_string(n);
  const std::string id =
      "projection-" + std::to_string(m) + "-" + std::to_string(k) + "x" + std::to_string(n);
  Case row{.id = id,
           .group = kGroup,
           .label = std::to_string(m) + " rows, " + size,
           .shape = std::to_string(m) + "×" + std::to_string(k) + " · " + size};
  row.flops = 2.0 * static_cast<double>(m * k) * static_cast<double>(n);
  row.bytes = sizeof(float) * static_cast<double>(m * k + k * n + m * n);
  Case blas = row;
  row.floor = both(m >= 128 ? 0.89 : 0.80);
  row.against = {id + "-blas", "OpenBLAS", 1.0};
  row.prepare = [m, k, n] { return library_run(std::make_shared<Matrices>(m, k, n)); };
  blas.id += "-blas";
  blas.label = "  OpenBLAS";
  blas.peer = true;
  blas.prepare = [m, k, n] { return blas_run(std::make_shared<Matrices>(m, k, n)); };
  cases.push_back(std::move(row));
  cases.push_back(std::move(blas));
}

}  // namespace

void add_projection_cases(std::vector<Case>& cases) {
  for (const std::int64_t rows : {16, 128, 4096}) {
    add_pair(cases, rows, 512, 512);
    add_pair(cases, rows, 768, 768);
    add_pair(cases, rows, 768, 3072);
  }
}

}  // namespace headwise::bench
