// Rows of cells in columns that fit their widest cell, and the window.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace headwise::terminal {

enum class Align { Left, Right };

class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::Right;
  };
  explicit Table(std::vector<Column> columns);
  void add(std::vector<std::string> cells);  // fewer cells than columns: the rest is empty
  void add_rule();                           // a line between rows
  // Two blanks between columns, no blanks at the end of a line, a newline after the last row. What is
  // wider than standard output shows stands closer, then breaks its longest cells at blanks.
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] std::string to_string(std::size_t most_columns) const;

 private:
  struct Layout {
    std::vector<std::size_t> widths;  // of columns
    std::size_t gap = 2;              // between them
  };
  [[nodiscard]] Layout layout(std::size_t most_columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace headwise::terminal
