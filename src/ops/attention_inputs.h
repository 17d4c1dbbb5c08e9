// Inputs as the caller means them.
#pragma once

#include "headwise/attention.h"

namespace headwise::ops {

// A key that was not given is the query, a value that was not given the key.
inline AttentionInputs with_defaults(AttentionInputs inputs) {
  if (!inputs.key.present()) inputs.key = inputs.query;
  if (!inputs.value.present()) inputs.value = inputs.key;
  return inputs;
}

}  // namespace headwise::ops
