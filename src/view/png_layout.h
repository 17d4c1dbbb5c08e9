// Where everything of draw_png stands: cells of one head, names along its sides, heads in a grid.
//
//   title, sizes
//           name, summary      name, summary
//   tokens  ┌───────────┐      ┌───────────┐      ▓ 0.9
//   query   │   cells   │      │   cells   │      ▒
//           └───────────┘      └───────────┘      ░ 0
//              tokens             tokens
//               key                key
#pragma once

#include <cstdint>

#include "headwise/view.h"
#include "view/canvas.h"
#include "view/shown_heads.h"

namespace headwise::view {

// One axis of a head: a weight is a cell of whole pixels, or several weights are one pixel.
struct CellSize {
  std::int64_t pixels = 1;   // of a cell
  std::int64_t weights = 1;  // in a cell; more than 1 only where a cell is one pixel

  // The largest that take at most `room` pixels for `count` weights.
  static CellSize fitting(std::int64_t count, double room);
  // The smallest with which `count` weights are still a picture.
  static CellSize least(std::int64_t count);
  [[nodiscard]] CellSize smaller() const;

  [[nodiscard]] double length(std::int64_t count) const;  // of the axis, pixels
  [[nodiscard]] double middle(std::int64_t index) const;  // of a weight's cell
  [[nodiscard]] double pixels_per_weight() const {
    return static_cast<double>(pixels) / static_cast<double>(weights);
  }
};

// Names beside an axis: of every step-th weight its token or its position.
struct AxisLabels {
  std::int64_t step = 1;
  bool tokens = false;
  double room = 0.0;  // pixels beside the axis
};

struct PngLayout {
  static constexpr double kMargin = 28.0;
  static constexpr double kHeading = 62.0;  // title and sizes
  static constexpr double kHead = 40.0;     // name and summary above the cells
  static constexpr double kGap = 26.0;      // between heads
  static constexpr double kScale = 78.0;    // colours and their numbers, right of the heads
  static constexpr double kAxisTitle = 22.0;
  static constexpr double kLabelSize = 11.0;
  static constexpr std::int64_t kMostCell = 40;    // pixels: a handful of tokens needs no poster
  static constexpr std::int64_t kLeastCells = 48;  // of a head's longer side; less if cells are 40
  static constexpr double kMostLabel = 110.0;      // pixels of a token
  static constexpr double kSlant = 60.0;           // degrees, of the keys' tokens

  CellSize columns;
  CellSize rows;
  AxisLabels queries;
  AxisLabels keys;
  std::int64_t beside = 1;  // heads in a row
  double head_width = 0.0;  // of the cells
  double head_height = 0.0;
  double content_width = 0.0;  // what all of it needs
  double content_height = 0.0;
  double width = 0.0;  // of the picture
  double height = 0.0;

  [[nodiscard]] double panel_width() const;  // of a head with its name
  [[nodiscard]] double pitch() const;        // from one head to the next
  [[nodiscard]] Box cells(std::int64_t head) const;
};

// Throws ArgumentError where the heads cannot be drawn in the size asked for.
PngLayout png_layout(const ShownHeads& shown, const PngOptions& options);

}  // namespace headwise::view
