// What singular values say.
#pragma once

#include <cstdint>
#include <vector>

#include "headwise/spectra.h"

namespace headwise::analyze {

// `values` descending, of a product whose longer side is `longest`.
Spectrum spectrum_of(std::vector<double> values, std::int64_t longest);

}  // namespace headwise::analyze
