#include "view/colour_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

#include "view/oklab.h"

namespace headwise::view {

namespace {

constexpr double kDecades = 4.0;  // that the logarithmic scale shows

std::uint32_t packed(const Colour& colour) {
  const auto byte = [](double x) { return static_cast<std::uint32_t>(std::lround(x * 255.0)); };
  return byte(colour.red) << 16U | byte(colour.green) << 8U | byte(colour.blue);
}

template <typename At>
ColourMap map_of(const At& at) {
  ColourMap map{};
  for (std::size_t i = 0; i < map.size(); ++i) {
    map[i] = packed(to_srgb(at(static_cast<double>(i) / 255.0)));
  }
  return map;
}

}  // namespace

const ColourMap& colour_map(Theme theme) {
  // White, through pale and clear blue, to indigo.
  static const ColourMap kLight = map_of([](double t) {
    return Oklch{1.0 - 0.71 * t, 0.155 * std::sin(std::numbers::pi * std::pow(t, 1.1) * 0.78),
                 195.0 + 88.0 * std::pow(t, 0.8)};
  });
  // Night blue, through violet and red, to pale yellow.
  static const ColourMap kDark = map_of([](double t) {
    return Oklch{0.19 + 0.77 * t,
                 0.015 + 0.185 * std::sin(std::numbers::pi * std::pow(t, 0.8) * 0.90),
                 285.0 + 175.0 * t};
  });
  return theme == Theme::Light ? kLight : kDark;
}

double scale_place(ColourScale scale, double weight, double largest) {
  const double share = largest > 0.0 ? std::clamp(weight / largest, 0.0, 1.0) : 0.0;
  switch (scale) {
    case ColourScale::Linear:
      return share;
    case ColourScale::SquareRoot:
      return std::sqrt(share);
    case ColourScale::Logarithmic:
      return share > 0.0 ? std::max(0.0, 1.0 + std::log10(share) / kDecades) : 0.0;
  }
  return share;
}

double scale_weight(ColourScale scale, double place, double largest) {
  switch (scale) {
    case ColourScale::Linear:
      return place * largest;
    case ColourScale::SquareRoot:
      return place * place * largest;
    case ColourScale::Logarithmic:
      return std::pow(10.0, (place - 1.0) * kDecades) * largest;
  }
  return place * largest;
}

const char* scale_name(ColourScale scale) {
  switch (scale) {
    case ColourScale::Linear:
      return "linear scale";
    case ColourScale::SquareRoot:
      return "square-root scale";
    case ColourScale::Logarithmic:
      return "logarithmic scale";
  }
  return "";
}

}  // namespace headwise::view
