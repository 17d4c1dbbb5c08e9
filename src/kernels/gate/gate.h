// The output gate: heads ⊙ σ(z). A head that attended nothing is 0 and stays 0, even if z is NaN
// because its query was; likewise nothing flows back through it.
#pragma once

#include <cstdint>

namespace headwise::kernels {

void apply_gate(std::int64_t count, const float* heads, const float* gate, float* gated);

// d(gated) → d(heads) in place, and d(z).
void gate_backward(std::int64_t count, const float* heads, const float* gate, float* gradient,
                   float* gate_gradient);

}  // namespace headwise::kernels
