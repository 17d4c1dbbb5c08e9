#include "kernels/norm/norm.h"

#include <algorithm>
#include <cmath>

namespace headwise::kernels {

namespace {

struct Moments {
  float mean = 0.0F;
  float inverse_deviation = 0.0F;
};

// Sums in double: a head's vector is short, and the squares of large numbers stay exact enough.
Moments moments(const NormRule& rule, std::int64_t size, const float* x) {
  double mean = 0.0;
  if (rule.subtract_mean) {
    for (std::int64_t i = 0; i < size; ++i) mean += static_cast<double>(x[i]);
    mean /= static_cast<double>(size);
  }
  double squares = 0.0;
  for (std::int64_t i = 0; i < size; ++i) {
    const double centred = static_cast<double>(x[i]) - mean;
    squares += centred * centred;
  }
  const double variance = squares / static_cast<double>(size);
  return {static_cast<float>(mean),
          static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(rule.epsilon)))};
}

}  // namespace

void normalise_vector(const NormRule& rule, std::int64_t size, const float* x, const float* scale,
                      float* y) {
  const Moments m = moments(rule, size, x);
  for (std::int64_t i = 0; i < size; ++i) y[i] = scale[i] * ((x[i] - m.mean) * m.inverse_deviation);
}

void normalise_vector_backward(const NormRule& rule, std::int64_t size, const float* x,
                               const float* scale, float* dy_dx, float* scale_gradient) {
  if (std::all_of(dy_dx, dy_dx + size, [](float g) { return g == 0.0F; })) return;
  const Moments m = moments(rule, size, x);
  // With u = (x − mean) / deviation and g = scale ∘ dy:  dx = (g − mean(g) − u·mean(g∘u)) /
  // deviation.
  double sum_g = 0.0;
  double sum_gu = 0.0;
  for (std::int64_t i = 0; i < size; ++i) {
    const float u = (x[i] - m.mean) * m.inverse_deviation;
    const float g = scale[i] * dy_dx[i];
    scale_gradient[i] += dy_dx[i] * u;
    sum_g += static_cast<double>(g);
    sum_gu += static_cast<double>(g) * static_cast<double>(u);
  }
  const auto mean_g =
      rule.subtract_mean ? static_cast<float>(sum_g / static_cast<double>(size)) : 0.0F;
  const auto mean_gu = static_cast<float>(sum_gu / static_cast<double>(size));
  for (std::int64_t i = 0; i < size; ++i) {
    const float u = (x[i] - m.mean) * m.inverse_deviation;
    dy_dx[i] = (scale[i] * dy_dx[i] - mean_g - u * mean_gu) * m.inverse_deviation;
  }
}

}  // namespace headwise::kernels
