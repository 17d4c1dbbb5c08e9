// What each file of bindings adds to the module headwise._core, in the order module.cc calls them:
// signatures in the documentation name only types that are already there.
#pragma once

#include "casters.h"

namespace headwise::python {

void bind_errors(nb::module_& module);
void bind_context(nb::module_& module);
void bind_config(nb::module_& module);
void bind_weights(nb::module_& module);
void bind_masks(nb::module_& module);
void bind_options(nb::module_& module);
void bind_results(nb::module_& module);
void bind_attention(nb::module_& module);
void bind_layer(nb::module_& module);
void bind_linear(nb::module_& module);
void bind_presets(nb::module_& module);
void bind_transforms(nb::module_& module);
void bind_layouts(nb::module_& module);
void bind_machine(nb::module_& module);
void bind_cost(nb::module_& module);
void bind_spectra(nb::module_& module);
void bind_overhead(nb::module_& module);
void bind_watch(nb::module_& module);

}  // namespace headwise::python
