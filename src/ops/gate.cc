#include "ops/gate.h"

#include <algorithm>

#include "base/check.h"
#include "headwise/linear.h"
#include "kernels/gate/gate.h"

namespace headwise::ops {

namespace {

constexpr std::int64_t kBlock = 16384;

// Calls visit(begin, count) for blocks of the numbers.
template <typename Visit>
void for_each_block(const runtime::Lease& lease, std::int64_t count, Visit visit) {
  lease.parallel_for(base::divide_up(count, kBlock), [&](std::int64_t block, int) {
    visit(block * kBlock, std::min(kBlock, count - block * kBlock));
  });
}

}  // namespace

void sigmoid(const runtime::Lease& lease, std::int64_t count, float* values) {
  for_each_block(lease, count, [&](std::int64_t begin, std::int64_t size) {
    lease.kernels().tile.sigmoid(size, values + begin);
  });
}

void apply_gate(const runtime::Lease& lease, std::int64_t count, const float* heads,
                const float* gate, float* gated) {
  for_each_block(lease, count, [&](std::int64_t begin, std::int64_t size) {
    kernels::apply_gate(size, heads + begin, gate + begin, gated + begin);
  });
}

void gate_backward(const runtime::Lease& lease, std::int64_t count, const float* heads,
                   const float* gate, float* gradient, float* gate_gradient) {
  for_each_block(lease, count, [&](std::int64_t begin, std::int64_t size) {
    kernels::gate_backward(size, heads + begin, gate + begin, gradient + begin,
                           gate_gradient + begin);
  });
}

}  // namespace headwise::ops

namespace headwise {

Tensor sigmoid(const ConstView& input, Context* context) {
  if (!input.present()) base::fail("sigmoid", "input", "a tensor", "none");
  constexpr double kFlopsEach = 20.0;
  runtime::Lease lease("sigmoid", context);
  lease.reserve({}, kFlopsEach * static_cast<double>(input.size()));
  Tensor output = Tensor::copy_of(input);
  ops::sigmoid(lease, output.size(), output.data());
  return output;
}

}  // namespace headwise
