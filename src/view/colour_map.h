// From weights to colours.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "headwise/view.h"

namespace headwise::view {

using ColourMap = std::array<std::uint32_t, 256>;  // 0x00RRGGBB

// Begins at the theme's paper, so that nothing attended is nothing drawn. Lightness changes evenly:
// it stays readable in grey and for every kind of colour vision.
const ColourMap& colour_map(Theme theme);

// Place of a weight on the scale from 0 to `largest`: 0 … 1.
double scale_place(ColourScale scale, double weight, double largest);
// The weight at a place: the inverse.
double scale_weight(ColourScale scale, double place, double largest);

// "square-root scale"
const char* scale_name(ColourScale scale);

inline std::uint32_t colour_at(const ColourMap& map, double place) {
  return map[static_cast<std::size_t>(std::lround(place * 255.0))];
}

}  // namespace headwise::view
