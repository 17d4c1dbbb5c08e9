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

// Lines are told apart by six colours, which differ in lightness too; when they come back, by
// dashes. More colours would only look alike.
enum class Dash { None, Long, Short };
struct LineStyle {
  Colour colour;
  Dash dash = Dash::None;
};
LineStyle line_style(Theme theme, std::size_t index);  // any index

}  // namespace headwise::view
