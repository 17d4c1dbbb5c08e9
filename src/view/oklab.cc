#include "view/oklab.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headwise::view {

namespace {

struct LinearRgb {
  double red;
  double green;
  double blue;
};

LinearRgb to_linear(const Oklch& colour) {
  const double angle = colour.hue * std::numbers::pi / 180.0;
  const double a = colour.chroma * std::cos(angle);
  const double b = colour.chroma * std::sin(angle);
  const double l = std::pow(colour.lightness + 0.3963377774 * a + 0.2158037573 * b, 3);
  const double m = std::pow(colour.lightness - 0.1055613458 * a - 0.0638541728 * b, 3);
  const double s = std::pow(colour.lightness - 0.0894841775 * a - 1.2914855480 * b, 3);
  return {4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
          -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
          -0.0041960863 * l - 0.7034186147 * m + 1.7076147010 * s};
}

bool displayable(const LinearRgb& c) {
  constexpr double kSlack = 1e-6;
  const auto inside = [](double x) { return x >= -kSlack && x <= 1.0 + kSlack; };
  return inside(c.red) && inside(c.green) && inside(c.blue);
}

double gamma(double x) {
  x = std::clamp(x, 0.0, 1.0);
  return x <= 0.0031308 ? 12.92 * x : 1.055 * std::pow(x, 1.0 / 2.4) - 0.055;
}

}  // namespace

Colour to_srgb(const Oklch& colour) {
  LinearRgb linear = to_linear(colour);
  if (!displayable(linear)) {
    double low = 0.0;
    double high = colour.chroma;
    for (int step = 0; step < 24; ++step) {
      const double middle = (low + high) / 2.0;
      (displayable(to_linear({colour.lightness, middle, colour.hue})) ? low : high) = middle;
    }
    linear = to_linear({colour.lightness, low, colour.hue});
  }
  return {gamma(linear.red), gamma(linear.green), gamma(linear.blue)};
}

}  // namespace headwise::view
