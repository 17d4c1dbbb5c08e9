// In colour: half blocks, so that one character shows two weights above each other, nearly square.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <string_view>

#include "view/colour_map.h"
#include "view/printable.h"
#include "view/reduce.h"
#include "view/statistics.h"
#include "view/terminal_grid.h"
#include "view/terminal_labels.h"
#include "view/terminal_pictures.h"

namespace headwise::view {

namespace {

using Colour = TerminalOptions::Colour;

constexpr std::uint32_t kNothing = 0xFFFFFFFFU;  // the terminal's own background

// The number of the nearest colour of the 6×6×6 cube or the greys of a 256-colour terminal.
int palette_index(std::uint32_t rgb) {
  const int wanted[] = {static_cast<int>(rgb >> 16U & 0xFFU), static_cast<int>(rgb >> 8U & 0xFFU),
                        static_cast<int>(rgb & 0xFFU)};
  constexpr int kSteps[] = {0, 95, 135, 175, 215, 255};
  const auto square = [](int x) { return x * x; };
  int cube = 16;
  int cube_error = 0;
  int weight = 36;
  for (const int value : wanted) {
    int best = 0;
    for (int i = 1; i < 6; ++i) {
      if (std::abs(kSteps[i] - value) < std::abs(kSteps[best] - value)) best = i;
    }
    cube += weight * best;
    cube_error += square(kSteps[best] - value);
    weight /= 6;
  }
  const int mean = (wanted[0] + wanted[1] + wanted[2]) / 3;
  const int grey = std::clamp((mean - 3) / 10, 0, 23);  // 8, 18, … 238
  int grey_error = 0;
  for (const int value : wanted) grey_error += square(8 + 10 * grey - value);
  return grey_error < cube_error ? 232 + grey : cube;
}

class Painter {
 public:
  explicit Painter(Colour colour) : colour_(colour) {}

  // Appends a character with its upper half in one colour and its lower half in another.
  void half_block(std::string& text, std::uint32_t upper, std::uint32_t lower) {
    if (!used_ || upper != upper_) text += code(38, upper);
    if (!used_ || lower != lower_) text += code(48, lower);
    used_ = true;
    upper_ = upper;
    lower_ = lower;
    text += "▀";
  }
  void end(std::string& text) {
    if (used_) text += "\033[0m";
    used_ = false;
  }

 private:
  [[nodiscard]] std::string code(int what, std::uint32_t rgb) const {
    if (rgb == kNothing) return "\033[49m";
    char text[40];
    if (colour_ == Colour::Palette256) {
      std::snprintf(text, sizeof text, "\033[%d;5;%dm", what, palette_index(rgb));
    } else {
      std::snprintf(text, sizeof text, "\033[%d;2;%u;%u;%um", what, rgb >> 16U & 0xFFU,
                    rgb >> 8U & 0xFFU, rgb & 0xFFU);
    }
    return text;
  }

  Colour colour_;
  bool used_ = false;
  std::uint32_t upper_ = 0;
  std::uint32_t lower_ = 0;
};

std::string name_of(const ShownHead& head) { return head.name; }

// "h12" for "head 12"; names of other kinds have no shorter form.
std::string short_name_of(const ShownHead& head) {
  constexpr std::string_view kHead = "head ";
  return head.name.starts_with(kHead) ? "h" + head.name.substr(kHead.size()) : head.name;
}

// Columns of the longest name.
std::size_t longest(const ShownHeads& shown, std::string (*name)(const ShownHead&)) {
  std::size_t columns = 0;
  for (const ShownHead& head : shown.heads) {
    columns = std::max(columns, terminal_columns(name(head)));
  }
  return columns;
}

class ColourPicture {
 public:
  ColourPicture(const ShownHeads& shown, const TerminalOptions& options)
      : shown_(shown),
        options_(options),
        width_(static_cast<std::size_t>(options.width)),
        count_(shown.heads.size()),
        painter_(options.colour),
        labels_(shown, std::clamp<std::size_t>(width_ / 4, 4, 24)),
        empty_heads_(static_cast<std::size_t>(
            std::count_if(shown.heads.begin(), shown.heads.end(), attends_nothing))) {
    const RowLabels positions(shown, 0);
    grid_ = best_grid(positions);
    if (grid_.excess > 0) {  // rather without the tokens than without a head
      has_legend_ = false;
      grid_ = best_grid(positions);
    }
    if (grid_.excess > 0) leave_out_heads();
    if (!grid_.named) labels_ = positions;
    has_labels_ = grid_.named || grid_.spacious;
    summaries_ = fitting_summaries(shown, [&](const std::string& text) {
      return longest(shown_, name_of) + 2 + terminal_columns(text) <= title_columns();
    });
  }

  std::string text() {
    std::string text = heading(shown_, width_) + (grid_.spacious ? "\n" : "");
    const auto beside = static_cast<std::size_t>(grid_.beside);
    for (std::size_t first = 0; first < count_; first += beside) {
      text += heads(first, std::min(first + beside, count_));
    }
    text += scale(grid_);
    if (count_ < shown_.heads.size()) text += shown_text();
    const auto left = options_.height - 1 - std::count(text.begin(), text.end(), '\n');
    return text + legend(grid_.named, left);
  }

 private:
  [[nodiscard]] std::size_t indent() const { return has_labels_ ? labels_.columns() + 1 : 0; }
  // A head that stands alone has the line for itself.
  [[nodiscard]] std::size_t title_columns() const {
    if (grid_.beside == 1) return width_ - indent();
    return static_cast<std::size_t>(std::max(grid_.width(), grid_.least_pitch - 1));
  }
  [[nodiscard]] std::size_t pitch() const { return static_cast<std::size_t>(grid_.pitch()); }

  [[nodiscard]] std::int64_t beside(const RowLabels& labels) const {
    return std::max<std::int64_t>(options_.width - static_cast<std::int64_t>(labels.columns()) - 1,
                                  8);
  }

  [[nodiscard]] TerminalGrid best_grid(const RowLabels& positions) {
    const auto columns = [](std::size_t count) { return static_cast<std::int64_t>(count); };
    return terminal_grid(shown_,
                         {.named_columns = shown_.query_tokens.empty() ? 0 : beside(labels_),
                          .columns = beside(positions),
                          .all_columns = options_.width,
                          .named_lines = lines_for_heads(true),
                          .lines = lines_for_heads(false),
                          .longest_name = columns(longest(shown_, name_of)),
                          .longest_short = columns(longest(shown_, short_name_of))});
  }

  // As many rows of heads as the window has room for, and one in any case.
  void leave_out_heads() {
    const std::string said = shown_text();
    const std::int64_t lines = lines_for_heads(grid_.named) - (grid_.spacious ? 1 : 0) -
                               std::count(said.begin(), said.end(), '\n');
    const std::int64_t rows =
        std::max<std::int64_t>(lines / (grid_.lines() + grid_.own_lines()), 1);
    count_ = std::min(count_, static_cast<std::size_t>(rows * grid_.beside));
  }

  // "head 0 … head 49 of 144 heads"
  [[nodiscard]] std::string shown_text() const {
    const std::string text = shown_.heads.front().name + " … " + shown_.heads[count_ - 1].name +
                             " of " + std::to_string(shown_.heads.size()) + " heads";
    return wrapped_words(options_.others.empty() ? text : text + "; " + options_.others, width_);
  }

  // What the window has beside everything else that must be said, and the prompt that follows.
  [[nodiscard]] std::int64_t lines_for_heads(bool named) {
    const TerminalGrid most_reduced{.row_weights = shown_.queries, .column_weights = shown_.keys};
    const std::string all = heading(shown_, width_) + scale(most_reduced) + legend(named);
    return options_.height - 1 - std::count(all.begin(), all.end(), '\n');
  }

  // In few lines, or in those that are left.
  [[nodiscard]] std::string legend(bool named, std::ptrdiff_t left = 0) const {
    if (!has_legend_) return "";
    const auto lines = std::max<std::ptrdiff_t>({options_.height / 12, 1, left});
    return token_legend(shown_, named, width_, static_cast<std::size_t>(lines));
  }

  [[nodiscard]] std::uint32_t colour(double weight) const {
    return colour_at(colour_map(Theme::Dark),
                     scale_place(options_.scale, weight, static_cast<double>(shown_.largest)));
  }

  // Heads [first, end) beside each other: names, numbers of keys, cells, a blank line.
  std::string heads(std::size_t first, std::size_t end) {
    std::string names = padded("", indent());
    std::string axes = names;
    std::vector<Reduced> cells;
    for (std::size_t i = first; i < end; ++i) {
      const std::size_t columns = i + 1 < end ? pitch() : 0;
      names += padded(title(i), columns);
      axes += padded(key_axis(grid_.columns, grid_.across, grid_.column_weights), columns);
      cells.push_back(reduced(shown_.heads[i].weights, grid_.row_weights, grid_.column_weights));
    }
    std::string text = names + "\n" + (grid_.spacious ? axes + "\n" : "");
    for (std::int64_t line = 0; line < grid_.lines(); ++line) {
      if (has_labels_) text += row_label(line) + " ";
      std::size_t gap = 0;
      for (const Reduced& head : cells) {
        text += std::string(gap, ' ');
        add_line(text, head, line);
        gap = pitch() - static_cast<std::size_t>(grid_.width());
      }
      text += '\n';
    }
    return text + (grid_.spacious ? "\n" : "");
  }

  // The name, and as much of the summary as there is room for.
  [[nodiscard]] std::string title(std::size_t head) const {
    if (grid_.title != HeadTitle::Summary) {
      const ShownHead& shown = shown_.heads[head];
      return terminal_printable(
          grid_.title == HeadTitle::Name ? name_of(shown) : short_name_of(shown), title_columns());
    }
    const std::string& summary = summaries_[head];
    const std::string gap = is_number_alone(summary) ? " " : "  ";
    const std::size_t rest = gap.size() + terminal_columns(summary);
    return terminal_printable(shown_.heads[head].name, title_columns() - rest) + gap + summary;
  }
  static bool is_number_alone(const std::string& summary) {
    return summary.find(' ') == std::string::npos;
  }

  // Lines that hold one query have its token or position; of others every fourth has a number.
  [[nodiscard]] std::string row_label(std::int64_t line) const {
    if (grid_.down == 1) {
      return line % 4 == 0 ? labels_.position(line * 2 * grid_.row_weights) : labels_.none();
    }
    return 2 * line % grid_.down == 0 ? labels_.of(2 * line / grid_.down) : labels_.none();
  }

  void add_line(std::string& text, const Reduced& cells, std::int64_t line) {
    for (std::int64_t column = 0; column < grid_.width(); ++column) {
      const auto at = [&](std::int64_t half) {
        const std::int64_t row = (2 * line + half) / grid_.down;
        return row < cells.rows ? colour(static_cast<double>(cells(row, column / grid_.across)))
                                : kNothing;
      };
      painter_.half_block(text, at(0), at(1));
    }
    painter_.end(text);
  }

  // The colours, and what else must be known to read the picture.
  std::string scale(const TerminalGrid& grid) {
    const int columns = options_.width <= 40 ? 5 : 20;
    std::string text = "weight 0 ";
    const std::size_t smallest = text.size();
    for (int i = 0; i < columns; ++i) {
      const double place = static_cast<double>(i) / (columns - 1);
      const std::uint32_t both = colour_at(colour_map(Theme::Dark), place);
      painter_.half_block(text, both, both);
    }
    painter_.end(text);
    char number[32];
    std::snprintf(number, sizeof number, " %.2g", static_cast<double>(shown_.largest));
    const std::string largest = number;
    std::vector<std::string> pieces = {scale_name(options_.scale)};
    const bool has_numbers = summaries_.empty() || is_number_alone(summaries_.front());
    if (grid.title == HeadTitle::Summary && has_numbers) {
      if (empty_heads_ < shown_.heads.size()) pieces.emplace_back("by name: entropy");
      if (empty_heads_ > 0) pieces.emplace_back("–: attends nothing");
    }
    if (std::max(grid.row_weights, grid.column_weights) > 1) {
      pieces.push_back("cell: largest of " + std::to_string(grid.row_weights) + " × " +
                       std::to_string(grid.column_weights));
    }
    const std::size_t used = smallest + static_cast<std::size_t>(columns) + largest.size();
    return text + largest + wrapped(pieces, width_, used);
  }

  const ShownHeads& shown_;
  const TerminalOptions& options_;
  std::size_t width_;
  std::size_t count_;  // of heads that are shown, the first ones
  Painter painter_;
  RowLabels labels_;
  TerminalGrid grid_;
  std::size_t empty_heads_;  // that attend nothing
  bool has_labels_ = false;  // beside the lines
  bool has_legend_ = true;   // of tokens
  std::vector<std::string> summaries_;
};

}  // namespace

std::string colour_picture(const ShownHeads& shown, const TerminalOptions& options) {
  return ColourPicture(shown, options).text();
}

}  // namespace headwise::view
