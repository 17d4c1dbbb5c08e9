// The picture in colour, read back: every half block holds the colour of its weight.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "headwise/view.h"
#include "some_weights.h"
#include "view/colour_map.h"
#include "view/printable.h"

namespace headwise::test_view {
namespace {

using Colour = TerminalOptions::Colour;

struct Cell {
  std::optional<std::uint32_t> upper;
  std::optional<std::uint32_t> lower;
};

// Half blocks of one line with their colours; other characters, decoded, go to `text`.
struct Line {
  std::vector<Cell> cells;
  std::string text;
};

// A terminal that knows nothing but what is allowed: anything else fails the test.
std::vector<Line> read_back(const std::string& output) {
  static const std::regex foreground("38;2;(\\d+);(\\d+);(\\d+)");
  static const std::regex background("48;2;(\\d+);(\\d+);(\\d+)");
  const auto packed = [](const std::smatch& m) {
    return static_cast<std::uint32_t>(std::stoul(m[1]) << 16U | std::stoul(m[2]) << 8U |
                                      std::stoul(m[3]));
  };
  std::vector<Line> lines(1);
  Cell colours;
  for (std::size_t i = 0; i < output.size();) {
    if (output[i] == '\x1b') {
      const std::size_t end = output.find('m', i);
      const std::string code = output.substr(i + 2, end - i - 2);
      std::smatch match;
      if (code == "0") {
        colours = {};
      } else if (code == "49") {
        colours.lower.reset();
      } else if (std::regex_match(code, match, foreground)) {
        colours.upper = packed(match);
      } else if (std::regex_match(code, match, background)) {
        colours.lower = packed(match);
      } else {
        ADD_FAILURE() << "an escape sequence of another kind: " << code;
      }
      i = end + 1;
    } else if (output.compare(i, 3, "▀") == 0) {
      lines.back().cells.push_back(colours);
      i += 3;
    } else if (output[i] == '\n') {
      EXPECT_FALSE(colours.upper || colours.lower) << "a colour runs on into the next line";
      lines.emplace_back();
      ++i;
    } else {
      lines.back().text += output[i++];
    }
  }
  return lines;
}

std::uint32_t colour_of(float weight, float largest) {
  return view::colour_at(view::colour_map(Theme::Dark),
                         view::scale_place(ColourScale::SquareRoot, static_cast<double>(weight),
                                           static_cast<double>(largest)));
}

float largest_of(const Tensor& weights) {
  return *std::max_element(weights.values().begin(), weights.values().end());
}

std::vector<Line> lines_with_cells(const std::string& output) {
  std::vector<Line> found;
  for (Line& line : read_back(output)) {
    if (!line.cells.empty() && line.text.find("weight") == std::string::npos) found.push_back(line);
  }
  return found;
}

TEST(ColourPicture, HalfBlocksShowTwoQueriesEach) {
  const Tensor weights = random_weights(1, 41, 50, 1);
  const std::string output = draw_terminal(
      {.weights = weights}, {.colour = Colour::TrueColour, .width = 100, .height = 40});
  const std::vector<Line> lines = lines_with_cells(output);
  ASSERT_EQ(lines.size(), 21U);
  const float largest = largest_of(weights);
  for (std::size_t line = 0; line < lines.size(); ++line) {
    ASSERT_EQ(lines[line].cells.size(), 50U);
    for (std::size_t key = 0; key < 50; ++key) {
      const Cell& cell = lines[line].cells[key];
      EXPECT_EQ(cell.upper, colour_of(weights.view()(0, 2 * line, key), largest));
      if (2 * line + 1 < 41) {
        EXPECT_EQ(cell.lower, colour_of(weights.view()(0, 2 * line + 1, key), largest));
      } else {
        EXPECT_FALSE(cell.lower);  // below the last query is the terminal's own ground
      }
    }
  }
}

TEST(ColourPicture, FewQueriesHaveALineEachAndTheirTokens) {
  const Tensor weights = random_weights(2, 5, 5, 2);
  const std::string output =
      draw_terminal({.weights = weights, .query_tokens = {"the", "cat", "sat", "on", "日本"}},
                    {.colour = Colour::TrueColour, .width = 60, .height = 14});
  const std::vector<Line> lines = lines_with_cells(output);
  ASSERT_EQ(lines.size(), 5U);
  const float largest = largest_of(weights);
  for (std::size_t query = 0; query < 5; ++query) {
    ASSERT_EQ(lines[query].cells.size(), 20U);  // two heads of 5 keys, 2 columns each
    for (std::size_t column = 0; column < 20; ++column) {
      const std::uint32_t wanted =
          colour_of(weights.view()(column / 10, query, column % 10 / 2), largest);
      EXPECT_EQ(lines[query].cells[column].upper, wanted);
      EXPECT_EQ(lines[query].cells[column].lower, wanted);
    }
  }
  EXPECT_TRUE(lines[1].text.starts_with("1 cat"));
  EXPECT_TRUE(lines[4].text.starts_with("4 日本"));
}

TEST(ColourPicture, SaysHowItIsReduced) {
  const Tensor weights = random_weights(1, 200, 200, 3);
  const std::string output = draw_terminal(
      {.weights = weights}, {.colour = Colour::TrueColour, .width = 80, .height = 30});
  EXPECT_NE(output.find("cell: largest of "), std::string::npos);
}

// Columns that a line takes on a terminal.
std::size_t columns_of(const Line& line) {
  return line.cells.size() + view::terminal_columns(line.text);
}

RC_GTEST_PROP(ColourPicture, FitsTheWindow, ()) {
  const auto heads = *rc::gen::inRange<std::int64_t>(1, 160);
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 90);
  const auto keys = *rc::gen::inRange<std::int64_t>(1, 90);
  const auto width = *rc::gen::inRange(30, 200);
  const auto height = *rc::gen::inRange(10, 80);
  const Tensor weights = random_weights(heads, queries, keys, 4);
  std::vector<std::string> tokens;
  if (*rc::gen::arbitrary<bool>()) tokens = numbered_tokens("日本token", queries);
  const std::string output =
      draw_terminal({.weights = weights, .query_tokens = tokens, .title = "a layer of some file"},
                    {.colour = Colour::TrueColour, .width = width, .height = height});
  const std::vector<Line> lines = read_back(output);
  for (const Line& line : lines) RC_ASSERT(columns_of(line) <= static_cast<std::size_t>(width));
  // And the prompt below it: the last of `lines` is what follows the last newline.
  const bool has_room = height >= 16 && width >= 40;
  if (has_room) RC_ASSERT(std::ssize(lines) <= height);
  // Twelve heads have room on the smallest of usual terminals.
  const bool all_shown =
      output.find(" of " + std::to_string(heads) + " heads") == std::string::npos;
  if (heads <= 12 && height >= 24 && width >= 40) RC_ASSERT(all_shown);
}

// What stands around the cells.
std::string text_of(const std::string& output) {
  std::string text;
  for (const Line& line : read_back(output)) text += line.text + "\n";
  return text;
}

TEST(ColourPicture, DozensOfHeadsHaveShorterTitles) {
  const Tensor weights = random_weights(32, 15, 15, 9);
  const std::string output = draw_terminal(
      {.weights = weights, .query_tokens = numbered_tokens("word", 15), .title = "a file"},
      {.colour = Colour::TrueColour, .width = 80, .height = 24});
  EXPECT_LE(std::count(output.begin(), output.end(), '\n'), 23);
  const std::string text = text_of(output);
  for (int head = 0; head < 32; ++head) {
    EXPECT_TRUE(std::regex_search(text, std::regex("\\bh(ead )?" + std::to_string(head) + "\\b")))
        << text;
  }
  EXPECT_EQ(text.find("entropy"), std::string::npos) << text;
}

TEST(ColourPicture, SaysOfAHeadThatItAttendsNothing) {
  Tensor weights = random_weights(3, 9, 9, 11);
  const auto draw = [&](const std::vector<std::int64_t>& heads) {
    return text_of(draw_terminal({.weights = weights, .heads = heads},
                                 {.colour = Colour::TrueColour, .width = 40}));
  };
  EXPECT_EQ(draw({0, 1, 2}).find("nothing"), std::string::npos);
  std::fill_n(weights.values().begin(), 81, 0.0F);
  EXPECT_TRUE(std::regex_search(draw({0, 1, 2}), std::regex(R"(head 0 – +head 1 \d\.\d\d)")))
      << draw({0, 1, 2});
  EXPECT_NE(draw({0, 1, 2}).find("by name: entropy"), std::string::npos) << draw({0, 1, 2});
  EXPECT_NE(draw({0, 1, 2}).find("–: attends nothing"), std::string::npos) << draw({0, 1, 2});
  EXPECT_NE(draw({0}).find("head 0  attends nothing"), std::string::npos) << draw({0});
  std::fill(weights.values().begin(), weights.values().end(), 0.0F);
  EXPECT_EQ(draw({0, 1, 2}).find("entropy"), std::string::npos) << draw({0, 1, 2});
}

TEST(ColourPicture, SaysWhichHeadsItShows) {
  const Tensor weights = random_weights(144, 15, 15, 10);
  const std::string output =
      draw_terminal({.weights = weights}, {.colour = Colour::TrueColour,
                                           .width = 80,
                                           .height = 24,
                                           .others = "--show-heads for others"});
  EXPECT_LE(std::count(output.begin(), output.end(), '\n'), 23);
  const std::string text = text_of(output);
  std::smatch match;
  ASSERT_TRUE(std::regex_search(
      text, match, std::regex("head 0 … head (\\d+) of 144 heads; --show-heads for others\n")))
      << text;
  const int last = std::stoi(match[1]);
  EXPECT_GE(last, 39);  // four rows of ten
  EXPECT_NE(text.find(" h" + std::to_string(last) + "\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("h" + std::to_string(last + 1)), std::string::npos) << text;
}

TEST(ColourPicture, ManyHeadsNameTheirTokensAndEntropies) {
  const Tensor weights = random_weights(12, 11, 11, 7);
  for (const int width : {80, 40}) {
    SCOPED_TRACE(width);
    const std::string output =
        draw_terminal({.weights = weights, .query_tokens = numbered_tokens("word", 11)},
                      {.colour = Colour::TrueColour, .width = width, .height = 24});
    EXPECT_LE(std::count(output.begin(), output.end(), '\n'), 23);
    const std::string text = text_of(output);
    EXPECT_NE(text.find("tokens:  0 word0  1 word1"), std::string::npos) << text;
    EXPECT_NE(text.find("by name: entropy"), std::string::npos) << text;
    EXPECT_TRUE(std::regex_search(text, std::regex(R"(head 11 \d\.\d\d)"))) << text;
  }
}

TEST(ColourPicture, FewQueriesOverManyKeysKeepTheirLines) {
  const Tensor weights = random_weights(1, 4, 4096, 8);
  const std::string output =
      draw_terminal({.weights = weights, .query_tokens = {"the", "cat", "sat", "down"}},
                    {.colour = Colour::TrueColour, .width = 80, .height = 24});
  EXPECT_NE(output.find("cell: largest of 1 × "), std::string::npos);
  const std::vector<Line> lines = lines_with_cells(output);
  ASSERT_EQ(lines.size(), 12U);  // three each
  EXPECT_TRUE(lines[9].text.starts_with("3 down"));
}

TEST(ColourPicture, PaletteOf256) {
  const Tensor weights = random_weights(1, 8, 8, 5);
  const std::string output = draw_terminal(
      {.weights = weights}, {.colour = Colour::Palette256, .width = 60, .height = 24});
  EXPECT_EQ(output.find(";2;"), std::string::npos);
  static const std::regex code("\x1b\\[(38|48);5;(\\d+)m");
  std::size_t count = 0;
  for (std::sregex_iterator it(output.begin(), output.end(), code), end; it != end; ++it, ++count) {
    const int index = std::stoi((*it)[2]);
    EXPECT_GE(index, 16);  // the first sixteen are what the user made of them
    EXPECT_LE(index, 255);
  }
  EXPECT_GT(count, 20U);
}

TEST(ColourPicture, TokensCannotSteerTheTerminal) {
  const Tensor weights = random_weights(1, 3, 3, 6);
  // read_back refuses every sequence that is not a colour of ours.
  const std::string output = draw_terminal(
      {.weights = weights, .query_tokens = {"\x1b[2J", "\x1b[38;2;1;2;3m\x07", "\u009b31m"}},
      {.colour = Colour::TrueColour, .width = 80, .height = 24});
  for (const Line& line : read_back(output)) {
    EXPECT_EQ(line.text.find('\x07'), std::string::npos);
    EXPECT_EQ(line.text.find("\u009b"), std::string::npos);
  }
  EXPECT_NE(output.find(R"(\x1b[2J)"), std::string::npos);
}

}  // namespace
}  // namespace headwise::test_view
