// Token text: whatever a file says, what is shown can steer neither a terminal nor a page.
#include "view/printable.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>
#include <vector>

namespace headwise::view {
namespace {

// Code points of valid UTF-8; fails the test on anything else.
std::vector<std::uint32_t> code_points(const std::string& text) {
  std::vector<std::uint32_t> points;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    EXPECT_TRUE(lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4)) << "a byte that begins nothing";
    std::uint32_t point = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t k = 1; k < length; ++k) {
      const auto byte = i + k < text.size() ? static_cast<unsigned char>(text[i + k]) : 0U;
      EXPECT_EQ(byte & 0xC0U, 0x80U) << "a character cut short";
      point = point << 6U | (byte & 0x3FU);
    }
    points.push_back(point);
    i += length;
  }
  return points;
}

std::string encoded(std::uint32_t point) {
  const auto tail = [&](unsigned shift) {
    return static_cast<char>(0x80U | (point >> shift & 0x3FU));
  };
  if (point < 0x80) return {static_cast<char>(point)};
  if (point < 0x800) return {static_cast<char>(0xC0U | point >> 6U), tail(0)};
  if (point < 0x10000) return {static_cast<char>(0xE0U | point >> 12U), tail(6), tail(0)};
  return {static_cast<char>(0xF0U | point >> 18U), tail(12), tail(6), tail(0)};
}

bool steers(std::uint32_t point) {
  const bool control = point < 0x20 || (point >= 0x7F && point <= 0x9F);
  const bool direction = point == 0x061C || point == 0x200E || point == 0x200F ||
                         (point >= 0x202A && point <= 0x202E) ||
                         (point >= 0x2066 && point <= 0x2069);
  const bool line_end = point == 0x2028 || point == 0x2029;
  const bool invisible = point == 0xFEFF || point == 0x00AD || point == 0x200B ||
                         (point >= 0xE0000 && point <= 0xE007F);
  return control || direction || line_end || invisible;
}

TEST(Printable, KeepsWhatShows) {
  for (const std::string text :
       {"cat", "[CLS]", "##bian", "naïve", "日本語", "שלום", "مرحبا", "👩‍👩‍👧", "क्षि",
        " the", "a b", "</script>", "\"'&<>"}) {
    EXPECT_EQ(printable(text), text);
  }
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, WritesControlCharactersOut) {
  EXPECT_EQ(printable("a\nb\tc\r"), R"(a\nb\tc\r)");
  EXPECT_EQ(printable(std::string("\0\x1b[31m", 6)), R"(\x00\x1b[31m)");
  EXPECT_EQ(printable("\x7f"), R"(\x7f)");
  EXPECT_EQ(printable("\u009b31m"), "�31m");  // the one-character form of ESC [
}

TEST(Printable, ReplacesWhatTurnsOrHidesText) {
  EXPECT_EQ(printable("a\u202Eb\u2066c\u200Fd\u061C"), "a�b�c�d�");
  EXPECT_EQ(printable("\u2028x\u2029"), "�x�");
  EXPECT_EQ(printable("so\u00ADft\uFEFF\u200B"), "so�ft��");
}

TEST(Printable, ReplacesMalformedBytes) {
  EXPECT_EQ(printable("\xff\xfe"), "��");
  EXPECT_EQ(printable("a\xc3"), "a�");               // cut short
  EXPECT_EQ(printable("\xc0\xaf"), "��");            // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "���");       // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "����");  // beyond Unicode
}

TEST(Printable, BlanksAloneShow) {
  EXPECT_EQ(printable(" "), "␣");
  EXPECT_EQ(printable("  "), "␣␣");
  EXPECT_EQ(printable("\u00A0\u3000"), "␣␣");
}

TEST(Printable, EmptyTokensShow) {
  EXPECT_EQ(printable_token(""), "∅");
  EXPECT_EQ(printable_token("cat"), "cat");
  EXPECT_EQ(printable_token(" "), "␣");
}

TEST(Printable, CutsAtTheLength) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef…");
  EXPECT_EQ(printable("日本語", 2), "日本…");
}

RC_GTEST_PROP(PrintableProperty, AnyBytesBecomeHarmless, (const std::string& bytes)) {
  for (const std::uint32_t point : code_points(printable(bytes))) RC_ASSERT(!steers(point));
  for (const std::uint32_t point : code_points(terminal_printable(bytes, 12))) {
    RC_ASSERT(!steers(point));
  }
}

// Random bytes are seldom well-formed: here every character is.
RC_GTEST_PROP(PrintableProperty, AnyCharactersBecomeHarmless, ()) {
  const auto points = *rc::gen::container<std::vector<std::uint32_t>>(rc::gen::oneOf(
      rc::gen::inRange<std::uint32_t>(0, 0x100), rc::gen::inRange<std::uint32_t>(0x2000, 0x2100),
      rc::gen::inRange<std::uint32_t>(0xE000, 0x110000)));
  std::string text;
  for (const std::uint32_t point : points) text += encoded(point);
  for (const std::uint32_t point : code_points(printable(text))) RC_ASSERT(!steers(point));
}

TEST(TerminalPrintable, CountsColumns) {
  EXPECT_EQ(terminal_columns("cat"), 3U);
  EXPECT_EQ(terminal_columns("日本"), 4U);
  EXPECT_EQ(terminal_columns("e\u0301"), 1U);  // a letter and its accent
  EXPECT_EQ(terminal_columns("👍"), 2U);
  EXPECT_EQ(terminal_columns("한국"), 4U);
}

TEST(TerminalPrintable, CutsToColumns) {
  EXPECT_EQ(terminal_printable("animal", 6), "animal");
  EXPECT_EQ(terminal_printable("animals", 6), "anima…");
  EXPECT_EQ(terminal_printable("日本語", 5), "日本…");
  EXPECT_EQ(terminal_printable("日本語", 4), "日…");  // half of a wide character cannot be shown
  EXPECT_EQ(terminal_printable("abc", 1), "…");
  EXPECT_EQ(terminal_printable("abc", 0), "");
}

TEST(TerminalPrintable, DropsJoiners) { EXPECT_EQ(terminal_printable("👩‍👧", 10), "👩👧"); }

RC_GTEST_PROP(TerminalPrintableProperty, NeverExceedsItsColumns, (const std::string& bytes)) {
  const auto columns = *rc::gen::inRange<std::size_t>(0, 20);
  RC_ASSERT(terminal_columns(terminal_printable(bytes, columns)) <= columns);
}

}  // namespace
}  // namespace headwise::view
