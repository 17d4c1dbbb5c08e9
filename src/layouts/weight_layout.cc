#include <array>
#include <utility>

#include "headwise/layouts.h"

namespace headwise {

namespace {

constexpr std::array<std::pair<WeightLayout, std::string_view>, 8> kNames = {{
    {WeightLayout::Headwise, "headwise"},
    {WeightLayout::Keras, "keras"},
    {WeightLayout::Torch, "torch"},
    {WeightLayout::Flax, "flax"},
    {WeightLayout::D2l, "d2l"},
    {WeightLayout::Bert, "bert"},
    {WeightLayout::Llama, "llama"},
    {WeightLayout::Gpt2, "gpt2"},
}};

}  // namespace

std::string_view name_of(WeightLayout layout) {
  for (const auto& [candidate, name] : kNames) {
    if (candidate == layout) return name;
  }
  return "unknown";
}

std::optional<WeightLayout> weight_layout_named(std::string_view name) {
  for (const auto& [layout, candidate] : kNames) {
    if (candidate == name) return layout;
  }
  return std::nullopt;
}

}  // namespace headwise
