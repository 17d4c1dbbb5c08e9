#include "view/png_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "base/check.h"

namespace headwise::view {

namespace {

constexpr double kDefaultWidth = 1600.0;    // pixels
constexpr double kLeastWidth = 560.0;       // of a picture, for its heading
constexpr double kLeastHead = 96.0;         // of a head, for its name
constexpr double kLine = 14.0;              // that a label takes across itself
constexpr std::int64_t kMostTokenStep = 4;  // every fifth token says less than its position
constexpr std::int64_t kMostSkew = 3;       // beyond, cells are not square
constexpr double kMostUpright = 1.5;        // height over width of a head, where none is asked for

std::int64_t round_step(double least) {
  for (std::int64_t power = 1;; power *= 10) {
    for (const std::int64_t digit : {1, 2, 5}) {
      if (static_cast<double>(digit * power) >= least) return digit * power;
    }
  }
}

struct LabelNeeds {
  double longest_token = 0.0;
  double longest_number = 0.0;
};

LabelNeeds measure(const std::vector<std::string>& tokens, std::int64_t last_position) {
  const Canvas meter(1, 1, {});
  const TextStyle style{.size = PngLayout::kLabelSize, .most_width = PngLayout::kMostLabel};
  LabelNeeds needs;
  // Thousands of tokens are never all named; a few hundred tell how long they are.
  const std::size_t stride = std::max<std::size_t>(tokens.size() / 500, 1);
  for (std::size_t i = 0; i < tokens.size(); i += stride) {
    needs.longest_token = std::max(needs.longest_token, meter.text_box(tokens[i], style).width);
  }
  needs.longest_number = meter.text_box(std::to_string(last_position), style).width;
  return needs;
}

class Planner {
 public:
  Planner(const ShownHeads& shown, const PngOptions& options)
      : shown_(shown),
        width_(static_cast<double>(options.width)),
        height_(static_cast<double>(options.height)),
        heads_(static_cast<double>(shown.heads.size())),
        query_needs_(measure(shown.query_tokens, shown.position(shown.queries - 1))),
        key_needs_(measure(shown.key_tokens, shown.keys - 1)) {
    // Cells are square, but where one axis is so much longer that the other would vanish.
    const auto [shorter, longer] = std::minmax(shown.queries, shown.keys);
    square_ = longer <= kMostSkew * shorter;
    least_rows_ = CellSize::least(square_ ? longer : shown.queries);
    least_columns_ = CellSize::least(square_ ? longer : shown.keys);
  }

  // With a height to keep, whatever makes heads largest; without, a sheet a little wider than high.
  // One that does not fit the sheet, if none does: the nearest to it.
  [[nodiscard]] PngLayout best() const {
    const double usual = usual_columns();
    PngLayout best = smallest(1.0);
    PngLayout nearest = best;
    // NOLINTNEXTLINE(bugprone-float-loop-counter): whole numbers
    for (double beside = 1.0; beside <= (height_ > 0.0 ? heads_ : usual); beside += 1.0) {
      const PngLayout least = smallest(beside);
      if (excess(least) < excess(nearest)) nearest = least;
      if (least.content_width > sheet_width()) break;
      if (!fits(least)) continue;
      const PngLayout other = largest(beside);
      if (!fits(best) || height_ <= 0.0 || is_better(other, best, usual)) best = other;
    }
    return fits(best) ? best : nearest;
  }

 private:
  [[nodiscard]] double sheet_width() const { return width_ > 0.0 ? width_ : kDefaultWidth; }
  [[nodiscard]] bool fits(const PngLayout& layout) const { return excess(layout) <= 1.0; }
  // Of what it needs, over what there is.
  [[nodiscard]] double excess(const PngLayout& layout) const {
    const double across = layout.content_width / sheet_width();
    return height_ > 0.0 ? std::max(across, layout.content_height / height_) : across;
  }

  // Larger heads; among equals as many beside each other as usual.
  static bool is_better(const PngLayout& a, const PngLayout& b, double usual) {
    const double larger = a.head_width * a.head_height - b.head_width * b.head_height;
    const auto unusual = [&](const PngLayout& layout) {
      return std::abs(static_cast<double>(layout.beside) - usual);
    };
    return larger != 0.0 ? larger > 0.0 : unusual(a) < unusual(b);
  }

  // A little wider than high, and if it can be had nearby, without a gap in the last row.
  [[nodiscard]] double usual_columns() const {
    const double wanted = std::sqrt(heads_ * 1.4);
    double best = std::ceil(wanted);
    double best_cost = std::numeric_limits<double>::infinity();
    const double most = std::min(heads_, std::ceil(1.4 * wanted));
    double beside = std::max(1.0, std::floor(0.8 * wanted));
    for (; beside <= most; beside += 1.0) {  // NOLINT(bugprone-float-loop-counter): whole numbers
      const double gaps = std::ceil(heads_ / beside) * beside - heads_;
      const double cost = gaps / heads_ + 0.3 * std::abs(std::log(beside / wanted));
      if (cost < best_cost) {
        best = beside;
        best_cost = cost;
      }
    }
    return best;
  }

  [[nodiscard]] PngLayout smallest(double beside) const {
    PngLayout layout;
    layout.beside = static_cast<std::int64_t>(beside);
    layout.rows = least_rows_;
    layout.columns = least_columns_;
    finish(layout);
    return layout;
  }

  // Labels need room that cells then lack, and smaller cells need other labels: begins with the
  // cells that a sheet without labels has room for, and takes smaller ones until all of it fits.
  [[nodiscard]] PngLayout largest(double beside) const {
    PngLayout layout = smallest(beside);
    const double across = sheet_width() / beside - PngLayout::kGap;
    const double down = height_ > 0.0 ? height_ / std::ceil(heads_ / beside) - PngLayout::kHead
                                      : kMostUpright * across;
    layout.columns = larger_of(least_columns_, CellSize::fitting(shown_.keys, across));
    layout.rows = larger_of(least_rows_, CellSize::fitting(shown_.queries, down));
    if (square_) {
      const CellSize both = is_smaller(layout.rows, layout.columns) ? layout.rows : layout.columns;
      layout.rows = layout.columns = both;
    }
    finish(layout);
    while (!fits(layout)) {
      const bool too_wide = layout.content_width > sheet_width();
      CellSize& axis = too_wide ? layout.columns : layout.rows;
      const CellSize& least = too_wide ? least_columns_ : least_rows_;
      const CellSize smaller = axis.smaller();
      if (is_smaller(smaller, least)) return smallest(beside);
      axis = smaller;
      if (square_) layout.rows = layout.columns = smaller;
      finish(layout);
    }
    return layout;
  }

  static bool is_smaller(const CellSize& a, const CellSize& b) {
    return a.pixels_per_weight() < b.pixels_per_weight();
  }
  static CellSize larger_of(const CellSize& a, const CellSize& b) {
    return is_smaller(a, b) ? b : a;
  }

  void label_queries(PngLayout& layout) const {
    const double cell = layout.rows.pixels_per_weight();
    AxisLabels& labels = layout.queries;
    labels.step = static_cast<std::int64_t>(std::ceil(kLine / cell));
    labels.tokens = !shown_.query_tokens.empty() && labels.step <= kMostTokenStep;
    if (!labels.tokens) labels.step = round_step(2.0 * kLine / cell);
    labels.room = 8.0 + (labels.tokens ? query_needs_.longest_token : query_needs_.longest_number);
  }

  void label_keys(PngLayout& layout) const {
    const double cell = layout.columns.pixels_per_weight();
    const double slant = PngLayout::kSlant * std::numbers::pi / 180.0;
    AxisLabels& labels = layout.keys;
    labels.step = static_cast<std::int64_t>(std::ceil(kLine / std::sin(slant) / cell));
    labels.tokens = !shown_.key_tokens.empty() && labels.step <= kMostTokenStep;
    labels.room = 10.0 + std::sin(slant) * key_needs_.longest_token + std::cos(slant) * kLine;
    if (!labels.tokens) {
      labels.step = round_step((key_needs_.longest_number + 10.0) / cell);
      labels.room = 8.0 + kLine;
    }
  }

  void finish(PngLayout& layout) const {
    label_queries(layout);
    label_keys(layout);
    const auto beside = static_cast<double>(layout.beside);
    layout.head_width = layout.columns.length(shown_.keys);
    layout.head_height = layout.rows.length(shown_.queries);
    const double rows = std::ceil(heads_ / beside);
    layout.content_width = 2.0 * PngLayout::kMargin + PngLayout::kAxisTitle + layout.queries.room +
                           beside * layout.pitch() + PngLayout::kScale;
    layout.content_height = 2.0 * PngLayout::kMargin + PngLayout::kHeading + PngLayout::kAxisTitle +
                            layout.keys.room + rows * (PngLayout::kHead + layout.head_height) +
                            (rows - 1.0) * PngLayout::kGap;
    layout.width = width_ > 0.0 ? width_ : std::max(std::ceil(layout.content_width), kLeastWidth);
    layout.height = height_ > 0.0 ? height_ : std::ceil(layout.content_height);
  }

  const ShownHeads& shown_;
  double width_;
  double height_;
  double heads_;
  bool square_ = true;
  CellSize least_rows_;
  CellSize least_columns_;
  LabelNeeds query_needs_;
  LabelNeeds key_needs_;
};

}  // namespace

CellSize CellSize::fitting(std::int64_t count, double room) {
  const auto pixels = std::max<std::int64_t>(static_cast<std::int64_t>(room), 1);
  if (count <= pixels) return {std::min(pixels / count, PngLayout::kMostCell), 1};
  return {1, base::divide_up(count, pixels)};
}

CellSize CellSize::least(std::int64_t count) {
  constexpr std::int64_t kLeast = PngLayout::kLeastCells;
  if (count >= kLeast) return {1, count / kLeast};
  return {std::min(base::divide_up(kLeast, count), PngLayout::kMostCell), 1};
}

CellSize CellSize::smaller() const {
  if (pixels > 1) return {pixels - 1, weights};
  return {1, weights + 1};
}

double CellSize::length(std::int64_t count) const {
  return static_cast<double>(base::divide_up(count, weights) * pixels);
}

double CellSize::middle(std::int64_t index) const {
  const std::int64_t cell = index / weights;
  return (static_cast<double>(cell) + 0.5) * static_cast<double>(pixels);
}

double PngLayout::panel_width() const { return std::max(head_width, kLeastHead); }

double PngLayout::pitch() const { return panel_width() + kGap; }

Box PngLayout::cells(std::int64_t head) const {
  const auto column = static_cast<double>(head % beside);
  const std::int64_t whole_rows = head / beside;
  const auto row = static_cast<double>(whole_rows);
  return {kMargin + kAxisTitle + std::ceil(queries.room) + column * pitch(),
          kMargin + kHeading + kHead + row * (kHead + head_height + kGap), head_width, head_height};
}

PngLayout png_layout(const ShownHeads& shown, const PngOptions& options) {
  constexpr double kMostSide = 32767.0;  // Cairo's
  const auto sizes = [](double width, double height) {
    return std::to_string(std::llround(std::ceil(width))) + " × " +
           std::to_string(std::llround(std::ceil(height)));
  };
  const PngLayout layout = Planner(shown, options).best();
  if (layout.content_width > layout.width || layout.content_height > layout.height) {
    base::fail("draw_png", "options",
               "at least " + sizes(layout.content_width, layout.content_height) + " pixels for " +
                   std::to_string(shown.heads.size()) + " heads",
               sizes(layout.width, layout.height));
  }
  if (std::max(layout.width, layout.height) > kMostSide ||
      layout.width * layout.height > static_cast<double>(Canvas::kMostPixels)) {
    base::fail("draw_png", "picture", "100 megapixels and sides of 32767 at most",
               sizes(layout.width, layout.height) + " for " + std::to_string(shown.heads.size()) +
                   " heads");
  }
  return layout;
}

}  // namespace headwise::view
