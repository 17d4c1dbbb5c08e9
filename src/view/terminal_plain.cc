// Without colour: percentages where they fit, shades elsewhere. For pipes, logs and NO_COLOR.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdio>

#include "base/check.h"
#include "view/colour_map.h"
#include "view/printable.h"
#include "view/reduce.h"
#include "view/statistics.h"
#include "view/terminal_labels.h"
#include "view/terminal_pictures.h"

namespace headwise::view {

namespace {

constexpr std::size_t kPercent = 3;   // "100"
constexpr std::size_t kMostCell = 8;  // letters of a token above its column
constexpr std::size_t kTellingLetters = 5;

// Of position and token.
std::size_t label_columns(std::size_t width) { return std::min<std::size_t>(20, width / 2); }

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

// A cell: nothing for 0, a dot for what rounds to 0.
std::string percentage(float weight) {
  if (weight == 0.0F) return "";
  const long percent = std::lround(100.0 * static_cast<double>(weight));
  return percent == 0 ? "·" : std::to_string(percent);
}

class PercentTable {
 public:
  PercentTable(const ShownHeads& shown, std::size_t width)
      : shown_(shown), labels_(shown, label_columns(width)) {
    const auto keys = static_cast<std::size_t>(shown.keys);
    const std::size_t room = width > labels_.columns() ? (width - labels_.columns()) / keys : 0;
    std::size_t longest = kPercent;
    for (std::int64_t key = 0; key < shown.keys; ++key) {
      longest = std::max(longest, terminal_columns(terminal_printable(key_name(key), kMostCell)));
    }
    cell_ = std::min(longest, room > 0 ? room - 1 : 0);  // a blank stands between cells
    // Half a token says less than its number, which the rows have beside the token.
    names_ = cell_ == longest || cell_ >= kTellingLetters;
  }

  [[nodiscard]] bool fits() const { return cell_ >= kPercent; }
  [[nodiscard]] bool names_keys() const { return names_; }

  [[nodiscard]] std::string of(const ShownHead& head) const {
    std::string text = padded("", labels_.columns());
    for (std::int64_t key = 0; key < shown_.keys; ++key) {
      const std::string name = names_ ? key_name(key) : std::to_string(key);
      text += " " + padded_left(terminal_printable(name, cell_), cell_);
    }
    end_line(text);
    for (std::int64_t row = 0; row < shown_.queries; ++row) {
      text += labels_.of(row);
      for (std::int64_t key = 0; key < shown_.keys; ++key) {
        text += " " + padded_left(percentage(head.weights(row, key)), cell_);
      }
      end_line(text);
    }
    return text;
  }

 private:
  [[nodiscard]] std::string key_name(std::int64_t key) const { return shown_.key_label(key); }

  const ShownHeads& shown_;
  RowLabels labels_;
  std::size_t cell_ = 0;  // columns of one, without the blank before it
  bool names_ = false;    // tokens above the columns
};

constexpr std::array<const char*, 5> kShades = {"·", "░", "▒", "▓", "█"};

// 0 stays blank; any weight above it shows.
const char* shade(ColourScale scale, float weight, float largest) {
  if (weight == 0.0F) return " ";
  const double place =
      scale_place(scale, static_cast<double>(weight), static_cast<double>(largest));
  const auto index = static_cast<std::size_t>(place * static_cast<double>(kShades.size()));
  return kShades[std::min(index, kShades.size() - 1)];
}

class ShadePicture {
 public:
  ShadePicture(const ShownHeads& shown, const TerminalOptions& options)
      : shown_(shown),
        options_(options),
        labels_(shown, label_columns(static_cast<std::size_t>(options.width))) {
    const auto room =
        std::max<std::int64_t>(options.width - static_cast<std::int64_t>(labels_.columns()) - 1, 1);
    column_factor_ = base::divide_up(shown.keys, room);
    cell_ = 2 * shown.keys <= room ? 2 : 1;
    // A character is twice as high as it is wide. Few queries keep a line each.
    constexpr std::int64_t kFew = 16;
    if (column_factor_ > 1 && shown.queries > kFew)
      row_factor_ = std::min(2 * column_factor_, base::divide_up(shown.queries, kFew));
  }

  [[nodiscard]] std::string of(const ShownHead& head) const {
    const Reduced cells = reduced(head.weights, row_factor_, column_factor_);
    std::string text =
        padded("", labels_.columns() + 1) + key_axis(cells.columns, cell_, column_factor_);
    end_line(text);
    for (std::int64_t row = 0; row < cells.rows; ++row) {
      text += (row_factor_ == 1 ? labels_.of(row) : labels_.position(row * row_factor_)) + " ";
      for (std::int64_t column = 0; column < cells.columns; ++column) {
        const char* mark = shade(options_.scale, cells(row, column), shown_.largest);
        for (std::int64_t i = 0; i < cell_; ++i) text += mark;
      }
      end_line(text);
    }
    return text;
  }

  [[nodiscard]] bool names_rows() const { return row_factor_ == 1; }

  [[nodiscard]] std::string legend() const {
    std::vector<std::string> pieces = {"blank 0"};
    for (std::size_t i = 0; i < kShades.size(); ++i) {
      const double place = static_cast<double>(i) / static_cast<double>(kShades.size());
      const double from = scale_weight(options_.scale, place, static_cast<double>(shown_.largest));
      pieces.push_back(kShades[i] + (i == 0 ? " above 0" : " from " + rounded(from)));
    }
    const auto width = static_cast<std::size_t>(options_.width);
    const std::string reduction = reduction_text("cell", row_factor_, column_factor_);
    return wrapped(pieces, width, 0, "   ") +
           (reduction.empty() ? "" : wrapped_words(reduction, width));
  }

 private:
  const ShownHeads& shown_;
  const TerminalOptions& options_;
  RowLabels labels_;
  std::int64_t cell_ = 1;  // columns of one
  std::int64_t row_factor_ = 1;
  std::int64_t column_factor_ = 1;
};

}  // namespace

std::string plain_picture(const ShownHeads& shown, const TerminalOptions& options) {
  const auto width = static_cast<std::size_t>(options.width);
  const PercentTable table(shown, width);
  const ShadePicture shades(shown, options);
  std::string text = heading(shown, width);
  std::size_t longest = 0;
  std::vector<std::string> names;
  for (const ShownHead& head : shown.heads) {
    names.push_back(terminal_printable(head.name, width / 2));
    longest = std::max(longest, terminal_columns(names.back()));
  }
  const auto summaries = fitting_summaries(shown, [&](const std::string& summary) {
    return longest + 2 + terminal_columns(summary) <= width;
  });
  for (std::size_t i = 0; i < names.size(); ++i) {
    text += "\n" + names[i] + "  " + summaries[i] + "\n";
    text += table.fits() ? table.of(shown.heads[i]) : shades.of(shown.heads[i]);
  }
  text += '\n';
  text += table.fits()
              ? wrapped_words("percent of a query's attention; · less than 0.5, blank 0", width)
              : shades.legend();
  if (table.fits() && table.names_keys()) return text;
  constexpr std::size_t kAllLines = 1000;  // a pipe has no end
  return text + token_legend(shown, table.fits() || shades.names_rows(), width, kAllLines);
}

}  // namespace headwise::view
