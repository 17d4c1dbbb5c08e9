// Small multiples of lines: title, legend, panels in a grid, each with its axes.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "headwise/view.h"
#include "view/canvas.h"
#include "view/ticks.h"

namespace headwise {

namespace view {
namespace {

constexpr double kMargin = 28.0;
constexpr double kGap = 22.0;         // between panels
constexpr double kAxis = 52.0;        // left of a panel: its numbers
constexpr double kBelow = 26.0;       // below a panel: its numbers
constexpr double kPanelTitle = 20.0;  // a line of text above a panel
constexpr double kLegendRow = 20.0;
constexpr double kSample = 26.0;        // of a line in the legend: three dashes
constexpr std::size_t kMostNames = 36;  // of the legend

bool drawable(double y, bool log_y) { return std::isfinite(y) && (!log_y || y > 0.0); }

double x_of(const LineChart::Line& line, std::size_t i) {
  return line.x.empty() ? static_cast<double>(i + 1) : line.x[i];
}

struct Ranges {
  Range x{std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
  Range y = x;

  void add(const LineChart::Panel& panel, bool log_y) {
    for (const LineChart::Line& line : panel.lines) {
      for (std::size_t i = 0; i < line.y.size(); ++i) {
        if (!drawable(line.y[i], log_y) || !std::isfinite(x_of(line, i))) continue;
        x = {std::min(x.low, x_of(line, i)), std::max(x.high, x_of(line, i))};
        y = {std::min(y.low, line.y[i]), std::max(y.high, line.y[i])};
      }
    }
  }

  // Something to draw an axis for, whatever the lines hold.
  void settle(bool log_y) {
    if (!(x.low <= x.high)) x = {0.0, 1.0};
    if (!(y.low <= y.high)) y = log_y ? Range{0.1, 1.0} : Range{0.0, 1.0};
    if (x.low == x.high) x = {x.low - 0.5, x.high + 0.5};
    if (log_y) {
      // Beyond float32's precision nothing is meant; one lost zero must not flatten all lines.
      y.low = std::max(y.low, y.high * 1e-9);
      y = {y.low / 1.3, y.high * 1.3};
      return;
    }
    if (y.low > 0.0 && y.low < 0.5 * y.high)
      y.low = 0.0;  // honest proportions where it costs little
    const double room = y.high > y.low ? 0.05 * (y.high - y.low) : 0.5;
    y = {y.low == 0.0 ? 0.0 : y.low - room, y.high + room};
  }
};

std::vector<std::string> legend_names(const LineChart& chart) {
  std::vector<std::string> names;
  for (const LineChart::Panel& panel : chart.panels) {
    for (const LineChart::Line& line : panel.lines) {
      if (!line.name.empty() && std::find(names.begin(), names.end(), line.name) == names.end()) {
        names.push_back(line.name);
      }
    }
  }
  return names;
}

class LineDrawing {
 public:
  LineDrawing(const LineChart& chart, const PngOptions& options)
      : chart_(chart),
        options_(options),
        colours_(theme_colours(options.theme)),
        names_(legend_names(chart)) {
    lay_out();
  }

  [[nodiscard]] std::string png() const {
    const auto height = static_cast<std::int64_t>(std::ceil(height_));
    Canvas canvas(static_cast<std::int64_t>(width_), height, colours_.paper);
    draw_heading(canvas);
    Ranges shared;
    for (const auto& panel : chart_.panels) shared.add(panel, chart_.log_y);
    for (std::size_t i = 0; i < chart_.panels.size(); ++i) {
      Ranges ranges = shared;
      if (!chart_.shared_y) {
        ranges = {};
        ranges.add(chart_.panels[i], chart_.log_y);
      }
      ranges.settle(chart_.log_y);
      draw_panel(canvas, chart_.panels[i], panel_box(i), ranges);
    }
    draw_labels(canvas);
    return canvas.png();
  }

 private:
  [[nodiscard]] TextStyle style(double size, bool faint = false, bool bold = false) const {
    return {.size = size, .colour = faint ? colours_.faint : colours_.ink, .bold = bold};
  }

  // Panels of 3:2, as many beside each other as leave each 260 pixels.
  void lay_out() {
    const auto count = static_cast<double>(std::max<std::size_t>(chart_.panels.size(), 1));
    const double wanted = std::clamp(std::ceil(std::sqrt(count * 1.2)), 1.0, 4.0);
    width_ = options_.width > 0 ? static_cast<double>(options_.width)
                                : 2.0 * kMargin + wanted * 380.0 + 20.0;
    const double room = width_ - 2.0 * kMargin - y_label_room();
    columns_ = std::clamp(std::floor((room + kGap) / (kAxis + 260.0 + kGap)), 1.0, wanted);
    panel_width_ = (room - (columns_ - 1.0) * kGap) / columns_ - kAxis;
    bool notes = false;
    for (const auto& panel : chart_.panels) notes = notes || !panel.note.empty();
    above_ = kPanelTitle * (notes ? 2.0 : 1.0);
    lay_out_legend();
    const double rows = std::ceil(count / columns_);
    const double around = rows * (above_ + kBelow) + (rows - 1.0) * kGap + top_ + x_label_room();
    panel_height_ = options_.height > 0
                        ? (static_cast<double>(options_.height) - around - kMargin) / rows
                        : panel_width_ * 0.62;
    if (panel_width_ < 60.0 || panel_height_ < 40.0) {
      base::fail("draw_lines_png", "options", "room for the panels",
                 "a picture too small for them");
    }
    height_ = options_.height > 0 ? static_cast<double>(options_.height)
                                  : around + rows * panel_height_ + kMargin;
    if (height_ > 32767.0 || width_ > 32767.0 || height_ * width_ > Canvas::kMostPixels) {
      base::fail("draw_lines_png", "chart.panels", "a picture of at most 100 megapixels", "more");
    }
  }

  // Places of the names below title and subtitle, in rows.
  void lay_out_legend() {
    const Canvas meter(1, 1, colours_.paper);
    top_ = kMargin + 30.0 + (chart_.subtitle.empty() ? 0.0 : 22.0);
    if (names_.size() > 1) {
      double x = kMargin;
      double y = top_;
      for (std::size_t i = 0; i < std::min(names_.size(), kMostNames); ++i) {
        const double needed = kSample + 6.0 + meter.text_box(names_[i], style(12.0)).width + 18.0;
        if (x + needed > width_ - kMargin && x > kMargin) {
          x = kMargin;
          y += kLegendRow;
        }
        legend_.push_back({x, y});
        x += needed;
      }
      top_ = y + kLegendRow;
    }
    top_ += 12.0;
  }

  [[nodiscard]] double y_label_room() const { return chart_.y_label.empty() ? 0.0 : 20.0; }
  [[nodiscard]] double x_label_room() const { return chart_.x_label.empty() ? 0.0 : 20.0; }

  [[nodiscard]] Box panel_box(std::size_t index) const {
    const auto columns = static_cast<std::size_t>(columns_);
    const auto column = static_cast<double>(index % columns);
    const std::size_t whole_rows = index / columns;
    const auto row = static_cast<double>(whole_rows);
    return {kMargin + y_label_room() + column * (kAxis + panel_width_ + kGap) + kAxis,
            top_ + row * (above_ + panel_height_ + kBelow + kGap) + above_, panel_width_,
            panel_height_};
  }

  [[nodiscard]] LineStyle style_of(const LineChart::Line& line, std::size_t index) const {
    const auto found = std::find(names_.begin(), names_.end(), line.name);
    if (found != names_.end()) index = static_cast<std::size_t>(found - names_.begin());
    return line_style(options_.theme, index);
  }

  void draw_heading(Canvas& canvas) const {
    TextStyle title = style(18.0, false, true);
    title.most_width = width_ - 2.0 * kMargin;
    canvas.text({kMargin, kMargin - 6.0}, chart_.title, title);
    TextStyle subtitle = style(13.0, true);
    subtitle.most_width = title.most_width;
    canvas.text({kMargin, kMargin + 22.0}, chart_.subtitle, subtitle);
    for (std::size_t i = 0; i < legend_.size(); ++i) {
      const auto [x, y] = legend_[i];
      const Point sample[] = {{x, y + 8.0}, {x + kSample, y + 8.0}};
      canvas.polyline(sample, line_style(options_.theme, i), 2.4);
      const bool cut = i + 1 == kMostNames && names_.size() > kMostNames;
      const std::string more = "and " + std::to_string(names_.size() - i) + " more";
      canvas.text({x + kSample + 6.0, y}, cut ? more : names_[i], style(12.0));
    }
  }

  void draw_labels(Canvas& canvas) const {
    TextStyle label = style(13.0, true);
    label.horizontal = Horizontal::Centre;
    canvas.text({width_ / 2.0, height_ - kMargin - 10.0}, chart_.x_label, label);
    label.degrees = 90.0;
    label.vertical = Vertical::Middle;
    canvas.text({kMargin, (top_ + height_ - kMargin) / 2.0}, chart_.y_label, label);
  }

  void draw_panel(Canvas& canvas, const LineChart::Panel& panel, const Box& box,
                  const Ranges& ranges) const {
    TextStyle title = style(13.0, false, true);
    title.most_width = box.width;
    canvas.text({box.x, box.y - above_}, panel.title, title);
    TextStyle note = style(11.5, true);
    note.most_width = box.width;
    canvas.text({box.x, box.y - above_ + kPanelTitle - 2.0}, panel.note, note);
    const auto place = [&](double x, double y) {
      const double across = (x - ranges.x.low) / (ranges.x.high - ranges.x.low);
      const double up = chart_.log_y
                            ? std::log(y / ranges.y.low) / std::log(ranges.y.high / ranges.y.low)
                            : (y - ranges.y.low) / (ranges.y.high - ranges.y.low);
      return Point{box.x + across * box.width, box.y + (1.0 - up) * box.height};
    };
    draw_axes(canvas, box, ranges, place);
    canvas.clip({box.x - 2.0, box.y - 2.0, box.width + 4.0, box.height + 4.0});
    for (std::size_t i = 0; i < panel.lines.size(); ++i) {
      draw_line(canvas, panel.lines[i], style_of(panel.lines[i], i), place);
    }
    canvas.unclip();
  }

  template <typename Place>
  void draw_axes(Canvas& canvas, const Box& box, const Ranges& ranges, const Place& place) const {
    const int up = std::max(2, static_cast<int>(box.height / 34.0));
    TextStyle number = style(11.0, true);
    number.horizontal = Horizontal::Right;
    number.vertical = Vertical::Middle;
    for (const double y :
         chart_.log_y ? logarithmic_ticks(ranges.y, up) : linear_ticks(ranges.y, up)) {
      const double at = std::round(place(ranges.x.low, y).y) + 0.5;
      canvas.line({box.x, at}, {box.x + box.width, at}, colours_.line, 1.0);
      canvas.text({box.x - 7.0, at}, tick_text(y), number);
    }
    number.horizontal = Horizontal::Centre;
    number.vertical = Vertical::Top;
    for (const double x : linear_ticks(ranges.x, static_cast<int>(box.width / 70.0))) {
      const double at = place(x, ranges.y.high).x;
      canvas.line({at, box.y + box.height}, {at, box.y + box.height + 4.0}, colours_.faint, 1.0);
      canvas.text({at, box.y + box.height + 6.0}, tick_text(x), number);
    }
    canvas.outline(box, colours_.line, 1.0);
  }

  template <typename Place>
  void draw_line(Canvas& canvas, const LineChart::Line& line, const LineStyle& style,
                 const Place& place) const {
    std::vector<Point> points;
    const auto flush = [&] {
      if (points.size() == 1) canvas.dot(points[0], 2.5, style.colour);
      if (points.size() > 1) canvas.polyline(points, style, 1.6);
      points.clear();
    };
    for (std::size_t i = 0; i < line.y.size(); ++i) {
      if (drawable(line.y[i], chart_.log_y) && std::isfinite(x_of(line, i))) {
        points.push_back(place(x_of(line, i), line.y[i]));
      } else {
        flush();
      }
    }
    flush();
  }

  const LineChart& chart_;
  const PngOptions& options_;
  const ThemeColours& colours_;
  std::vector<std::string> names_;
  std::vector<Point> legend_;
  double width_ = 0.0;
  double height_ = 0.0;
  double top_ = 0.0;    // where the first panel's title begins
  double above_ = 0.0;  // title and note of a panel
  double columns_ = 1.0;
  double panel_width_ = 0.0;
  double panel_height_ = 0.0;
};

}  // namespace
}  // namespace view

std::string draw_lines_png(const LineChart& chart, const PngOptions& options) {
  for (const auto& panel : chart.panels) {
    for (const auto& line : panel.lines) {
      if (!line.x.empty() && line.x.size() != line.y.size()) {
        base::fail("draw_lines_png", "chart.panels.lines.x",
                   std::to_string(line.y.size()) + " numbers, one for each y, or none",
                   std::to_string(line.x.size()));
      }
    }
  }
  return view::LineDrawing(chart, options).png();
}

}  // namespace headwise
