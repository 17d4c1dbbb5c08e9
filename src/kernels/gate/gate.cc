#include "kernels/gate/gate.h"

namespace headwise::kernels {

void apply_gate(std::int64_t count, const float* heads, const float* gate, float* gated) {
  for (std::int64_t i = 0; i < count; ++i) gated[i] = heads[i] == 0.0F ? 0.0F : heads[i] * gate[i];
}

void gate_backward(std::int64_t count, const float* heads, const float* gate, float* gradient,
                   float* gate_gradient) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float through = gradient[i] * heads[i];
    gate_gradient[i] = through == 0.0F ? 0.0F : through * gate[i] * (1.0F - gate[i]);
    gradient[i] *= gate[i];
  }
}

}  // namespace headwise::kernels
