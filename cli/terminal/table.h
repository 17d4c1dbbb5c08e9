// Rows of cells in columns that fit their widest cell.
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
  // Two blanks between columns, no blanks at the end of a line, a newline after the last row.
  [[nodiscard]] std::string to_string() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty one is a rule
};

}  // namespace headwise::terminal
