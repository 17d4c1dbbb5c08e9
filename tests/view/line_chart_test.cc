// Lines in panels, and the numbers along their axes.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "headwise/view.h"
#include "png_reader.h"
#include "support/expect_error.h"
#include "view/theme.h"
#include "view/ticks.h"

namespace headwise::test_view {
namespace {

using test_support::refuses;

std::uint32_t packed(const view::Colour& colour) {
  const auto byte = [](double x) { return static_cast<std::uint32_t>(std::lround(x * 255.0)); };
  return byte(colour.red) << 16U | byte(colour.green) << 8U | byte(colour.blue);
}

// How many pixels are nearly of a line's colour; its edges fade into the paper.
std::int64_t painted(const std::string& png, std::size_t line) {
  const Picture picture = read_png(png);
  const std::uint32_t colour = packed(view::line_style(Theme::Light, line).colour);
  return std::count_if(picture.pixels.begin(), picture.pixels.end(), [&](std::uint32_t pixel) {
    const auto apart = [&](unsigned shift) {
      return std::abs(static_cast<int>(pixel >> shift & 0xFFU) -
                      static_cast<int>(colour >> shift & 0xFFU));
    };
    return std::max({apart(16), apart(8), apart(0)}) <= 32;
  });
}

LineChart one_panel(std::vector<LineChart::Line> lines) {
  return {.title = "Lines", .panels = {{.title = "panel", .lines = std::move(lines)}}};
}

TEST(LineChart, DrawsEachLineInItsColour) {
  const std::string png =
      draw_lines_png(one_panel({{.name = "flat", .y = {1.0, 1.0, 1.0, 1.0}},
                                {.name = "rising", .y = {0.0, 1.0, 2.0, 3.0}}}));
  EXPECT_GT(painted(png, 0), 200);
  EXPECT_GT(painted(png, 1), 100);
  EXPECT_EQ(painted(png, 2), 0);
}

TEST(LineChart, LinesThatShareAColourAreDashed) {
  std::vector<LineChart::Line> lines;
  for (const char* name : {"a", "b", "c", "d", "e", "f", "g"})
    lines.push_back({.name = name, .y = {}});
  const auto with = [&](std::size_t line) {
    lines[line].y = {1.0, 1.0};
    const std::int64_t pixels = painted(draw_lines_png(one_panel(lines)), 0);
    lines[line].y.clear();
    return pixels;
  };
  const std::int64_t solid = with(0);
  const std::int64_t dashed = with(6);
  EXPECT_GT(dashed, solid / 3);
  EXPECT_LT(dashed, solid * 5 / 6);
}

TEST(LineChart, GapsStayEmpty) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto with = [&](double y) {
    return painted(draw_lines_png(one_panel({{.name = "a", .y = {1.0, 1.0, y, 1.0, 1.0}}})), 0);
  };
  EXPECT_LT(with(nan), with(1.0) * 3 / 4);
  EXPECT_LT(with(std::numeric_limits<double>::infinity()), with(1.0) * 3 / 4);
  LineChart log = one_panel({{.name = "a", .y = {1.0, 1.0, 0.0, 1.0, 1.0}}});
  log.log_y = true;
  LineChart whole = one_panel({{.name = "a", .y = {1.0, 1.0, 1.0, 1.0, 1.0}}});
  whole.log_y = true;
  EXPECT_LT(painted(draw_lines_png(log), 0), painted(draw_lines_png(whole), 0) * 3 / 4);
}

TEST(LineChart, TakesWhateverThereIs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const bool log_y : {false, true}) {
    for (const std::vector<double>& y :
         {std::vector<double>{}, {0.0}, {nan, nan}, {-1.0, -2.0}, {1e-300, 1e300}, {5.0, 5.0}}) {
      LineChart chart = one_panel({{.name = "\x1b odd \xff", .y = y}});
      chart.log_y = log_y;
      EXPECT_NO_THROW((void)read_png(draw_lines_png(chart)));
    }
  }
  EXPECT_NO_THROW((void)read_png(draw_lines_png({.title = "", .panels = {}})));
}

TEST(LineChart, KeepsTheSizeAskedFor) {
  const Picture picture = read_png(
      draw_lines_png(one_panel({{.name = "a", .y = {1.0, 2.0}}}), {.width = 640, .height = 480}));
  EXPECT_EQ(picture.width, 640);
  EXPECT_EQ(picture.height, 480);
}

TEST(LineChart, RefusesWhatDoesNotFit) {
  EXPECT_TRUE(refuses(
      [] {
        (void)draw_lines_png(one_panel({{.name = "a", .y = {1.0, 2.0}, .x = {1.0}}}));
      },
      "draw_lines_png", "chart.panels.lines.x", "2 numbers"));
  EXPECT_TRUE(refuses([] { (void)draw_lines_png(one_panel({}), {.width = 100, .height = 100}); },
                      "draw_lines_png", "options"));
  LineChart many = one_panel({});
  many.panels.resize(100000, many.panels[0]);
  EXPECT_TRUE(refuses([&] { (void)draw_lines_png(many); }, "draw_lines_png", "chart.panels"));
}

RC_GTEST_PROP(Ticks, AreRoundAndWithin, ()) {
  const double low = *rc::gen::inRange(-1000, 1000) / 7.0;
  const double span = std::pow(10.0, *rc::gen::inRange(-6, 7)) * *rc::gen::inRange(1, 100);
  const view::Range range{low, low + span};
  const auto ticks = view::linear_ticks(range, 6);
  RC_ASSERT(ticks.size() >= 2U);
  RC_ASSERT(ticks.size() <= 14U);
  for (const double tick : ticks) {
    RC_ASSERT(tick >= range.low - 1e-6 * span);
    RC_ASSERT(tick <= range.high + 1e-6 * span);
  }
}

TEST(Ticks, KnownAxes) {
  EXPECT_EQ(view::linear_ticks({0.0, 1.0}, 5),
            (std::vector<double>{0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0}));
  EXPECT_EQ(view::logarithmic_ticks({0.01, 100.0}, 5),
            (std::vector<double>{0.01, 0.1, 1.0, 10.0, 100.0}));
  EXPECT_EQ(view::logarithmic_ticks({1.0, 9.0}, 5), (std::vector<double>{1.0, 2.0, 5.0}));
  EXPECT_LE(view::logarithmic_ticks({1e-12, 1e12}, 5).size(), 7U);
  EXPECT_EQ(view::linear_ticks({3.0, 3.0}, 5), (std::vector<double>{3.0}));
}

TEST(Ticks, CellsHoldHundredths) {
  EXPECT_EQ(view::cell_text(0.934), ".93");
  EXPECT_EQ(view::cell_text(0.05), ".05");
  EXPECT_EQ(view::cell_text(0.9951), "1");
  EXPECT_EQ(view::cell_text(0.0049), "");
}

TEST(Ticks, Text) {
  EXPECT_EQ(view::tick_text(0.0), "0");
  EXPECT_EQ(view::tick_text(0.6000000000000001), "0.6");
  EXPECT_EQ(view::tick_text(1500.0), "1,500");
  EXPECT_EQ(view::tick_text(-120000.0), "-120,000");
  EXPECT_EQ(view::tick_text(1e-6), "1e-06");
}

}  // namespace
}  // namespace headwise::test_view
