// OKLab in polar form (Ottosson 2020): equal steps look equal, which sRGB's do not.
#pragma once

#include "view/theme.h"

namespace headwise::view {

struct Oklch {
  double lightness = 0.0;  // 0 black … 1 white
  double chroma = 0.0;     // 0 grey … about 0.3
  double hue = 0.0;        // degrees
};

// Colours that sRGB does not hold lose chroma, and keep lightness and hue.
Colour to_srgb(const Oklch& colour);

}  // namespace headwise::view
