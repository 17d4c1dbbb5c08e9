// Colours of a picture that is read on paper or on a dark screen.
#pragma once

#include <cstddef>

#include "headwise/view.h"

namespace headwise::view {

struct Colour {
  double red = 0.0;  // sRGB, 0 … 1
  double green = 0.0;
  double blue = 0.0;
};

struct ThemeColours {
  Colour paper;
  Colour ink;
  Colour faint;  // text of less weight; still 4.5 : 1 against paper
  Colour line;   // frames and grids
};

const ThemeColours& theme_colours(Theme theme);

// Distinct hues of equal lightness, for lines. Any index; hues come back after twelve.
Colour line_colour(Theme theme, std::size_t index);

}  // namespace headwise::view
