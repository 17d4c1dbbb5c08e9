#include "view/canvas.h"

#include <pango/pangocairo.h>

#include <algorithm>
#include <cstddef>
#include <numbers>
#include <utility>

#include "headwise/error.h"
#include "view/printable.h"

namespace headwise::view {

namespace {

template <auto release>
struct Release {
  template <typename T>
  void operator()(T* handle) const noexcept {
    release(handle);
  }
};
using Surface = std::unique_ptr<cairo_surface_t, Release<cairo_surface_destroy>>;
using Context = std::unique_ptr<cairo_t, Release<cairo_destroy>>;
using Layout = std::unique_ptr<PangoLayout, Release<g_object_unref>>;
using Font = std::unique_ptr<PangoFontDescription, Release<pango_font_description_free>>;
using FontOptions = std::unique_ptr<cairo_font_options_t, Release<cairo_font_options_destroy>>;

Surface make_surface(std::int64_t width, std::int64_t height) {
  Surface surface(cairo_image_surface_create(CAIRO_FORMAT_RGB24, static_cast<int>(width),
                                             static_cast<int>(height)));
  if (cairo_surface_status(surface.get()) != CAIRO_STATUS_SUCCESS) {
    throw OutOfMemory(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 4);
  }
  return surface;
}

cairo_status_t append_bytes(void* target, const unsigned char* bytes, unsigned int count) {
  // Called from C, which must see no exception.
  try {
    static_cast<std::string*>(target)->append(reinterpret_cast<const char*>(bytes), count);
  } catch (const std::bad_alloc&) {
    return CAIRO_STATUS_NO_MEMORY;
  }
  return CAIRO_STATUS_SUCCESS;
}

double aligned(Horizontal side, double width) {
  return side == Horizontal::Left ? 0.0 : side == Horizontal::Centre ? width / 2.0 : width;
}

double aligned(Vertical side, double height) {
  return side == Vertical::Top ? 0.0 : side == Vertical::Middle ? height / 2.0 : height;
}

}  // namespace

struct Canvas::Handles {
  Surface surface;
  Context context;
  Layout layout;  // one for all texts: making it is the expensive part
  std::string without_font;

  void set_colour(const Colour& colour) const {
    cairo_set_source_rgb(context.get(), colour.red, colour.green, colour.blue);
  }

  // Prepares the layout; the rectangle of the text within it.
  [[nodiscard]] PangoRectangle lay_out(const std::string& text, const TextStyle& style) const {
    const Font font(pango_font_description_new());
    pango_font_description_set_family_static(font.get(), "sans");
    pango_font_description_set_absolute_size(font.get(), style.size * PANGO_SCALE);
    if (style.bold) pango_font_description_set_weight(font.get(), PANGO_WEIGHT_BOLD);
    pango_layout_set_font_description(layout.get(), font.get());
    const bool limited = style.most_width > 0.0;
    pango_layout_set_width(layout.get(),
                           limited ? static_cast<int>(style.most_width * PANGO_SCALE) : -1);
    pango_layout_set_ellipsize(layout.get(), limited ? PANGO_ELLIPSIZE_END : PANGO_ELLIPSIZE_NONE);
    const std::string shown = printable(text, 2000);
    pango_layout_set_text(layout.get(), shown.data(), static_cast<int>(shown.size()));
    PangoRectangle logical{};
    pango_layout_get_extents(layout.get(), nullptr, &logical);
    return logical;
  }
};

Canvas::Canvas(std::int64_t width, std::int64_t height, const Colour& paper)
    : handles_(std::make_unique<Handles>()) {
  handles_->surface = make_surface(width, height);
  handles_->context.reset(cairo_create(handles_->surface.get()));
  // Grey edges and unrounded widths: the same picture on every screen.
  const FontOptions options(cairo_font_options_create());
  cairo_font_options_set_antialias(options.get(), CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_style(options.get(), CAIRO_HINT_STYLE_NONE);
  cairo_font_options_set_hint_metrics(options.get(), CAIRO_HINT_METRICS_OFF);
  cairo_set_font_options(handles_->context.get(), options.get());
  handles_->layout.reset(pango_cairo_create_layout(handles_->context.get()));
  pango_layout_set_single_paragraph_mode(handles_->layout.get(), TRUE);
  handles_->set_colour(paper);
  cairo_paint(handles_->context.get());
}

Canvas::~Canvas() = default;
Canvas::Canvas(Canvas&&) noexcept = default;
Canvas& Canvas::operator=(Canvas&&) noexcept = default;

void Canvas::fill(const Box& box, const Colour& colour) {
  handles_->set_colour(colour);
  cairo_rectangle(handles_->context.get(), box.x, box.y, box.width, box.height);
  cairo_fill(handles_->context.get());
}

void Canvas::outline(const Box& box, const Colour& colour, double width) {
  // Outside of the box, whose own pixels stay as they are.
  cairo_t* context = handles_->context.get();
  handles_->set_colour(colour);
  cairo_set_line_width(context, width);
  cairo_rectangle(context, box.x - width / 2.0, box.y - width / 2.0, box.width + width,
                  box.height + width);
  cairo_stroke(context);
}

void Canvas::line(const Point& from, const Point& to, const Colour& colour, double width) {
  const Point points[] = {from, to};
  polyline(points, {.colour = colour}, width);
}

void Canvas::polyline(std::span<const Point> points, const LineStyle& style, double width) {
  constexpr double kDashes[][2] = {{0.0, 0.0}, {5.5, 2.5}, {1.5, 2.0}};  // drawn, left out
  cairo_t* context = handles_->context.get();
  handles_->set_colour(style.colour);
  cairo_set_dash(context, kDashes[static_cast<std::size_t>(style.dash)],
                 style.dash == Dash::None ? 0 : 2, 0.0);
  cairo_set_line_width(context, width);
  cairo_set_line_join(context, CAIRO_LINE_JOIN_ROUND);
  for (const Point& point : points) cairo_line_to(context, point.x, point.y);
  cairo_stroke(context);
  cairo_set_dash(context, nullptr, 0, 0.0);
}

void Canvas::dot(const Point& centre, double radius, const Colour& colour) {
  handles_->set_colour(colour);
  cairo_arc(handles_->context.get(), centre.x, centre.y, radius, 0.0, 2.0 * std::numbers::pi);
  cairo_fill(handles_->context.get());
}

void Canvas::image(const Box& box, const Pixels& pixels) {
  if (pixels.width == 0 || pixels.height == 0) return;
  const Surface source = make_surface(pixels.width, pixels.height);
  unsigned char* rows = cairo_image_surface_get_data(source.get());
  const std::int64_t stride = cairo_image_surface_get_stride(source.get());
  cairo_surface_flush(source.get());
  for (std::int64_t y = 0; y < pixels.height; ++y) {
    const auto* from = pixels.values.data() + y * pixels.width;
    std::copy_n(reinterpret_cast<const unsigned char*>(from), pixels.width * 4, rows + y * stride);
  }
  cairo_surface_mark_dirty(source.get());

  cairo_t* context = handles_->context.get();
  cairo_save(context);
  cairo_rectangle(context, box.x, box.y, box.width, box.height);
  cairo_clip(context);
  cairo_translate(context, box.x, box.y);
  cairo_scale(context, box.width / static_cast<double>(pixels.width),
              box.height / static_cast<double>(pixels.height));
  cairo_set_source_surface(context, source.get(), 0.0, 0.0);
  cairo_pattern_set_filter(cairo_get_source(context), CAIRO_FILTER_NEAREST);
  cairo_paint(context);
  cairo_restore(context);
}

void Canvas::text(const Point& place, const std::string& text, const TextStyle& style) {
  const PangoRectangle logical = handles_->lay_out(text, style);
  if (handles_->without_font.empty() &&
      pango_layout_get_unknown_glyphs_count(handles_->layout.get()) > 0) {
    handles_->without_font = text;
  }
  const double width = static_cast<double>(logical.width) / PANGO_SCALE;
  const double height = static_cast<double>(logical.height) / PANGO_SCALE;
  // A right-to-left line begins at the far end of a limited width.
  const double shift = static_cast<double>(logical.x) / PANGO_SCALE;

  cairo_t* context = handles_->context.get();
  cairo_save(context);
  handles_->set_colour(style.colour);
  cairo_translate(context, place.x, place.y);
  cairo_rotate(context, -style.degrees * std::numbers::pi / 180.0);
  cairo_move_to(context, -aligned(style.horizontal, width) - shift,
                -aligned(style.vertical, height));
  pango_cairo_update_layout(context, handles_->layout.get());
  pango_cairo_show_layout(context, handles_->layout.get());
  cairo_new_path(context);  // the place would be the first point of the next line
  cairo_restore(context);
}

Box Canvas::text_box(const std::string& text, const TextStyle& style) const {
  const PangoRectangle logical = handles_->lay_out(text, style);
  return {.width = static_cast<double>(logical.width) / PANGO_SCALE,
          .height = static_cast<double>(logical.height) / PANGO_SCALE};
}

const std::string& Canvas::without_font() const { return handles_->without_font; }

void Canvas::clip(const Box& box) {
  cairo_save(handles_->context.get());
  cairo_rectangle(handles_->context.get(), box.x, box.y, box.width, box.height);
  cairo_clip(handles_->context.get());
}

void Canvas::unclip() { cairo_restore(handles_->context.get()); }

std::string Canvas::png() const {
  std::string bytes;
  cairo_surface_flush(handles_->surface.get());
  if (cairo_surface_write_to_png_stream(handles_->surface.get(), append_bytes, &bytes) !=
      CAIRO_STATUS_SUCCESS) {
    throw OutOfMemory(bytes.size());
  }
  return bytes;
}

}  // namespace headwise::view
