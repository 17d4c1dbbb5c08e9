// A sheet of pixels to draw on: Cairo's surface and Pango's text behind a few plain functions.
// Distances are pixels, y grows downwards.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "view/theme.h"

namespace headwise::view {

struct Point {
  double x = 0.0;
  double y = 0.0;
};

struct Box {
  double x = 0.0;
  double y = 0.0;
  double width = 0.0;
  double height = 0.0;
};

enum class Horizontal { Left, Centre, Right };
enum class Vertical { Top, Middle, Bottom };

struct TextStyle {
  double size = 12.0;  // of the letters, pixels
  Colour colour = {};
  bool bold = false;
  // Which point of the text lies at the place given.
  Horizontal horizontal = Horizontal::Left;
  Vertical vertical = Vertical::Top;
  double degrees = 0.0;     // turned about that point, counter-clockwise
  double most_width = 0.0;  // longer text ends in "…"; 0: any width
};

// 8 bits each of red, green and blue, rows from the top.
struct Pixels {
  std::int64_t width = 0;
  std::int64_t height = 0;
  std::vector<std::uint32_t> values;  // 0x00RRGGBB
};

class Canvas {
 public:
  static constexpr std::int64_t kMostPixels = 100'000'000;  // what a picture may have: 400 MB

  // Throws OutOfMemory. The sizes are within what Cairo takes, 32767 each.
  Canvas(std::int64_t width, std::int64_t height, const Colour& paper);
  ~Canvas();
  Canvas(Canvas&&) noexcept;
  Canvas& operator=(Canvas&&) noexcept;

  void fill(const Box& box, const Colour& colour);
  void outline(const Box& box, const Colour& colour, double width);
  void line(const Point& from, const Point& to, const Colour& colour, double width);
  void polyline(std::span<const Point> points, const LineStyle& style, double width);
  void dot(const Point& centre, double radius, const Colour& colour);
  // Stretched to the box without smoothing: every number keeps its edges.
  void image(const Box& box, const Pixels& pixels);

  // One line of text. Any bytes: it is made printable first. Turned text keeps its own direction.
  void text(const Point& place, const std::string& text, const TextStyle& style);
  // Width and height of that line before it is turned.
  [[nodiscard]] Box text_box(const std::string& text, const TextStyle& style) const;

  // The first text that was drawn with boxes in place of characters which no font has; or "".
  [[nodiscard]] const std::string& without_font() const;

  // Between them nothing is drawn outside of the box.
  void clip(const Box& box);
  void unclip();

  [[nodiscard]] std::string png() const;  // a whole file

 private:
  struct Handles;
  std::unique_ptr<Handles> handles_;
};

}  // namespace headwise::view
