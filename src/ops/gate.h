// The output gate on all threads: heads ⊙ σ(z), and its gradient.
#pragma once

#include <cstdint>

#include "runtime/context_state.h"

namespace headwise::ops {

// z → σ(z) in place.
void sigmoid(const runtime::Lease& lease, std::int64_t count, float* values);
void apply_gate(const runtime::Lease& lease, std::int64_t count, const float* heads,
                const float* gate, float* gated);
// d(gated) → d(heads) in place, and d(z).
void gate_backward(const runtime::Lease& lease, std::int64_t count, const float* heads,
                   const float* gate, float* gradient, float* gate_gradient);

}  // namespace headwise::ops
