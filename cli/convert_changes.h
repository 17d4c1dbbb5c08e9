// What headwise convert may change of a layer on its way: a map folded in, smaller heads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "headwise/layouts.h"

namespace headwise::cli {

struct ConvertChanges {
  std::optional<std::int64_t> key_dim = {};
  Tensor map = {};    // empty: none
  Tensor shift = {};  // empty: none
  std::vector<Projection> fold_into = {};

  [[nodiscard]] bool any() const { return key_dim || map.size() > 0; }
};

// "query,value". Throws UsageError.
std::vector<Projection> projections(const std::string& option, const std::string& text);

struct ChangedLayer {
  LayerParts parts;
  LayerDifference difference;             // from the old layer, on random input
  double fold_error = 0.0;                // of the output, by the map alone
  std::vector<double> score_errors = {};  // of each head, by refactor_key_dim

  // Why it must not take the old layer's place; empty: it may. A folded map changes no more than
  // rounding does, smaller heads as much as they do, and neither may make numbers that are none.
  [[nodiscard]] std::string problem() const;
};

// `default_scale`: the layout knows no other scale than 1/√key_dim.
ChangedLayer changed(const LayerParts& layer, const ConvertChanges& changes, bool default_scale);

}  // namespace headwise::cli
