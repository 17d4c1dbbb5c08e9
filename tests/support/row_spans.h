// Spans for the row tiles of one CPU target, whose tiles differ from another's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "support/dice.h"

namespace headwise::test_support {

// CPUs of this target have no fused multiply-add, so its bits are its own.
inline bool has_fused_multiply_add(const kernels::Kernels& kernels) {
  return kernels.target != "sse4";
}

inline std::int64_t random_rows(Dice& dice) {  // few of them often: low tiles are code of their own
  return dice.chance(0.3) ? dice.between(0, 3) : dice.between(0, 60);
}

// The same spans told twice: for every row tile of a target, and for every row.
struct RowSpans {
  std::vector<kernels::TileSpan> of_tile;  // none: everything
  std::vector<kernels::TileSpan> of_row;

  static RowSpans everything(std::int64_t rows, std::int64_t size) {
    return {{}, std::vector<kernels::TileSpan>(static_cast<std::size_t>(rows), {0, size})};
  }
  // Whole panels, but that the last may end with everything; some empty.
  static RowSpans random(Dice& dice, std::int64_t rows, std::int64_t tile_rows, std::int64_t size) {
    RowSpans result;
    const kernels::RowTiles tiles(rows, tile_rows);
    const std::int64_t panels = kernels::panel_count(size);
    for (std::int64_t tile = 0; tile < tiles.count; ++tile) {
      const std::int64_t first = dice.between(0, panels);
      const std::int64_t begin = first * kernels::kPanelWidth;
      const std::int64_t end = dice.between(first, panels) * kernels::kPanelWidth;
      const kernels::TileSpan span{begin, std::max(begin, std::min(size, end))};
      result.of_tile.push_back(dice.chance(0.3) ? kernels::TileSpan{begin, end} : span);
      const std::int64_t height = tiles.row(tile + 1) - tiles.row(tile);
      result.of_row.insert(result.of_row.end(), static_cast<std::size_t>(height), span);
    }
    return result;
  }

  // What kernels take.
  [[nodiscard]] const kernels::TileSpan* tiles() const {
    return of_tile.empty() ? nullptr : of_tile.data();
  }
  [[nodiscard]] const kernels::TileSpan& row(std::int64_t row) const {
    return of_row[static_cast<std::size_t>(row)];
  }
};

}  // namespace headwise::test_support
