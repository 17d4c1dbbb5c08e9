// A picture after its checks: what to draw, head by head. Everything behind it may assume sound
// shapes, weights within 0 … 1 and text that is printable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "headwise/view.h"

namespace headwise::view {

struct ShownHead {
  std::string name;
  ConstView weights;  // (queries, keys), the rows to show
};

struct ShownHeads {
  std::vector<ShownHead> heads;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  std::int64_t first_position = 0;        // of the first query, among the keys
  std::vector<std::string> query_tokens;  // of the rows shown; empty: none are known
  std::vector<std::string> key_tokens;
  std::string title;
  float largest = 0.0F;  // weight of all heads

  // The token, or the position where there is none.
  [[nodiscard]] std::string query_label(std::int64_t row) const;
  [[nodiscard]] std::string key_label(std::int64_t key) const;
  [[nodiscard]] std::int64_t position(std::int64_t row) const { return first_position + row; }
};

// Throws ArgumentError in the name of `function`.
ShownHeads shown_heads(std::string_view function, const AttentionPicture& picture);

}  // namespace headwise::view
