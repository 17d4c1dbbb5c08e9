#include "view/terminal_labels.h"

#include <algorithm>
#include <cstddef>
#include <sstream>

#include "base/check.h"
#include "view/printable.h"

namespace headwise::view {

std::string padded(const std::string& text, std::size_t columns) {
  const std::size_t used = terminal_columns(text);
  return used >= columns ? text : text + std::string(columns - used, ' ');
}

std::string padded_left(const std::string& text, std::size_t columns) {
  const std::size_t used = terminal_columns(text);
  return used >= columns ? text : std::string(columns - used, ' ') + text;
}

RowLabels::RowLabels(const ShownHeads& shown, std::size_t most_columns)
    : shown_(&shown),
      digits_(std::to_string(shown.position(shown.queries - 1)).size()),
      columns_(digits_) {
  std::size_t longest = 0;
  for (const std::string& token : shown.query_tokens) {
    longest = std::max(longest, terminal_columns(terminal_printable(token, most_columns)));
  }
  if (longest > 0 && most_columns > 0)
    columns_ = std::max(columns_, std::min(digits_ + 1 + longest, most_columns));
}

std::string RowLabels::of(std::int64_t row) const {
  std::string text = padded_left(std::to_string(shown_->position(row)), digits_);
  if (!shown_->query_tokens.empty() && columns_ > digits_ + 1) {
    text += " " + terminal_printable(shown_->query_label(row), columns_ - digits_ - 1);
  }
  return padded(text, columns_);
}

std::string RowLabels::position(std::int64_t row) const {
  return padded_left(std::to_string(shown_->position(row)), columns_);
}

std::string key_axis(std::int64_t columns, std::int64_t cell_columns,
                     std::int64_t keys_per_column) {
  const auto widest =
      static_cast<std::int64_t>(std::to_string((columns - 1) * keys_per_column).size());
  // Every number in its cell, or every fifth, tenth, … with a blank between them.
  std::int64_t step = 1;
  for (const std::int64_t wider : {5, 10, 20, 50, 100}) {
    if (step * cell_columns > widest) break;
    step = wider;
  }
  std::string axis;
  for (std::int64_t column = 0; column < columns; column += step) {
    const std::string label = std::to_string(column * keys_per_column);
    const auto place = static_cast<std::size_t>(column * cell_columns);
    if (place + label.size() > static_cast<std::size_t>(columns * cell_columns)) break;
    axis.resize(place, ' ');
    axis += label;
  }
  return axis;
}

std::string wrapped(const std::vector<std::string>& pieces, std::size_t width, std::size_t used,
                    const std::string& gap) {
  std::string text;
  for (const std::string& piece : pieces) {
    const std::size_t columns = terminal_columns(piece);
    const bool fits = used + gap.size() + columns <= width;
    if (used > 0) text += fits ? gap : "\n";
    used = used > 0 && fits ? used + gap.size() + columns : columns;
    text += piece;
  }
  return text + "\n";
}

std::string wrapped_words(const std::string& text, std::size_t width) {
  std::istringstream words(text);
  std::vector<std::string> pieces;
  for (std::string word; words >> word;) pieces.push_back(terminal_printable(word, width));
  return wrapped(pieces, width, 0, " ");
}

namespace {

std::string numbered_list(const std::string& name, const std::vector<std::string>& tokens,
                          std::int64_t first, std::size_t width, std::size_t most_lines) {
  constexpr std::size_t kLongest = 16;
  constexpr std::size_t kMost = 200;  // of which something can still be found
  if (tokens.size() > kMost) return "";
  std::vector<std::string> pieces;
  for (const std::string& token : tokens) {
    const std::string number = std::to_string(first++);
    pieces.push_back(number + " " + terminal_printable(token, kLongest - number.size() - 1));
  }
  while (true) {
    std::string text = name + wrapped(pieces, width, name.size());
    const auto lines = std::count(text.begin(), text.end(), '\n');
    if (lines <= static_cast<std::ptrdiff_t>(most_lines) || pieces.size() < 2) return text;
    pieces.pop_back();
    pieces.back() = "…";
  }
}

}  // namespace

std::string token_legend(const ShownHeads& shown, bool rows_named, std::size_t width,
                         std::size_t most_lines) {
  const bool same = shown.first_position == 0 && shown.key_tokens == shown.query_tokens;
  std::string text;
  if (!shown.query_tokens.empty() && !rows_named && !same)
    text += numbered_list("queries:", shown.query_tokens, shown.first_position, width, most_lines);
  if (!shown.key_tokens.empty() && !(rows_named && same))
    text += numbered_list(same ? "tokens:" : "keys:", shown.key_tokens, 0, width, most_lines);
  return text;
}

std::string sizes_text(const ShownHeads& shown) {
  const auto counted = [](std::int64_t count, const char* one, const char* many) {
    return std::to_string(count) + " " + (count == 1 ? one : many);
  };
  return counted(static_cast<std::int64_t>(shown.heads.size()), "head", "heads") + ", " +
         counted(shown.queries, "query", "queries") + " × " + counted(shown.keys, "key", "keys");
}

std::string heading(const ShownHeads& shown, std::size_t width) {
  const std::string sizes = sizes_text(shown);
  return wrapped_words(
      shown.title.empty() ? sizes : terminal_printable(shown.title, 200) + ": " + sizes, width);
}

}  // namespace headwise::view
