// headwise._core: the C++ library under the same names. The package in python/headwise passes them on.
//
//   numpy, torch, jax … ──arrays.h──► views ──► headwise (without the GIL) ──► tensors ──► numpy
#include "bindings.h"
#include "headwise/version.h"
#include "refusals.h"

#define HEADWISE_TEXT_OF(number) #number
#define HEADWISE_VERSION_TEXT(major, minor, patch) \
  HEADWISE_TEXT_OF(major) "." HEADWISE_TEXT_OF(minor) "." HEADWISE_TEXT_OF(patch)

NB_MODULE(_core, module) {
  using namespace headwise::python;
  // A framework that keeps a layer until the interpreter ends is no fault of ours to print.
  nb::set_leak_warnings(false);
  module.attr("__version__") =
      HEADWISE_VERSION_TEXT(HEADWISE_VERSION_MAJOR, HEADWISE_VERSION_MINOR, HEADWISE_VERSION_PATCH);
  bind_errors(module);
  bind_context(module);
  bind_config(module);
  bind_weights(module);
  bind_masks(module);
  bind_options(module);
  bind_results(module);
  bind_attention(module);
  bind_layer(module);
  bind_linear(module);
  bind_presets(module);
  bind_transforms(module);
  bind_layouts(module);
  bind_machine(module);
  bind_cost(module);
  bind_spectra(module);
  bind_overhead(module);
  bind_watch(module);
  refuse_in_our_words(module);
}
