// Normalisation of one head's vector with a learned scale: y = scale ∘ (x − mean) / √(var + ε), or
// without the mean (RMS).
#pragma once

#include <cstdint>

namespace headwise::kernels {

struct NormRule {
  bool subtract_mean = false;
  float epsilon = 0.0F;
};

// y may be x.
void normalise_vector(const NormRule& rule, std::int64_t size, const float* x, const float* scale,
                      float* y);

// dy → dx in place; adds to the scale's gradient. A vector that receives no gradient passes
// none on, whatever it holds: that of a masked key may be NaN.
void normalise_vector_backward(const NormRule& rule, std::int64_t size, const float* x,
                               const float* scale, float* dy_dx, float* scale_gradient);

}  // namespace headwise::kernels
