// The picture without colour: exact text, for it is what scripts and logs see.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "headwise/view.h"
#include "some_weights.h"
#include "support/expect_error.h"
#include "view/printable.h"

namespace headwise::test_view {
namespace {

// Head 0 looks back, head 1 at everything alike.
Tensor two_heads() {
  return Tensor::from({2, 3, 3}, {1.0F, 0.0F, 0.0F, 0.25F, 0.75F, 0.0F, 0.496F, 0.004F, 0.5F, 0.33F,
                                  0.335F, 0.335F, 0.3333F, 0.3333F, 0.3334F, 0.0F, 0.0F, 0.0F});
}

std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) {
    widest = std::max(widest, view::terminal_columns(line));
  }
  return widest;
}

TEST(PlainPicture, TableOfPercentages) {
  const Tensor weights = two_heads();
  const std::string text = draw_terminal(
      {.weights = weights, .query_tokens = {"the", "cat", "sat"}, .title = "layer 3"});
  EXPECT_EQ(text,
            "layer 3: 2 heads, 3 queries × 3 keys\n"
            "\n"
            "head 0  entropy 0.43 (about 1.5 keys) · distance 0.4 · first key 58%\n"
            "      the cat sat\n"
            "0 the 100\n"
            "1 cat  25  75\n"
            "2 sat  50   ·  50\n"
            "\n"
            "head 1  entropy 1.10 (about 3.0 keys) · distance 0.8 · first key 33%\n"
            "      the cat sat\n"
            "0 the  33  34  34\n"
            "1 cat  33  33  33\n"
            "2 sat\n"
            "\n"
            "percent of a query's attention; · less than 0.5, blank 0\n");
}

TEST(PlainPicture, NumbersWithoutTokens) {
  const Tensor weights = two_heads();
  const std::string text = draw_terminal({.weights = weights, .heads = {0}, .first_row = 1});
  EXPECT_EQ(text,
            "1 head, 2 queries × 3 keys\n"
            "\n"
            "head 0  entropy 0.64 (about 1.9 keys) · distance 0.6 · first key 37%\n"
            "    0   1   2\n"
            "1  25  75\n"
            "2  50   ·  50\n"
            "\n"
            "percent of a query's attention; · less than 0.5, blank 0\n");
}

TEST(PlainPicture, WideCharactersStandInColumns) {
  const Tensor weights = two_heads();
  const std::string text = draw_terminal(
      {.weights = weights, .heads = {0}, .query_tokens = {"日本", "e\u0301", "שלום"}});
  EXPECT_NE(text.find("\n0 日本  100\n1 e\u0301      25   75\n2 שלום   50    ·   50\n"),
            std::string::npos)
      << text;
}

TEST(PlainPicture, ShadesWhereNumbersDoNotFit) {
  const Tensor weights = Tensor::from(
      {2, 12}, {0.0F, 0.001F, 0.05F, 0.2F, 0.4F, 0.7F, 1.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F,
                0.0F, 0.0F,   0.0F,  0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.041F});
  const std::string text = draw_terminal({.weights = weights}, {.width = 40});
  EXPECT_NE(text.find("\n"
                      "  0         5         10\n"
                      "0   ··░░▒▒▓▓████\n"
                      "1                       ░░\n"
                      "\n"
                      "blank 0   · above 0   ░ from 0.04\n"
                      "▒ from 0.16   ▓ from 0.36   █ from 0.64\n"),
            std::string::npos)
      << text;
  EXPECT_LE(widest_line(text), 40U);
}

TEST(PlainPicture, ReducesWhatIsTooWideAndSaysSo) {
  const Tensor weights = random_weights(1, 300, 300, 1);
  const std::string text =
      draw_terminal({.weights = weights, .query_tokens = numbered_tokens("t", 300)}, {.width = 60});
  EXPECT_LE(widest_line(text), 60U);
  EXPECT_NE(text.find("each cell shows the largest of 12 × 6 weights"), std::string::npos);
  EXPECT_EQ(text.find("t12"), std::string::npos);  // a row of twelve queries has no one token
}

TEST(PlainPicture, ReducedCellsAreTheLargest) {
  Tensor weights({200, 200});
  weights.view()(133, 77) = 1.0F;
  const std::string text = draw_terminal({.weights = weights}, {.width = 60});
  std::istringstream lines(text);
  std::string line;
  int marks = 0;
  while (std::getline(lines, line) && !line.starts_with("blank")) {
    if (line.find("█") == std::string::npos) continue;
    ++marks;
    EXPECT_EQ(line.substr(0, 4), "128 ");  // rows 128 … 135
    EXPECT_EQ(view::terminal_columns(line.substr(0, line.find("█"))), 4U + 77U / 4U);
  }
  EXPECT_EQ(marks, 1);
}

TEST(PlainPicture, FewQueriesOverManyKeysKeepALineEach) {
  const Tensor weights = random_weights(1, 4, 4096, 3);
  const std::string text =
      draw_terminal({.weights = weights, .query_tokens = {"the", "cat", "sat", "down"}});
  EXPECT_NE(text.find("each cell shows the largest of 1 × "), std::string::npos) << text;
  for (const char* row : {"\n0 the ", "\n1 cat ", "\n2 sat ", "\n3 down "}) {
    EXPECT_NE(text.find(row), std::string::npos) << text;
  }
  EXPECT_LE(widest_line(text), 80U);
}

TEST(PlainPicture, EveryLineFitsTheWidth) {
  for (const int width : {20, 40, 80, 120}) {
    for (const std::int64_t keys : {3, 12, 30, 500}) {
      const Tensor weights = random_weights(2, 5, keys, 4);
      const std::string text =
          draw_terminal({.weights = weights,
                         .query_tokens = numbered_tokens("日本", 5),
                         .key_tokens = numbered_tokens("a_rather_long_token", keys),
                         .title = "a file of a name that is long, and a layer in it"},
                        {.width = width});
      EXPECT_LE(widest_line(text), static_cast<std::size_t>(width)) << text;
    }
  }
}

TEST(PlainPicture, NamesOtherKeysBelow) {
  const Tensor weights = random_weights(1, 2, 40, 2);
  const std::string text = draw_terminal(
      {.weights = weights, .query_tokens = {"a", "b"}, .key_tokens = numbered_tokens("key", 40)});
  EXPECT_NE(text.find("\nkeys:  0 key0  1 key1 "), std::string::npos) << text;
  EXPECT_NE(text.find("39 key39\n"), std::string::npos);
}

TEST(PlainPicture, TokensCannotSteerTheTerminal) {
  const Tensor weights = two_heads();
  const std::string text =
      draw_terminal({.weights = weights,
                     .query_tokens = {"\x1b[2J", "a\nb\rc", "\u202Eevil\u009b1m"},
                     .head_names = {"\x1b]0;x\x07", "h"},
                     .title = "t\x1b[31m"});
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find("\u202E"), std::string::npos);
  EXPECT_EQ(text.find("\u009b"), std::string::npos);
  EXPECT_NE(text.find(R"(\x1b[2J)"), std::string::npos);
}

TEST(PlainPicture, RefusesAWindowOfNothing) {
  const Tensor weights = two_heads();
  EXPECT_TRUE(
      test_support::refuses([&] { (void)draw_terminal({.weights = weights}, {.width = 19}); },
                            "draw_terminal", "options.width", "at least 20"));
}

}  // namespace
}  // namespace headwise::test_view
