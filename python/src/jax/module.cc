// headwise.jax._handlers: the handlers as capsules, for jax.ffi.register_ffi_target.
#include <nanobind/nanobind.h>

#include <utility>

#include "contexts.h"
#include "handlers.h"

namespace nb = nanobind;

namespace headwise::jax {

namespace {

nb::dict handlers() {
  nb::dict handlers;
  for (const auto& [name, handler] :
       {std::pair{"headwise_attention", &attention_handler},
        std::pair{"headwise_attention_backward", &attention_backward_handler},
        std::pair{"headwise_linear", &linear_handler},
        std::pair{"headwise_linear_backward", &linear_backward_handler},
        std::pair{"headwise_sigmoid", &sigmoid_handler}}) {
    handlers[name] = nb::capsule(reinterpret_cast<void*>(handler));
  }
  return handlers;
}

}  // namespace

NB_MODULE(_handlers, module) {
  module.doc() =
      "Handlers of XLA's foreign function interface. headwise.jax has everything to use.";
  module.def("handlers", &handlers, "From names to functions, as capsules.");
  module.def("set_threads", &set_threads, nb::arg("threads"));
  module.def("threads", &threads);
}

}  // namespace headwise::jax
