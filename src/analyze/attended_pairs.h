// How many pairs of a query and a key a mask leaves.
#pragma once

#include <cstdint>

#include "analyze/count.h"
#include "headwise/cost.h"

namespace headwise::analyze {

// Over all sequences and heads.
struct AttendedPairs {
  Count attended;
  Count in_ranges;  // that positions and lengths leave
  Count cut_ends;   // see LayerCost
};

// Checks the mask as a real call would. In closed form, except for arrays with a number or truth
// value for every query: those are read.
AttendedPairs count_pairs(const AttentionConfig& config, const LayerCall& call);

}  // namespace headwise::analyze
