// The cases of attention() whose errors are published.
#pragma once

#include <string>
#include <vector>

#include "accuracy/plain_attention.h"
#include "accuracy/table.h"

namespace headwise::accuracy {

enum class Inputs {
  Normal,        // queries, keys and values normal, times `deviation`
  NearlyOneHot,  // every query is a key's multiple: its weight is nearly 1
  Constant,      // all keys alike: all weights are equal
};

struct OpAccuracyCase {
  std::string name;
  HeadSizes sizes;
  bool causal = false;
  std::int64_t window = -1;  // keys on either side; −1: all
  bool bias = false;         // (Hq,T,S)
  Inputs inputs = Inputs::Normal;
  float deviation = 1.0F;
  float lead = 0.0F;  // NearlyOneHot: by how much its score is about the largest
  // Where a weight is 1 to the last bit, the naive run is exact: it returns the value itself, and
  // subtracts from dP that very dP. Ours rounds (the weight before division is not 1, ΣP·dP comes
  // from the output), so its errors are some roundings, and the naive ones nearly none.
  bool held = true;
};

std::vector<OpAccuracyCase> op_accuracy_cases();

// "output", "dQ", "dK", "dV", over some draws of the inputs.
std::vector<Row> measure(const OpAccuracyCase& c);

}  // namespace headwise::accuracy
