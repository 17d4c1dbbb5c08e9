// The yardstick for what a call from Python costs beyond C++; see python/headwise/overhead.py.
#include <chrono>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "headwise/layer.h"
#include "types.h"

namespace headwise::python {

namespace {

double time_forward(const MultiHeadAttention& layer, FloatsGiven query, int calls,
                    ContextGiven context) {
  using Clock = std::chrono::steady_clock;
  const Borrowed<const float> q(query, {"time_forward", "query"});
  Context* const used = context_of(context, "time_forward");
  return without_gil([&] {
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < calls; ++i) (void)layer.forward({q.view()}, {.context = used});
    return std::chrono::duration<double>(Clock::now() - begin).count();
  });
}

constexpr const char* kDoc =
    R"(Seconds that this many calls of forward take in C++, for headwise.overhead.)";

}  // namespace

void bind_overhead(nb::module_& module) {
  using nb::arg;
  module.def("time_forward", &time_forward, arg("layer"), arg("query"), arg("calls"),
             arg("context") = nb::none(), kDoc);
}

}  // namespace headwise::python
