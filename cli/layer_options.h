// The layer a command works on: from a file, or with random weights of the sizes asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/layouts.h"
#include "headwise/transforms.h"

namespace CLI {
class App;
}

namespace headwise::cli {

struct LayerOptions {
  std::string weights = {};  // a file; empty: random weights
  std::string layer = {};
  std::optional<std::int64_t> heads = {};
  std::optional<std::int64_t> kv_heads = {};
  std::optional<std::int64_t> key_dim = {};
  std::optional<std::int64_t> value_dim = {};
  std::optional<std::int64_t> output_features = {};
  bool no_bias = false;
  bool gate = false;
  std::uint64_t seed = 0;

  // What the sizes say to a file that does not tell its heads.
  [[nodiscard]] LayerHints hints() const;
};

void declare_layer_options(CLI::App& command, LayerOptions& options);

// Feature sizes of the inputs, where they are known already.
struct InputFeatures {
  std::optional<std::int64_t> query = {};
  std::optional<std::int64_t> key = {};
  std::optional<std::int64_t> value = {};
};

struct ChosenLayer {
  LayerParts parts;
  std::string title;               // where it comes from
  std::string heading;             // the same without the folders: for a picture
  std::vector<std::string> notes;  // what its model does that is not in the weights
};

// Random weights need the features of the inputs; throws UsageError where something is missing or
// contradicts the file.
ChosenLayer choose_layer(const LayerOptions& options, const InputFeatures& features);

}  // namespace headwise::cli
