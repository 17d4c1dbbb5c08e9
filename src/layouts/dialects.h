// The names under which libraries store a layer: one dialect for every set of names.
#pragma once

#include <string_view>
#include <vector>

#include "headwise/layouts.h"
#include "layer/stored_weights.h"

namespace headwise::layouts {

// In the tensors' names "/" and "." stand for either: both are separators, whatever the file.
struct Dialect {
  WeightLayout layout;
  std::vector<layer::StoredTensor> tensors;
};

// Whether two names differ in their separators at most.
bool same_name(std::string_view a, std::string_view b);

// The first dialect of a layout is the one that is written.
const std::vector<Dialect>& dialects();
const Dialect& written_dialect(WeightLayout layout);

// "attention_output/kernel" for the role and axes of a tensor; "attention_output/weight" if it is
// (out, in). The keys of FoundLayer::tensors.
std::string key_of(const layer::StoredTensor& stored);
// The other way: how a tensor of that key and rank is stored. Throws ArgumentError for other keys.
layer::StoredTensor stored_under_key(const std::string& key, int rank);

}  // namespace headwise::layouts
