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

// "keys: 0 the  1 cat  …", wrapped; "" where the rows have said it already, or there are too many.
std::string key_legend(const ShownHeads& shown, std::size_t width);

// "12 heads, 11 queries × 11 keys"
std::string sizes_text(const ShownHeads& shown);
// The same after the title, if there is one.
std::string heading(const ShownHeads& shown);

}  // namespace headwise::view
