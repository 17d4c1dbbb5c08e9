#include "view/theme.h"

#include <iterator>

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

LineStyle line_style(Theme theme, std::size_t index) {
  // Blue, orange, green, red, purple, cyan: 3 : 1 at least against the paper.
  static constexpr Oklch kLight[] = {{0.50, 0.18, 262.0}, {0.66, 0.16, 60.0},  {0.55, 0.15, 145.0},
                                     {0.55, 0.21, 25.0},  {0.44, 0.19, 310.0}, {0.65, 0.11, 210.0}};
  static constexpr Oklch kDark[] = {{0.66, 0.16, 258.0}, {0.80, 0.15, 68.0},  {0.76, 0.18, 145.0},
                                    {0.64, 0.21, 25.0},  {0.68, 0.19, 315.0}, {0.88, 0.09, 205.0}};
  constexpr std::size_t kColours = std::size(kLight);
  constexpr Dash kDashes[] = {Dash::None, Dash::Long, Dash::Short};
  const auto& colours = theme == Theme::Light ? kLight : kDark;
  return {to_srgb(colours[index % kColours]), kDashes[index / kColours % std::size(kDashes)]};
}

}  // namespace headwise::view
