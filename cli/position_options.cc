#include "position_options.h"

#include <CLI/CLI.hpp>
#include <string>

#include "option_checks.h"
#include "usage_error.h"
#include "values.h"

namespace headwise::cli {

namespace {

Mask positions_of(const PositionOptions& options) {
  if (!options.align.empty() && options.query_offset) {
    throw UsageError("--align and --query-offset say the same: give one of them");
  }
  if (options.query_offset) return query_offset(*options.query_offset);
  if (options.align.empty()) return {};
  return aligned(options.align == "top-left" ? Alignment::TopLeft : Alignment::BottomRight);
}

}  // namespace

Mask PositionOptions::mask(std::int64_t queries, std::int64_t keys) const {
  const bool placed = !align.empty() || query_offset;
  if ((causal || !window.empty()) && !placed && queries != keys) {
    throw UsageError("--causal and --window: where do " + std::to_string(queries) +
                     " queries stand among " + std::to_string(keys) +
                     " keys? Give --align top-left, --align bottom-right or --query-offset N");
  }
  Mask mask = positions_of(*this);
  if (causal) mask = mask & headwise::causal();
  if (!valid_lens.empty()) mask = mask & valid_lengths(integers("--valid-lens", valid_lens));
  if (!window.empty()) {
    const auto [left, right] = window_of("--window", window);
    mask = mask & headwise::window(left, right);
  }
  return mask;
}

void declare_position_options(CLI::App& command, PositionOptions& options, const char* group) {
  const auto text = [&](const char* name, std::string& value, const char* type,
                        const char* meaning) {
    return command.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31U;  // of the library
  command.add_flag("--causal", options.causal, "no query sees a later key")->group(group);
  text("--align", options.align, "WHERE",
       "top-left or bottom-right: which corner queries and keys share if T ≠ S; bottom-right: the "
       "last query stands at the last key, with --valid-lens at the last valid one")
      ->check(one_of({"top-left", "bottom-right"}));
  command
      .add_option("--query-offset", options.query_offset,
                  "the same as a number: position of query 0")
      ->type_name("N")
      ->group(group)
      ->check(whole_number(-kFarthest, kFarthest));
  text("--valid-lens", options.valid_lens, "N,N,…", "keys that are there, one number a sequence");
  text("--window", options.window, "L,R", "keys on either side of a query's position; inf: all");
}

}  // namespace headwise::cli
