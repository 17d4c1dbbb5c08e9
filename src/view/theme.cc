#include "view/theme.h"

#include "view/oklab.h"

namespace headwise::view {

const ThemeColours& theme_colours(Theme theme) {
  static const ThemeColours kLight{.paper = to_srgb({1.0, 0.0, 0.0}),
                                   .ink = to_srgb({0.25, 0.02, 260.0}),
                                   .faint = to_srgb({0.50, 0.02, 260.0}),
                                   .line = to_srgb({0.86, 0.01, 260.0})};
  static const ThemeColours kDark{.paper = to_srgb({0.19, 0.015, 265.0}),
                                  .ink = to_srgb({0.94, 0.01, 265.0}),
                                  .faint = to_srgb({0.72, 0.02, 265.0}),
                                  .line = to_srgb({0.36, 0.015, 265.0})};
  return theme == Theme::Light ? kLight : kDark;
}

Colour line_colour(Theme theme, std::size_t index) {
  constexpr std::size_t kHues = 12;
  // Neighbours in the list are far apart on the circle: 5 steps of 30°, and 5 has no factor of 12.
  const double hue = 255.0 + 30.0 * static_cast<double>(index * 5 % kHues);
  return theme == Theme::Light ? to_srgb({0.55, 0.15, hue}) : to_srgb({0.75, 0.13, hue});
}

}  // namespace headwise::view
