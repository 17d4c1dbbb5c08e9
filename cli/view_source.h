// The attention weights that view shows: from a file, or of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "call_options.h"
#include "headwise/tensor.h"
#include "headwise/view.h"

namespace headwise::cli {

struct ViewSourceOptions {
  std::string file = {};   // npy, npz, safetensors, "-"; empty: a run
  std::string array = {};  // of a file with several
  CallOptions call = {};
  std::string tokens = {};
  std::string key_tokens = {};
  std::int64_t sequence = 0;
  std::vector<std::int64_t> heads = {};  // empty: all
  std::int64_t first_row = 0;
  std::optional<std::int64_t> end_row = {};
  std::string title = {};
};

// Owns what its picture looks at.
struct ViewSource {
  Tensor weights = {};
  AttentionPicture picture = {};
  std::string name = {};                // for messages
  std::vector<std::string> notes = {};  // what the layer's model does that the weights do not show
};

// Throws UsageError, FileError, or what the run throws.
ViewSource view_source(const ViewSourceOptions& options);

}  // namespace headwise::cli
