#include "position_options.h"

#include <CLI/CLI.hpp>

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
  if (options.align == "top-left") return aligned(Alignment::TopLeft);
  if (options.align == "bottom-right") return aligned(Alignment::BottomRight);
  throw UsageError("--align: expected top-left or bottom-right, got '" + options.align + "'");
}

}  // namespace

Mask PositionOptions::mask() const {
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
    command.add_option(name, value, meaning)->type_name(type)->group(group);
  };
  command.add_flag("--causal", options.causal, "no query sees a later key")->group(group);
  text("--align", options.align, "WHERE",
       "top-left or bottom-right: where query 0 stands if T ≠ S");
  command
      .add_option("--query-offset", options.query_offset,
                  "the same as a number: position of query 0")
      ->type_name("N")
      ->group(group);
  text("--valid-lens", options.valid_lens, "N,N,…", "keys that are there, one number a sequence");
  text("--window", options.window, "L,R", "keys on either side of a query's position; inf: all");
}

}  // namespace headwise::cli
