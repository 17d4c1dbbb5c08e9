// Names along the axes of a picture made of characters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "view/shown_heads.h"

namespace headwise::view {

// Filled with blanks up to `columns` on a terminal.
std::string padded(const std::string& text, std::size_t columns);
std::string padded_left(const std::string& text, std::size_t columns);

// " 7 token" for every row: position and token, all of the same width, at most `most_columns`; as
// many as the positions need, if that is less. Columns of the picture are numbered, and the number
// finds its token here.
class RowLabels {
 public:
  RowLabels(const ShownHeads& shown, std::size_t most_columns);
  [[nodiscard]] std::size_t columns() const { return columns_; }
  [[nodiscard]] std::string of(std::int64_t row) const;
  [[nodiscard]] std::string position(std::int64_t row) const;  // alone: for several rows in one
  [[nodiscard]] std::string none() const { return padded("", columns_); }

 private:
  const ShownHeads* shown_;
  std::size_t digits_;
  std::size_t columns_;
};

// Numbers of the keys above their columns, as many as stay apart: "0    5    10".
std::string key_axis(std::int64_t columns, std::int64_t cell_columns, std::int64_t keys_per_column);

// Pieces after each other in lines of `width` columns, the first of which are used already.
std::string wrapped(const std::vector<std::string>& pieces, std::size_t width, std::size_t used = 0,
                    const std::string& gap = "  ");

// The words of a text, likewise.
std::string wrapped_words(const std::string& text, std::size_t width);

// "keys:  0 the  1 cat  …", wrapped; what needs more lines ends in "…". Queries that are another
// text than the keys have a list of their own. "" where there are no tokens, or the rows have named
// them already.
std::string token_legend(const ShownHeads& shown, bool rows_named, std::size_t width,
                         std::size_t most_lines);

// "12 heads, 11 queries × 11 keys"
std::string sizes_text(const ShownHeads& shown);
// The same after the title, if there is one; wrapped.
std::string heading(const ShownHeads& shown, std::size_t width);

}  // namespace headwise::view
