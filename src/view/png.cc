// Small multiples of heads, drawn where png_layout has put them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "headwise/view.h"
#include "view/canvas.h"
#include "view/colour_map.h"
#include "view/png_layout.h"
#include "view/reduce.h"
#include "view/shown_heads.h"
#include "view/statistics.h"
#include "view/terminal_labels.h"
#include "view/ticks.h"

namespace headwise {

namespace view {

namespace {

constexpr std::int64_t kAnnotatedCell = 28;  // pixels from which a cell has room for ".93"

constexpr double kTickDistance = 15.0;  // pixels between numbers of the colour scale

// A weight with three digits that count.
std::string short_text(double weight) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", weight);
  return text;
}

Colour unpacked(std::uint32_t rgb) {
  const auto part = [&](unsigned shift) {
    return static_cast<double>(rgb >> shift & 0xFFU) / 255.0;
  };
  return {part(16), part(8), part(0)};
}

// Black or white, whichever is read more easily on the colour.
Colour readable_on(std::uint32_t rgb) {
  const Colour colour = unpacked(rgb);
  const auto linear = [](double x) { return std::pow(x, 2.2); };
  const double luminance =
      0.2126 * linear(colour.red) + 0.7152 * linear(colour.green) + 0.0722 * linear(colour.blue);
  return luminance > 0.18 ? Colour{} : Colour{1.0, 1.0, 1.0};
}

class HeadsDrawing {
 public:
  HeadsDrawing(const ShownHeads& shown, const PngOptions& options)
      : shown_(shown),
        options_(options),
        layout_(png_layout(shown, options)),
        colours_(theme_colours(options.theme)),
        map_(colour_map(options.theme)),
        canvas_(static_cast<std::int64_t>(layout_.width), static_cast<std::int64_t>(layout_.height),
                colours_.paper),
        summaries_(fitting_summaries(shown, [&](const std::string& text) {
          return canvas_.text_box(text, faint(11.0)).width <= layout_.panel_width();
        })) {}

  std::string png() {
    draw_heading();
    const auto heads = static_cast<std::int64_t>(shown_.heads.size());
    for (std::int64_t i = 0; i < heads; ++i) {
      draw_head(static_cast<std::size_t>(i), layout_.cells(i));
      // Names stand at the outer sides of the grid: left of each row, below each column.
      if (i % layout_.beside == 0) label_queries(layout_.cells(i));
      if (i + layout_.beside >= heads) label_keys(layout_.cells(i));
    }
    draw_scale();
    if (options_.no_font && !canvas_.without_font().empty()) {
      options_.no_font(canvas_.without_font());
    }
    return canvas_.png();
  }

 private:
  [[nodiscard]] TextStyle ink(double size, bool bold = false) const {
    return {.size = size, .colour = colours_.ink, .bold = bold};
  }
  [[nodiscard]] TextStyle faint(double size) const {
    return {.size = size, .colour = colours_.faint};
  }

  void draw_heading() {
    const Point place{layout_.cells(0).x, PngLayout::kMargin - 6.0};
    const double width = layout_.width - place.x - PngLayout::kMargin;
    TextStyle title = ink(20.0, true);
    title.most_width = width;
    canvas_.text(place, shown_.title.empty() ? "Attention weights" : shown_.title, title);
    std::string sizes = sizes_text(shown_) + " · " + scale_name(options_.scale);
    const std::string reduction =
        reduction_text("pixel", layout_.rows.weights, layout_.columns.weights);
    if (!reduction.empty()) sizes += " · " + reduction;
    TextStyle below = faint(13.0);
    below.most_width = width;
    canvas_.text({place.x, place.y + 29.0}, sizes, below);
  }

  [[nodiscard]] std::uint32_t colour(float weight) const {
    return colour_at(map_, scale_place(options_.scale, static_cast<double>(weight),
                                       static_cast<double>(shown_.largest)));
  }

  void draw_head(std::size_t index, const Box& box) {
    const ShownHead& head = shown_.heads[index];
    TextStyle name = ink(13.0, true);
    name.most_width = layout_.panel_width();
    canvas_.text({box.x, box.y - PngLayout::kHead + 2.0}, head.name, name);
    canvas_.text({box.x, box.y - 19.0}, summaries_[index], faint(11.0));

    const Reduced cells = reduced(head.weights, layout_.rows.weights, layout_.columns.weights);
    Pixels pixels{cells.columns, cells.rows, {}};
    pixels.values.reserve(cells.values.size());
    for (const float weight : cells.values) pixels.values.push_back(colour(weight));
    canvas_.image(box, pixels);
    canvas_.outline(box, colours_.line, 1.0);
    if (std::min(layout_.rows.pixels, layout_.columns.pixels) >= kAnnotatedCell)
      annotate(cells, box);
  }

  // Weights within the cells, where they are large enough.
  void annotate(const Reduced& cells, const Box& box) {
    for (std::int64_t row = 0; row < cells.rows; ++row) {
      for (std::int64_t column = 0; column < cells.columns; ++column) {
        const float weight = cells(row, column);
        canvas_.text({box.x + layout_.columns.middle(column), box.y + layout_.rows.middle(row)},
                     cell_text(static_cast<double>(weight)),
                     {.size = 11.0,
                      .colour = readable_on(colour(weight)),
                      .horizontal = Horizontal::Centre,
                      .vertical = Vertical::Middle});
      }
    }
  }

  void label_queries(const Box& box) {
    const AxisLabels& labels = layout_.queries;
    TextStyle style = ink(PngLayout::kLabelSize);
    style.horizontal = Horizontal::Right;
    style.vertical = Vertical::Middle;
    style.most_width = labels.room - 6.0;
    for (std::int64_t row = first_labelled(shown_.first_position, labels); row < shown_.queries;
         row += labels.step) {
      const Point place{box.x - 7.0, box.y + layout_.rows.middle(row)};
      canvas_.text(place,
                   labels.tokens ? shown_.query_label(row) : std::to_string(shown_.position(row)),
                   style);
    }
    TextStyle title = faint(12.0);
    title.horizontal = Horizontal::Centre;
    title.vertical = Vertical::Middle;
    title.degrees = 90.0;
    canvas_.text({PngLayout::kMargin + 4.0, box.y + box.height / 2.0}, "query", title);
  }

  void label_keys(const Box& box) {
    const AxisLabels& labels = layout_.keys;
    const double bottom = box.y + box.height;
    TextStyle style = ink(PngLayout::kLabelSize);
    style.horizontal = labels.tokens ? Horizontal::Right : Horizontal::Centre;
    style.vertical = labels.tokens ? Vertical::Middle : Vertical::Top;
    style.degrees = labels.tokens ? PngLayout::kSlant : 0.0;
    if (labels.tokens) style.most_width = PngLayout::kMostLabel;
    for (std::int64_t key = 0; key < shown_.keys; key += labels.step) {
      const Point place{box.x + layout_.columns.middle(key), bottom + (labels.tokens ? 7.0 : 5.0)};
      canvas_.text(place, labels.tokens ? shown_.key_label(key) : std::to_string(key), style);
    }
    TextStyle title = faint(12.0);
    title.horizontal = Horizontal::Centre;
    canvas_.text({box.x + box.width / 2.0, bottom + labels.room}, "key", title);
  }

  // Positions are named where they are round, whatever row is the first.
  static std::int64_t first_labelled(std::int64_t first_position, const AxisLabels& labels) {
    if (labels.tokens) return 0;
    return (labels.step - first_position % labels.step) % labels.step;
  }

  void draw_scale() {
    const Box first = layout_.cells(0);
    const auto heads = static_cast<std::int64_t>(shown_.heads.size());
    const Box last = layout_.cells((heads - 1) / layout_.beside * layout_.beside);
    const double grid = last.y + last.height - first.y;
    const Box box{first.x + static_cast<double>(layout_.beside) * layout_.pitch() + 4.0, first.y,
                  14.0, std::clamp(grid, 60.0, 320.0)};
    Pixels pixels{1, 256, {}};
    pixels.values.assign(map_.rbegin(), map_.rend());
    canvas_.image(box, pixels);
    canvas_.outline(box, colours_.line, 1.0);
    canvas_.text({box.x, box.y - 19.0}, "weight", faint(11.0));

    const auto largest = static_cast<double>(shown_.largest);
    const double smallest = scale_weight(options_.scale, 0.0, largest);
    const bool logarithmic = options_.scale == ColourScale::Logarithmic && largest > 0.0;
    auto ticks =
        logarithmic ? logarithmic_ticks({smallest, largest}, 5) : linear_ticks({0.0, largest}, 5);
    ticks.push_back(largest);
    std::reverse(ticks.begin(), ticks.end());  // the largest comes first: others make room for it
    TextStyle number = ink(11.0);
    number.vertical = Vertical::Middle;
    double before = -kTickDistance;
    for (const double tick : ticks) {
      const double down = box.height * (1.0 - scale_place(options_.scale, tick, largest));
      if (down - before < kTickDistance) continue;
      const double y = box.y + down;
      canvas_.line({box.x + box.width, y}, {box.x + box.width + 4.0, y}, colours_.faint, 1.0);
      canvas_.text({box.x + box.width + 8.0, y}, short_text(tick), number);
      before = down;
    }
  }

  const ShownHeads& shown_;
  const PngOptions& options_;
  PngLayout layout_;
  const ThemeColours& colours_;
  const ColourMap& map_;
  Canvas canvas_;
  std::vector<std::string> summaries_;
};

}  // namespace
}  // namespace view

std::string draw_png(const AttentionPicture& picture, const PngOptions& options) {
  const view::ShownHeads shown = view::shown_heads("draw_png", picture);
  return view::HeadsDrawing(shown, options).png();
}

}  // namespace headwise
