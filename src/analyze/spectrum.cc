#include "analyze/spectrum.h"

#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "base/check.h"

namespace headwise {

namespace analyze {

namespace {

// exp of the entropy of p = σ/Σσ: n for n equal values, 1 for a single one.
double effective_rank(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) sum += value;
  double entropy = 0.0;
  for (const double value : values) {
    const double p = value / sum;
    if (p > 0.0) entropy -= p * std::log(p);
  }
  return std::exp(entropy);
}

}  // namespace

Spectrum spectrum_of(std::vector<double> values, std::int64_t longest) {
  Spectrum spectrum;
  spectrum.singular_values = std::move(values);
  const std::vector<double>& all = spectrum.singular_values;
  const double largest = all.empty() ? 0.0 : all.front();
  if (largest == 0.0) {
    spectrum.condition = std::numeric_limits<double>::infinity();
    return spectrum;
  }
  // Weights are float32: what is below their rounding is not rank. As in merged_scores().
  const double negligible = static_cast<double>(longest) * 0x1p-24 * largest;
  double energy = 0.0;  // relative to σ₁²: squares of tiny values must not vanish
  for (const double value : all) {
    energy += (value / largest) * (value / largest);
    spectrum.rank += value > negligible ? 1 : 0;
  }
  spectrum.frobenius_norm = largest * std::sqrt(energy);
  spectrum.spectral_norm = largest;
  spectrum.condition = largest / all.back();  // IEEE: infinite for a smallest of 0
  spectrum.effective_rank = effective_rank(all);
  spectrum.stable_rank = energy;
  return spectrum;
}

}  // namespace analyze

std::int64_t dims_for_energy(const Spectrum& spectrum, double share) {
  if (!(share >= 0.0 && share <= 1.0)) {
    base::fail("dims_for_energy", "share", "0 … 1", base::to_string(share));
  }
  // From the small end, where sums are exact enough to tell 99.9% from all.
  const double allowed = (1.0 - share) * spectrum.frobenius_norm * spectrum.frobenius_norm;
  auto dims = static_cast<std::int64_t>(spectrum.singular_values.size());
  double left_out = 0.0;
  for (; dims > 0; --dims) {
    const double value = spectrum.singular_values[static_cast<std::size_t>(dims - 1)];
    left_out += value * value;
    if (left_out > allowed) break;
  }
  return dims;
}

}  // namespace headwise
