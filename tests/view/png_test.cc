// Small multiples: where they stand, and that every pixel of a cell has its weight's colour.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <iterator>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "headwise/error.h"
#include "headwise/view.h"
#include "png_reader.h"
#include "some_weights.h"
#include "support/expect_error.h"
#include "view/colour_map.h"
#include "view/png_layout.h"
#include "view/reduce.h"

namespace headwise::test_view {
namespace {

using test_support::refuses;
using view::PngLayout;
using view::shown_heads;
using view::ShownHeads;

void expect_cells(const ShownHeads& shown, const PngOptions& options, const std::string& bytes) {
  const Picture picture = read_png(bytes);
  const PngLayout layout = view::png_layout(shown, options);
  ASSERT_EQ(picture.width, static_cast<std::int64_t>(layout.width));
  ASSERT_EQ(picture.height, static_cast<std::int64_t>(layout.height));
  const view::ColourMap& map = view::colour_map(options.theme);
  for (std::size_t head = 0; head < shown.heads.size(); ++head) {
    const view::Box box = layout.cells(static_cast<std::int64_t>(head));
    const view::Reduced cells =
        view::reduced(shown.heads[head].weights, layout.rows.weights, layout.columns.weights);
    for (std::int64_t row = 0; row < cells.rows; ++row) {
      for (std::int64_t column = 0; column < cells.columns; ++column) {
        // A corner: the middle may hold a number.
        const auto x = static_cast<std::int64_t>(box.x) + column * layout.columns.pixels;
        const auto y = static_cast<std::int64_t>(box.y) + row * layout.rows.pixels;
        const std::uint32_t wanted = view::colour_at(
            map, view::scale_place(options.scale, static_cast<double>(cells(row, column)),
                                   static_cast<double>(shown.largest)));
        ASSERT_EQ(picture.at(x, y), wanted) << "head " << head << " row " << row;
        ASSERT_EQ(picture.at(x + layout.columns.pixels - 1, y + layout.rows.pixels - 1), wanted);
      }
    }
  }
}

TEST(Png, CellsHaveTheColoursOfTheirWeights) {
  const Tensor weights = random_weights(5, 7, 9, 1, /*causal=*/true);
  const AttentionPicture picture{.weights = weights, .query_tokens = numbered_tokens("t", 7)};
  for (const Theme theme : {Theme::Light, Theme::Dark}) {
    for (const ColourScale scale :
         {ColourScale::Linear, ColourScale::SquareRoot, ColourScale::Logarithmic}) {
      const PngOptions options{.theme = theme, .scale = scale};
      expect_cells(shown_heads("f", picture), options, draw_png(picture, options));
    }
  }
}

TEST(Png, ManyWeightsBecomeOnePixel) {
  const Tensor weights = random_weights(2, 900, 1100, 2);
  const AttentionPicture picture{.weights = weights};
  const PngOptions options{.width = 800};
  const ShownHeads shown = shown_heads("f", picture);
  EXPECT_GT(view::png_layout(shown, options).columns.weights, 1);
  expect_cells(shown, options, draw_png(picture, options));
}

TEST(Png, OneQueryOverThousandsOfKeysIsAStrip) {
  const Tensor weights = random_weights(1, 1, 5000, 3);
  const AttentionPicture picture{.weights = weights};
  const PngLayout layout = view::png_layout(shown_heads("f", picture), {});
  EXPECT_GE(layout.head_height, 10.0);
  EXPECT_GE(layout.head_width, 500.0);
  expect_cells(shown_heads("f", picture), {}, draw_png(picture));
}

TEST(Png, KeepsTheSizeAskedFor) {
  const Tensor weights = random_weights(6, 10, 10, 4);
  const Picture picture = read_png(draw_png({.weights = weights}, {.width = 1000, .height = 700}));
  EXPECT_EQ(picture.width, 1000);
  EXPECT_EQ(picture.height, 700);
}

TEST(Png, TellsOfCharactersThatNoFontHas) {
  const Tensor weights = random_weights(2, 3, 3, 5);
  std::vector<std::string> told;
  const auto draw = [&](const std::string& token) {
    told.clear();
    (void)draw_png({.weights = weights, .query_tokens = {"the", token, token}},
                   {.no_font = [&](const std::string& text) { told.push_back(text); }});
    return told;
  };
  EXPECT_TRUE(draw("cat").empty());
  const std::string private_use = "\U0010FFFD";  // of which nobody but its user knows the meaning
  EXPECT_EQ(draw(private_use), std::vector<std::string>{private_use});
}

TEST(Png, RefusesWhatCannotBeDrawn) {
  const Tensor weights = random_weights(40, 3, 3, 5);
  const auto draw = [&](std::int64_t width, std::int64_t height) {
    return [&weights, width, height] {
      (void)draw_png({.weights = weights}, {.width = width, .height = height});
    };
  };
  EXPECT_TRUE(refuses(draw(60, 0), "draw_png", "options", "pixels for 40 heads"));
  EXPECT_TRUE(refuses(draw(0, 300), "draw_png", "options", "pixels for 40 heads"));
  const Tensor thousands = random_weights(1, 1, 1, 5);
  AttentionPicture many{.weights = thousands};
  many.heads.assign(20000, 0);
  EXPECT_TRUE(refuses([&] { (void)draw_png(many); }, "draw_png", "picture", "100 megapixels"));
}

// Nothing stands on anything else, whatever the sizes.
RC_GTEST_PROP(PngLayoutProperty, EverythingHasItsPlace, ()) {
  const auto heads = *rc::gen::inRange<std::int64_t>(1, 150);
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 200);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 200);
  const Tensor one = random_weights(1, queries, keys, 6);
  AttentionPicture picture{.weights = one};
  picture.heads.assign(static_cast<std::size_t>(heads), 0);
  if (*rc::gen::arbitrary<bool>()) {
    picture.query_tokens = numbered_tokens("token", queries);
    picture.key_tokens = numbered_tokens("other", keys);
  }
  const PngLayout layout = view::png_layout(shown_heads("f", picture), {});
  RC_ASSERT(layout.width <= 1600.0);
  const view::Box first = layout.cells(0);
  RC_ASSERT(first.x >= layout.queries.room + PngLayout::kMargin);
  for (std::int64_t head = 0; head < heads; ++head) {
    const view::Box box = layout.cells(head);
    RC_ASSERT(box.x == std::floor(box.x));  // whole pixels: edges stay sharp
    RC_ASSERT(box.y == std::floor(box.y));
    RC_ASSERT(box.x + box.width + PngLayout::kScale <= layout.width);
    RC_ASSERT(box.y + box.height + layout.keys.room <= layout.height);
    if (head % layout.beside != 0) {
      RC_ASSERT(box.x >= layout.cells(head - 1).x + box.width + PngLayout::kGap - 1.0);
    }
    if (head >= layout.beside) {
      RC_ASSERT(box.y >= layout.cells(head - layout.beside).y + box.height + PngLayout::kHead);
    }
  }
  // Labels keep apart: 11 pixels high, and whatever their numbers are wide.
  RC_ASSERT(static_cast<double>(layout.queries.step) * layout.rows.pixels_per_weight() >= 11.0 ||
            layout.queries.step >= queries);
  RC_ASSERT(static_cast<double>(layout.keys.step) * layout.columns.pixels_per_weight() >= 11.0 ||
            layout.keys.step >= keys);
}

// The size that a refusal asks for.
PngOptions least_of(const std::string& message) {
  static const std::regex least("at least (\\d+) × (\\d+) pixels");
  std::smatch match;
  RC_ASSERT(std::regex_search(message, match, least));
  return {.width = std::stoll(match[1]), .height = std::stoll(match[2])};
}

// As above, and large enough to be looked at.
void expect_placed(const ShownHeads& shown, const PngLayout& layout) {
  const view::Box last = layout.cells(layout.beside - 1);
  RC_ASSERT(last.x + last.width + PngLayout::kGap + PngLayout::kScale <= layout.width);
  const view::Box lowest = layout.cells(std::ssize(shown.heads) - 1);
  RC_ASSERT(lowest.y + lowest.height + layout.keys.room + PngLayout::kAxisTitle <= layout.height);
  const bool largest_cells = layout.columns.pixels == PngLayout::kMostCell;
  RC_ASSERT(largest_cells || std::max(layout.head_width, layout.head_height) >= 48.0);
}

// A size is refused, or it gives a picture; and a refusal names a size that does.
RC_GTEST_PROP(PngLayoutProperty, AnySizeHoldsAPictureOrIsRefused, ()) {
  const auto heads = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 200);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 200);
  const Tensor one = random_weights(1, queries, keys, 7);
  AttentionPicture picture{.weights = one};
  picture.heads.assign(static_cast<std::size_t>(heads), 0);
  if (*rc::gen::arbitrary<bool>()) {
    picture.query_tokens = numbered_tokens(*rc::gen::element<std::string>("t", "a_token"), queries);
    picture.key_tokens = numbered_tokens("another_token", keys);
  }
  const ShownHeads shown = shown_heads("f", picture);
  PngOptions options;
  const auto sides = *rc::gen::inRange(1, 4);
  if (sides != 1) options.width = *rc::gen::inRange<std::int64_t>(100, 2000);
  if (sides != 2) options.height = *rc::gen::inRange<std::int64_t>(100, 2000);
  try {
    expect_placed(shown, view::png_layout(shown, options));
  } catch (const ArgumentError& error) {
    const PngOptions least = least_of(error.what());
    RC_ASSERT(least.width > options.width || least.height > options.height);
    expect_placed(shown, view::png_layout(shown, least));
  }
}

TEST(PngLayout, HeadsFillTheSizeAskedFor) {
  const Tensor weights = random_weights(8, 15, 15, 8);
  const AttentionPicture picture{.weights = weights, .query_tokens = numbered_tokens("word", 15)};
  const ShownHeads shown = shown_heads("f", picture);
  for (const auto& [width, height] : {std::pair{500, 800}, {600, 600}, {640, 520}, {900, 400}}) {
    SCOPED_TRACE(width);
    const PngLayout layout = view::png_layout(shown, {.width = width, .height = height});
    EXPECT_GE(layout.head_width, 60.0);
    EXPECT_GE(layout.content_width * layout.content_height, 0.6 * width * height);
  }
}

TEST(CellSize, FitsAndFills) {
  for (std::int64_t count = 1; count < 300; ++count) {
    for (const double room : {1.0, 10.0, 99.5, 250.0}) {
      const view::CellSize size = view::CellSize::fitting(count, room);
      EXPECT_LE(size.length(count), room);
      EXPECT_LT(size.middle(count - 1), size.length(count));
      const bool largest = size.pixels == 40 || size.weights > 1 ||
                           static_cast<double>((size.pixels + 1) * count) > room;
      EXPECT_TRUE(largest) << count << " in " << room;
    }
  }
}

}  // namespace
}  // namespace headwise::test_view
