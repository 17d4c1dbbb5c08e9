#include "layouts/own_hints.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace headwise::layouts {

namespace {

constexpr std::size_t kMostParts = 64;  // of a name; more are not worth the walk

std::vector<std::string_view> parts_of(std::string_view name) {
  std::vector<std::string_view> parts;
  while (parts.size() < kMostParts) {
    const std::size_t end = name.find_first_of("./");
    parts.push_back(name.substr(0, end));
    if (end == std::string_view::npos) break;
    name.remove_prefix(end + 1);
  }
  return parts;
}

// "vision*" is every part that begins so.
bool is_part(std::string_view part, std::string_view pattern) {
  if (!pattern.ends_with('*')) return part == pattern;
  return part.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_in(const std::vector<std::string_view>& parts, const LayerHints& tower) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return std::any_of(tower.names.begin(), tower.names.end(),
                       [&](const std::string& name) { return is_part(part, name); });
  });
}

}  // namespace

const LayerHints* own_hints(std::string_view layer_name, const LayerHints& hints) {
  if (hints.towers.empty()) return &hints;
  const std::vector<std::string_view> parts = parts_of(layer_name);
  for (const LayerHints& tower : hints.towers) {
    if (is_in(parts, tower)) return &tower;
  }
  return &hints;
}

std::optional<std::size_t> place_of(std::string_view layer_name) {
  std::optional<std::size_t> place;
  for (const std::string_view part : parts_of(layer_name)) {
    std::size_t number = 0;
    const char* begin = part.data();
    const char* end = begin + part.size();
    const auto [stop, error] = std::from_chars(begin, end, number);
    if (error == std::errc() && stop == end) place = number;
  }
  return place;
}

bool is_cross_attention(std::string_view layer_name) {
  const std::string_view own = layer_name.substr(layer_name.find_last_of("./") + 1);
  return own.starts_with("encoder_") || own.starts_with("cross");
}

}  // namespace headwise::layouts
