#include "terminal/table.h"

#include <algorithm>
#include <utility>

#include "terminal/text.h"

namespace headwise::terminal {

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::string Table::to_string() const {
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(columns(columns_[c].title));
    for (const auto& row : rows_) {
      if (!row.empty()) widths[c] = std::max(widths[c], columns(row[c]));
    }
  }
  const auto line = [&](const auto& cell) {
    std::string text;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) text += "  ";
      text +=
          columns_[c].align == Align::Left ? left(cell(c), widths[c]) : right(cell(c), widths[c]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line([&](std::size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) {
    text += line([&](std::size_t c) {
      std::string rule;
      for (std::size_t i = 0; row.empty() && i < widths[c]; ++i) rule += "─";
      return row.empty() ? rule : row[c];
    });
  }
  return text;
}

}  // namespace headwise::terminal
