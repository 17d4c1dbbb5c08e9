#include "terminal/table.h"

#include <algorithm>
#include <numeric>
#include <sstream>
#include <utility>

#include "terminal/printable.h"
#include "terminal/terminal.h"
#include "terminal/text.h"

namespace headwise::terminal {

namespace {

constexpr std::size_t kLeastText = 12;  // columns of a column of text

// Broken at blanks; a word that is longer stays whole. What fits is one line, blanks and all.
std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  if (columns(text) <= width) return {text};
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    if (!lines.empty() && columns(lines.back()) + 1 + columns(word) <= width) {
      lines.back() += " " + word;
    } else {
      lines.push_back(word);
    }
  }
  return lines;
}

}  // namespace

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = printable(cell);
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

Table::Layout Table::layout(std::size_t most_columns) const {
  Layout layout;
  std::vector<std::size_t>& widths = layout.widths;
  std::vector<std::size_t> least;  // their longest words
  const auto fit = [&](std::size_t c, const std::string& cell) {
    widths[c] = std::max(widths[c], columns(cell));
    for (const std::string& word : lines_of(cell, 1)) least[c] = std::max(least[c], columns(word));
  };
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(0);
    least.push_back(columns_[c].align == Align::Left ? kLeastText : 0);
    fit(c, columns_[c].title);
    for (const auto& row : rows_) {
      if (!row.empty()) fit(c, row[c]);
    }
  }
  const auto fits = [&] {
    const std::size_t gaps = layout.gap * (widths.size() - 1);
    return std::accumulate(widths.begin(), widths.end(), gaps) <= most_columns;
  };
  if (!fits()) layout.gap = 1;
  while (!fits()) {
    std::size_t widest = widths.size();
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const bool breaks = widths[c] > least[c];
      if (breaks && (widest == widths.size() || widths[c] > widths[widest])) widest = c;
    }
    if (widest == widths.size()) break;
    --widths[widest];
  }
  return layout;
}

std::string Table::to_string() const {
  // A pipe has no width; what reads it later seldom has less than this.
  constexpr int kPipe = 100;
  const Stream stream = standard_output();
  return to_string(
      static_cast<std::size_t>(stream.is_terminal ? stream.width : std::max(stream.width, kPipe)));
}

std::string Table::to_string(std::size_t most_columns) const {
  const Layout layout = this->layout(most_columns);
  const std::vector<std::size_t>& widths = layout.widths;
  const std::string gap(layout.gap, ' ');
  const auto row_text = [&](const auto& cell) {
    std::vector<std::vector<std::string>> cells;
    std::size_t height = 1;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      cells.push_back(lines_of(cell(c), widths[c]));
      height = std::max(height, cells.back().size());
    }
    std::string text;
    for (std::size_t line = 0; line < height; ++line) {
      for (std::size_t c = 0; c < columns_.size(); ++c) {
        const std::string part = line < cells[c].size() ? cells[c][line] : "";
        if (c > 0) text += gap;
        text += columns_[c].align == Align::Left ? left(part, widths[c]) : right(part, widths[c]);
      }
      text.erase(text.find_last_not_of(' ') + 1);
      text += '\n';
    }
    return text;
  };
  std::string text = row_text([&](std::size_t c) { return columns_[c].title; });
  for (const auto& row : rows_) {
    text += row_text([&](std::size_t c) {
      std::string rule;
      for (std::size_t i = 0; row.empty() && i < widths[c]; ++i) rule += "─";
      return row.empty() ? rule : row[c];
    });
  }
  return text;
}

}  // namespace headwise::terminal
