// Masks and biases that keep alive what they look at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "headwise/mask.h"

namespace headwise::python {

// headwise.Mask.
struct MaskValue {
  Mask mask;
  std::vector<std::shared_ptr<const Borrowed<const bool>>> arrays;  // that `mask` looks at
  std::string text;                                                 // as Python would write it
};

// headwise.Bias.
struct BiasValue {
  std::shared_ptr<const Borrowed<const float>> array;
  std::optional<Axes> axes;
};

// How they compare, hash and pickle.
void bind_mask_value(nb::class_<MaskValue>& type);
void bind_bias_value(nb::class_<BiasValue>& type);

// The arguments `mask` and `bias` of a call. Views: the caller keeps the objects alive.
Mask mask_of(nb::handle mask, const char* function);
std::vector<Bias> biases_of(nb::handle bias, const char* function);

}  // namespace headwise::python
