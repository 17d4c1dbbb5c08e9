// Stored layers in memory, and what is found in them.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "headwise/layouts.h"

namespace headwise::test_layouts {

inline constexpr WeightLayout kAllLayouts[] = {
    WeightLayout::Headwise, WeightLayout::Keras, WeightLayout::Torch, WeightLayout::Flax,
    WeightLayout::D2l,      WeightLayout::Bert,  WeightLayout::Llama, WeightLayout::Gpt2};

inline std::vector<NamedShape> shapes_of(const TensorMap& tensors) {
  std::vector<NamedShape> shapes;
  for (const auto& [name, tensor] : tensors) shapes.push_back({name, tensor.shape()});
  return shapes;
}

inline std::vector<FoundLayer> find_in(const StoredLayer& stored, const LayerHints& hints = {}) {
  return find_layers(shapes_of(stored.tensors), stored.metadata, hints);
}

inline LayerParts read_from(const StoredLayer& stored, const FoundLayer& layer) {
  return read_layer(layer, [&](const std::string& name) { return stored.tensors.at(name); });
}

// The configurations compute the same; dropout and seed are no part of that.
::testing::AssertionResult same_function(const AttentionConfig& a, const AttentionConfig& b);

// A layer with a value of its own in every place of every tensor, so that no mix-up goes unseen.
LayerParts numbered_layer(const AttentionConfig& config);

// Random sizes and options, often such that several layouts can hold them.
AttentionConfig random_config(std::uint64_t seed);

// nullopt: the layout cannot hold it.
std::optional<StoredLayer> try_write(const LayerParts& layer, WeightLayout layout,
                                     const std::string& name = "");

}  // namespace headwise::test_layouts
