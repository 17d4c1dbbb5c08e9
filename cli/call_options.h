// One call of a layer as run and view make it: the layer, its inputs, masks and biases, threads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/context.h"
#include "headwise/layer.h"
#include "layer_options.h"
#include "position_options.h"

namespace CLI {
class App;
}

namespace headwise::cli {

struct CallOptions {
  LayerOptions layer = {};
  std::string input = {};  // npy files, or "-"
  std::string query = {};
  std::string key = {};
  std::string value = {};
  std::string shape = {};                 // of a random query: "B,T[,features]"
  std::optional<std::int64_t> keys = {};  // of random keys and values
  PositionOptions positions = {};
  std::string mask = {};
  std::string mask_axes = {};
  std::string bias = {};
  std::string bias_axes = {};
  std::optional<int> threads = {};
  std::string target = {};
};

void declare_call_options(CLI::App& command, CallOptions& options);

// Those of them that stand on the command line: "--weights", "--causal".
std::vector<std::string> given_call_options(const CLI::App& command);

struct Call {
  ChosenLayer layer = {};
  Tensor query = {};
  std::optional<Tensor> key = {};    // nullopt: the query itself
  std::optional<Tensor> value = {};  // nullopt: the key
  bool random_input = false;
  ForwardOptions options = {};  // mask and biases; they own what they look at
  int threads = 1;
  std::string target = {};  // empty: nobody asked for one

  [[nodiscard]] AttentionInputs inputs() const;
  [[nodiscard]] Context context() const;
};

// Reads the files. Throws UsageError or FileError.
Call make_call(const CallOptions& options);

}  // namespace headwise::cli
