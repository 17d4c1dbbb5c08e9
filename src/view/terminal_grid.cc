#include "view/terminal_grid.h"

#include <optional>
#include <tuple>

namespace headwise::view {

namespace {

constexpr std::int64_t kLeastLines = 3;     // of a head; fewer, if it has no more queries
constexpr std::int64_t kLeastColumns = 6;   // likewise
constexpr std::int64_t kSummaryPitch = 13;  // "head 10 1.93" and a blank
constexpr std::int64_t kMostSkew = 3;       // beyond, cells are not square

struct Axis {
  std::int64_t weights = 1;  // in a cell
  std::int64_t places = 1;   // columns or half lines that it takes
};

Axis fitting(std::int64_t count, std::int64_t room) {
  if (count > room) return {base::divide_up(count, room), 1};
  for (const std::int64_t places : {6, 4, 2}) {
    if (count * places <= room) return {1, places};
  }
  return {};
}

// In rooms of one head: columns and lines.
TerminalGrid grid_in(const ShownHeads& shown, std::int64_t columns, std::int64_t lines) {
  Axis across = fitting(shown.keys, std::max<std::int64_t>(columns, 1));
  Axis down = fitting(shown.queries, 2 * lines);
  const auto [shorter, longer] = std::minmax(shown.queries, shown.keys);
  if (longer <= kMostSkew * shorter) {  // else the shorter side would vanish
    across.weights = down.weights = std::max(across.weights, down.weights);
    across.places = down.places = std::min(across.places, down.places);
  }
  return {.row_weights = down.weights,
          .column_weights = across.weights,
          .across = across.places,
          .down = down.places,
          .rows = base::divide_up(shown.queries, down.weights),
          .columns = base::divide_up(shown.keys, across.weights)};
}

class GridSearch {
 public:
  GridSearch(const ShownHeads& shown, const TerminalRoom& room)
      : shown_(shown), room_(room), heads_(static_cast<std::int64_t>(shown.heads.size())) {}

  TerminalGrid best() {
    for (const HeadTitle title : {HeadTitle::Summary, HeadTitle::Name, HeadTitle::Short}) {
      const std::int64_t most = std::min(heads_, room_.all_columns / least_pitch(title) + 1);
      for (std::int64_t beside = 1; beside <= most; ++beside) {
        for (const bool spacious : {true, false}) {
          consider({.beside = beside, .title = title, .spacious = spacious});
          if (room_.named_columns > 0)
            consider({.beside = beside, .title = title, .spacious = spacious, .named = true});
        }
      }
      if (best_.excess == 0) break;  // less above the heads would gain nothing
    }
    return best_;
  }

 private:
  [[nodiscard]] std::int64_t least_pitch(HeadTitle title) const {
    if (title == HeadTitle::Summary) return kSummaryPitch;
    const std::int64_t name = title == HeadTitle::Name ? room_.longest_name : room_.longest_short;
    return std::max(std::min(name + 1, kSummaryPitch),
                    std::min(shown_.keys, kLeastColumns) + TerminalGrid::kGap);
  }

  void consider(const TerminalGrid& wanted) {
    const std::int64_t columns = wanted.named      ? room_.named_columns
                                 : wanted.spacious ? room_.columns
                                                   : room_.all_columns;
    const std::int64_t lines = wanted.named ? room_.named_lines : room_.lines;
    const std::int64_t beside = wanted.beside;
    const std::int64_t pitch = (columns + TerminalGrid::kGap) / beside;
    if (beside > 1 && beside * least_pitch(wanted.title) - 1 > columns) return;
    const std::int64_t below = base::divide_up(heads_, beside);
    const std::int64_t own = wanted.own_lines();
    const std::int64_t least = std::min(kLeastLines, base::divide_up(shown_.queries, 2));
    TerminalGrid grid =
        grid_in(shown_, pitch - TerminalGrid::kGap, std::max(lines / below - own, least));
    if (wanted.named && grid.down < 2) return;
    grid.beside = beside;
    grid.least_pitch = least_pitch(wanted.title);
    grid.title = wanted.title;
    grid.named = wanted.named;
    grid.spacious = wanted.spacious;
    grid.excess =
        std::max<std::int64_t>(below * (grid.lines() + own) + (grid.spacious ? 1 : 0) - lines, 0);
    // Numbers above the columns are worth half of the cells.
    const std::int64_t shows = grid.rows * grid.columns * (grid.spacious ? 2 : 1);
    const Merit merit{-grid.excess, grid.named, shows, grid.across * grid.down};
    if (merit_ && merit <= *merit_) return;
    best_ = grid;
    merit_ = merit;
  }

  // Above all it fits, then it names its queries, then it shows much, then that largely.
  using Merit = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t>;

  const ShownHeads& shown_;
  const TerminalRoom& room_;
  std::int64_t heads_;
  TerminalGrid best_;
  std::optional<Merit> merit_;
};

}  // namespace

TerminalGrid terminal_grid(const ShownHeads& shown, const TerminalRoom& room) {
  return GridSearch(shown, room).best();
}

}  // namespace headwise::view
