// In colour: half blocks, so that one character shows two weights above each other, nearly square.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>

#include "base/check.h"
#include "view/colour_map.h"
#include "view/printable.h"
#include "view/reduce.h"
#include "view/statistics.h"
#include "view/terminal_labels.h"
#include "view/terminal_pictures.h"

namespace headwise::view {

namespace {

using Colour = TerminalOptions::Colour;

constexpr std::int64_t kGap = 2;          // columns between heads
constexpr std::int64_t kLeastPitch = 10;  // "head 100" and a gap
constexpr std::int64_t kLeastSide = 16;   // cells below which a picture is not reduced further
constexpr std::int64_t kOwnLines = 3;     // of a head beside its cells: name, numbers, blank

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

// How large heads are drawn and how many stand beside each other.
struct Grid {
  std::int64_t enlarge = 0;  // 0: a weight is half a character; n: 2n columns × n lines
  std::int64_t factor = 1;   // weights on each side of a cell, if not enlarged
  std::int64_t columns = 0;  // of characters, of one head
  std::int64_t lines = 0;
  std::int64_t beside = 1;  // heads

  [[nodiscard]] std::int64_t pitch() const { return std::max(columns + kGap, kLeastPitch); }
};

Grid grid_of(const ShownHeads& shown, std::int64_t room, std::int64_t enlarge,
             std::int64_t factor) {
  Grid grid{.enlarge = enlarge, .factor = factor};
  if (enlarge > 0) {
    grid.columns = shown.keys * 2 * enlarge;
    grid.lines = shown.queries * enlarge;
  } else {
    grid.columns = base::divide_up(shown.keys, factor);
    grid.lines = base::divide_up(shown.queries, 2 * factor);
  }
  grid.beside = std::clamp<std::int64_t>((room + kGap) / grid.pitch(), 1,
                                         static_cast<std::int64_t>(shown.heads.size()));
  return grid;
}

struct Room {
  std::int64_t with_tokens;  // columns beside the labels of rows
  std::int64_t with_positions;
  std::int64_t height;  // lines
};

// The largest heads that all fit the window; if none do, the smallest that are still readable.
Grid choose_grid(const ShownHeads& shown, const Room& room) {
  const auto heads = static_cast<std::int64_t>(shown.heads.size());
  const auto lines = [&](const Grid& grid) {
    return base::divide_up(heads, grid.beside) * (grid.lines + kOwnLines);
  };
  for (std::int64_t enlarge = 3; enlarge >= 1; --enlarge) {
    const Grid grid = grid_of(shown, room.with_tokens, enlarge, 1);
    if (grid.columns <= room.with_tokens && lines(grid) <= room.height) return grid;
  }
  for (std::int64_t factor = 1;; ++factor) {
    const Grid grid = grid_of(shown, room.with_positions, 0, factor);
    const Grid next = grid_of(shown, room.with_positions, 0, factor + 1);
    const bool smallest = std::max(next.columns, 2 * next.lines) < kLeastSide;
    if (grid.columns <= room.with_positions && (lines(grid) <= room.height || smallest))
      return grid;
  }
}

class ColourPicture {
 public:
  ColourPicture(const ShownHeads& shown, const TerminalOptions& options)
      : shown_(shown),
        options_(options),
        painter_(options.colour),
        labels_(shown, static_cast<std::size_t>(std::clamp(options.width / 4, 4, 24))) {
    const RowLabels positions(shown, 0);
    const auto beside = [&](const RowLabels& labels) {
      return std::max<std::int64_t>(options.width - static_cast<std::int64_t>(labels.columns()) - 1,
                                    8);
    };
    constexpr std::int64_t kHeadingAndScale = 3;  // lines
    grid_ =
        choose_grid(shown, {beside(labels_), beside(positions), options.height - kHeadingAndScale});
    if (grid_.enlarge == 0) labels_ = positions;
  }

  std::string text() {
    std::string text = heading(shown_) + "\n\n";
    const auto count = shown_.heads.size();
    const auto beside = static_cast<std::size_t>(grid_.beside);
    for (std::size_t first = 0; first < count; first += beside) {
      text += heads(first, std::min(first + beside, count));
    }
    return text + scale() + key_legend(shown_, static_cast<std::size_t>(options_.width));
  }

 private:
  // Colours of one head, by half-line and column of characters.
  [[nodiscard]] Reduced cells_of(const ShownHead& head) const {
    return reduced(head.weights, grid_.factor, grid_.factor);
  }

  [[nodiscard]] std::uint32_t colour(double weight) const {
    return colour_at(colour_map(Theme::Dark),
                     scale_place(options_.scale, weight, static_cast<double>(shown_.largest)));
  }

  // Heads [first, end) beside each other: names, numbers of keys, cells, a blank line.
  std::string heads(std::size_t first, std::size_t end) {
    const auto pitch = static_cast<std::size_t>(grid_.pitch());
    const std::string indent = padded("", labels_.columns() + 1);
    std::string names = indent;
    std::string axes = indent;
    std::vector<Reduced> cells;
    for (std::size_t i = first; i < end; ++i) {
      const ShownHead& head = shown_.heads[i];
      names += padded(title(head, pitch - 1), pitch);
      cells.push_back(cells_of(head));
      const std::int64_t cell = grid_.enlarge > 0 ? 2 * grid_.enlarge : 1;
      axes += padded(key_axis(cells.back().columns, cell, grid_.factor), pitch);
    }
    std::string text = names + "\n" + axes + "\n";
    for (std::int64_t line = 0; line < grid_.lines; ++line) {
      text += row_label(line) + " ";
      for (const Reduced& head : cells) {
        add_line(text, head, line);
        text += std::string(pitch - static_cast<std::size_t>(grid_.columns), ' ');
      }
      text += '\n';
    }
    return text + "\n";
  }

  // The name, and as much of the summary as there is room for.
  [[nodiscard]] std::string title(const ShownHead& head, std::size_t columns) const {
    std::string name = terminal_printable(head.name, columns);
    const std::size_t used = terminal_columns(name) + 2;
    if (used + 24 > columns) return name;
    const std::string text = summary_text(summarise(head, shown_.first_position), columns - used);
    return terminal_printable(name + "  " + text, columns);
  }

  // Lines that hold one query have its token; of those that hold several every fourth has a number.
  [[nodiscard]] std::string row_label(std::int64_t line) const {
    if (grid_.enlarge > 0) {
      return line % grid_.enlarge == 0 ? labels_.of(line / grid_.enlarge) : labels_.none();
    }
    return line % 4 == 0 ? labels_.position(line * 2 * grid_.factor) : labels_.none();
  }

  void add_line(std::string& text, const Reduced& cells, std::int64_t line) {
    const std::int64_t across = grid_.enlarge > 0 ? 2 * grid_.enlarge : 1;
    for (std::int64_t column = 0; column < grid_.columns; ++column) {
      const auto at = [&](std::int64_t half) {
        const std::int64_t row = grid_.enlarge > 0 ? line / grid_.enlarge : 2 * line + half;
        return row < cells.rows ? colour(static_cast<double>(cells(row, column / across)))
                                : kNothing;
      };
      painter_.half_block(text, at(0), at(1));
    }
    painter_.end(text);
  }

  std::string scale() {
    constexpr int kColumns = 32;
    std::string text = "weight 0 ";
    for (int i = 0; i < kColumns; ++i) {
      const double place = static_cast<double>(i) / (kColumns - 1);
      const std::uint32_t both = colour_at(colour_map(Theme::Dark), place);
      painter_.half_block(text, both, both);
    }
    painter_.end(text);
    char largest[32];
    std::snprintf(largest, sizeof largest, " %.2g, ", static_cast<double>(shown_.largest));
    text += std::string(largest) + scale_name(options_.scale) + "\n";
    const std::string reduction = reduction_text("cell", grid_.factor, grid_.factor);
    return text + (reduction.empty() ? "" : reduction + "\n");
  }

  const ShownHeads& shown_;
  const TerminalOptions& options_;
  Painter painter_;
  RowLabels labels_;
  Grid grid_;
};

}  // namespace

std::string colour_picture(const ShownHeads& shown, const TerminalOptions& options) {
  return ColourPicture(shown, options).text();
}

}  // namespace headwise::view
