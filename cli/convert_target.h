// The file that headwise convert writes: its container, its layout, and the check before it is put in
// place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "headwise/layouts.h"

namespace headwise::cli {

enum class Container { Safetensors, Npz, KerasWeights, KerasModel };

std::string extension_of(Container container);

struct ConvertTarget {
  std::string path;
  Container container;
  WeightLayout layout;

  // What a layer of that name is called in it: a Keras model has no layer without a name.
  [[nodiscard]] std::string name_for(const std::string& name) const;
};

// Whether its shapes show the heads.
bool tells_heads(WeightLayout layout);

// By the extension of `path`. Throws UsageError for one that is not known, and for a layout that the
// container does not hold.
ConvertTarget convert_target(const std::string& path, const std::string& layout);

// The layers as they will stand in the file. Throws UsageError that names the layer which the layout
// or the container cannot hold, and why.
StoredLayer stored_as(const ConvertTarget& target, const std::vector<NamedLayer>& layers);

// The file is put in place if every layer, read back from it and run beside the one that it was made
// from on random input (2, 16, features), gives the same bits; std::runtime_error otherwise.
void write(const ConvertTarget& target, const StoredLayer& stored,
           const std::vector<NamedLayer>& layers);

}  // namespace headwise::cli
