// Which keys a query sees by its position and by lengths: the masks that need no file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "headwise/mask.h"

namespace CLI {
class App;
}

namespace headwise::cli {

struct PositionOptions {
  bool causal = false;
  std::string align = {};
  std::optional<std::int64_t> query_offset = {};
  std::string valid_lens = {};
  std::string window = {};

  // For sequences of so many queries and keys. Throws UsageError.
  [[nodiscard]] Mask mask(std::int64_t queries, std::int64_t keys) const;
};

void declare_position_options(CLI::App& command, PositionOptions& options, const char* group);

}  // namespace headwise::cli
