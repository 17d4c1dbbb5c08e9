#include "view/terminal_grid.h"

#include <optional>
#include <tuple>

namespace headwise::view {

namespace {

constexpr std::int64_t kLeastLines = 3;  // of a head; fewer, if it has no more queries
constexpr std::int64_t kMostSkew = 3;    // beyond, cells are not square

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

}  // namespace

TerminalGrid terminal_grid(const ShownHeads& shown, const TerminalRoom& room) {
  const auto heads = static_cast<std::int64_t>(shown.heads.size());
  const std::int64_t least = std::min(kLeastLines, base::divide_up(shown.queries, 2));
  TerminalGrid best;
  // Above all it fits, then it names its queries, then it shows much, then that largely.
  using Merit = std::tuple<std::int64_t, bool, std::int64_t, std::int64_t>;
  std::optional<Merit> best_merit;
  const auto consider = [&](std::int64_t beside, bool named, bool spacious) {
    const std::int64_t columns = named      ? room.named_columns
                                 : spacious ? room.columns
                                            : room.all_columns;
    const std::int64_t lines = named ? room.named_lines : room.lines;
    const std::int64_t pitch = (columns + TerminalGrid::kGap) / beside;
    if (beside > 1 && beside * TerminalGrid::kLeastPitch - 1 > columns) return;
    const std::int64_t below = base::divide_up(heads, beside);
    const std::int64_t own = TerminalGrid{.spacious = spacious}.own_lines();
    TerminalGrid grid =
        grid_in(shown, pitch - TerminalGrid::kGap, std::max(lines / below - own, least));
    if (named && grid.down < 2) return;
    grid.beside = beside;
    grid.named = named;
    grid.spacious = spacious;
    const std::int64_t excess =
        std::max<std::int64_t>(below * (grid.lines() + own) + (spacious ? 1 : 0) - lines, 0);
    // Numbers above the columns are worth half of the cells.
    const std::int64_t shows = grid.rows * grid.columns * (spacious ? 2 : 1);
    const Merit merit{-excess, named, shows, grid.across * grid.down};
    if (best_merit && merit <= *best_merit) return;
    best = grid;
    best_merit = merit;
  };
  const std::int64_t most = std::min(heads, room.all_columns / TerminalGrid::kLeastPitch + 1);
  for (std::int64_t beside = 1; beside <= most; ++beside) {
    for (const bool spacious : {true, false}) {
      consider(beside, false, spacious);
      if (room.named_columns > 0) consider(beside, true, spacious);
    }
  }
  return best;
}

}  // namespace headwise::view
