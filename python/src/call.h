// What every call that computes does on its way to the library.
#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "casters.h"
#include "headwise/context.h"

namespace headwise::python {

// headwise.Context. Threads share contexts without Python objects: a thread that ends after the
// interpreter could not drop one.
struct ContextValue {
  std::shared_ptr<Context> context;
};

// The argument `context` of a call, or the calling thread's own. That is kept between calls, so that its threads
// stay alive and its scratch is used again; one for each Python thread, since a context serves one
// call at a time.
Context* context_of(nb::handle given, const char* function);

// Takes the GIL again. Never returns if the interpreter has ended meanwhile.
void take_gil(PyThreadState* state);

// Lets other Python threads run meanwhile. Nothing in `compute` may touch a Python object.
template <typename Compute>
auto without_gil(Compute compute) {
  std::optional<std::invoke_result_t<Compute>> result;
  std::exception_ptr thrown;
  PyThreadState* const state = PyEval_SaveThread();
  try {
    result.emplace(compute());
  } catch (...) {
    thrown = std::current_exception();
  }
  take_gil(state);
  if (thrown) std::rethrow_exception(thrown);
  return *std::move(result);
}

}  // namespace headwise::python
