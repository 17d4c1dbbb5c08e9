// Weights are a dict here: "query/kernel" → array, as weight_fields() names and shapes them.
#pragma once

#include "arrays.h"
#include "headwise/config.h"
#include "headwise/weights.h"

namespace headwise::python {

// From a mapping: arrays of flat shape, or with heads as an axis of their own, as Keras has them.
// Copied, since a layer keeps its weights. Throws for names that this configuration does not have.
AttentionWeights weights_of(nb::handle mapping, const AttentionConfig& config,
                            const Argument& argument);

// A dict of arrays that own the tensors.
nb::dict to_dict(AttentionWeights&& weights);
// A dict of read-only arrays of weights that `owner` keeps.
nb::dict to_dict(const AttentionWeights& weights, nb::handle owner);

}  // namespace headwise::python
