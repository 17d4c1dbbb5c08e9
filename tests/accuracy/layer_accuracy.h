// The layers whose errors are published.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "accuracy/table.h"
#include "headwise/headwise.h"

namespace headwise::accuracy {

struct LayerAccuracyCase {
  std::string name;
  AttentionConfig config;
  Shape input;  // (B,S,D)
  bool causal = false;
  // Of inputs and weights. One error may be shared by many numbers, as that of Σ P·dP by a whole row
  // and so by all of a bias gradient: a single draw shows luck.
  std::uint64_t draws = 3;
};

std::vector<LayerAccuracyCase> layer_accuracy_cases();

// "layer output", the gradients of inputs, and that of every weight the layer has.
std::vector<Row> measure(const LayerAccuracyCase& c);

}  // namespace headwise::accuracy
