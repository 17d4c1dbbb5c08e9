// Colours that can be told apart: by their lightness, and text by its contrast (WCAG 2.1).
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "view/colour_map.h"
#include "view/oklab.h"
#include "view/theme.h"

namespace headwise::test_view {
namespace {

using view::Colour;

// Relative luminance, as the standard for web content defines it.
double luminance(const Colour& colour) {
  const auto linear = [](double x) {
    return x <= 0.04045 ? x / 12.92 : std::pow((x + 0.055) / 1.055, 2.4);
  };
  return 0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
}

double contrast(const Colour& a, const Colour& b) {
  const auto [low, high] = std::minmax({luminance(a), luminance(b)});
  return (high + 0.05) / (low + 0.05);
}

Colour unpacked(std::uint32_t rgb) {
  const auto part = [&](unsigned shift) {
    return static_cast<double>(rgb >> shift & 0xFFU) / 255.0;
  };
  return {part(16), part(8), part(0)};
}

TEST(ColourMap, LightnessNeverTurnsBack) {
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    const auto& map = view::colour_map(theme);
    for (std::size_t i = 4; i < map.size(); ++i) {
      // Four steps apart: eight bits of a channel round neighbours to the same.
      const double before = luminance(unpacked(map[i - 4]));
      const double now = luminance(unpacked(map[i]));
      EXPECT_TRUE(theme == Theme::Light ? now < before : now > before) << i;
    }
  }
}

TEST(ColourMap, BeginsAtThePaper) {
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    const Colour paper = view::theme_colours(theme).paper;
    const Colour first = unpacked(view::colour_map(theme).front());
    EXPECT_LT(contrast(paper, first), 1.02);
    EXPECT_GT(contrast(paper, unpacked(view::colour_map(theme).back())), 12.0);
  }
}

TEST(Theme, TextIsReadable) {
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    const view::ThemeColours& colours = view::theme_colours(theme);
    EXPECT_GE(contrast(colours.ink, colours.paper), 7.0);
    EXPECT_GE(contrast(colours.faint, colours.paper), 4.5);
    for (std::size_t i = 0; i < 12; ++i) {
      EXPECT_GE(contrast(view::line_style(theme, i).colour, colours.paper), 3.0) << i;
    }
  }
}

// By eye: a step of a fifth of sRGB's cube, or another dash.
TEST(Theme, LinesAreToldApart) {
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    for (std::size_t i = 0; i < 18; ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const auto [a, b] = std::pair(view::line_style(theme, i), view::line_style(theme, j));
        const double apart =
            std::hypot(a.colour.red - b.colour.red, a.colour.green - b.colour.green,
                       a.colour.blue - b.colour.blue);
        EXPECT_TRUE(apart > 0.2 || a.dash != b.dash) << i << " and " << j;
      }
    }
  }
}

TEST(Oklab, KnownColours) {
  // Ottosson's own pairs: white, black, and sRGB's red is (0.628, 0.2577, 29.23°).
  const Colour white = view::to_srgb({1.0, 0.0, 0.0});
  EXPECT_NEAR(white.red, 1.0, 1e-6);
  EXPECT_NEAR(white.blue, 1.0, 1e-6);
  const Colour red = view::to_srgb({0.62796, 0.25768, 29.2339});
  EXPECT_NEAR(red.red, 1.0, 1e-3);
  EXPECT_NEAR(red.green, 0.0, 2e-2);
  EXPECT_NEAR(red.blue, 0.0, 2e-2);
}

RC_GTEST_PROP(Scale, PlaceAndWeightAreInverse, ()) {
  const auto scale =
      *rc::gen::element(ColourScale::Linear, ColourScale::SquareRoot, ColourScale::Logarithmic);
  const double place = *rc::gen::inRange(0, 1001) / 1000.0;
  const double largest = *rc::gen::inRange(1, 1001) / 1000.0;
  const double weight = view::scale_weight(scale, place, largest);
  RC_ASSERT(std::abs(view::scale_place(scale, weight, largest) - place) < 1e-9);
}

TEST(Scale, Ends) {
  for (const ColourScale scale :
       {ColourScale::Linear, ColourScale::SquareRoot, ColourScale::Logarithmic}) {
    EXPECT_EQ(view::scale_place(scale, 0.0, 0.7), 0.0);
    EXPECT_EQ(view::scale_place(scale, 0.7, 0.7), 1.0);
    EXPECT_EQ(view::scale_place(scale, 0.9, 0.7), 1.0);
    EXPECT_EQ(view::scale_place(scale, 0.0, 0.0), 0.0);
  }
  EXPECT_EQ(view::scale_place(ColourScale::SquareRoot, 0.25, 1.0), 0.5);
  EXPECT_DOUBLE_EQ(view::scale_place(ColourScale::Logarithmic, 0.01, 1.0), 0.5);
}

}  // namespace
}  // namespace headwise::test_view
