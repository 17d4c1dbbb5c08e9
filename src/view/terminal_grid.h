// How large heads are drawn on a terminal and how many stand beside each other.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/check.h"
#include "view/shown_heads.h"

namespace headwise::view {

// What stands above a head, from much to little.
enum class HeadTitle {
  Summary,  // "head 10 1.93", or more
  Name,     // "head 10"
  Short     // "h10"
};

struct TerminalGrid {
  static constexpr std::int64_t kGap = 2;  // columns between heads

  // A cell: so many weights on each side, in so many columns and half lines, which are square.
  std::int64_t row_weights = 1;
  std::int64_t column_weights = 1;
  std::int64_t across = 1;
  std::int64_t down = 1;
  std::int64_t rows = 0;  // of cells, of one head
  std::int64_t columns = 0;
  std::int64_t beside = 1;       // heads
  std::int64_t least_pitch = 1;  // for the title
  HeadTitle title = HeadTitle::Summary;
  bool spacious = false;  // numbers of keys above and of queries beside a head, a blank line below
  bool named = false;     // the token of every query beside its line
  std::int64_t excess = 0;  // lines beyond the room

  [[nodiscard]] std::int64_t width() const { return columns * across; }
  [[nodiscard]] std::int64_t lines() const { return base::divide_up(rows * down, 2); }
  [[nodiscard]] std::int64_t own_lines() const { return spacious ? 3 : 1; }  // beside its cells
  [[nodiscard]] std::int64_t pitch() const { return std::max(width() + kGap, least_pitch); }
};

struct TerminalRoom {
  std::int64_t named_columns = 0;  // for heads, beside tokens; 0: there are none
  std::int64_t columns = 0;        // beside positions
  std::int64_t all_columns = 0;    // beside nothing
  std::int64_t named_lines = 0;    // for heads, with all else that must be said
  std::int64_t lines = 0;
  std::int64_t longest_name = 0;  // columns of a head's name
  std::int64_t longest_short = 0;
};

// Whatever shows most of what there is and fits the room. If nothing does, the lowest: heads do not
// become smaller than can be read.
TerminalGrid terminal_grid(const ShownHeads& shown, const TerminalRoom& room);

}  // namespace headwise::view
