// Context, the default one of each thread, and CPU targets.
#include "headwise/context.h"

#include <memory>
#include <optional>
#include <string>

#include "bindings.h"
#include "call.h"
#include "options.h"
#include "types.h"
#include "values.h"

namespace headwise::python {

namespace {

std::shared_ptr<Context>& thread_context() {
  thread_local std::shared_ptr<Context> context;
  return context;
}

ContextValue default_context() {
  std::shared_ptr<Context>& context = thread_context();
  if (!context) context = std::make_shared<Context>();
  return {context};
}

ContextValue make_context(IntegerGiven threads_given, TextGiven target_given) {
  const auto threads = option_of<std::optional<int>>(threads_given, {"Context", "threads"});
  const auto target = option_of<std::optional<std::string>>(target_given, {"Context", "target"});
  if (target) return {std::make_shared<Context>(threads.value_or(Context().threads()), *target)};
  return {threads ? std::make_shared<Context>(*threads) : std::make_shared<Context>()};
}

std::string repr(const ContextValue& self) {
  return "Context(threads=" + std::to_string(self.context->threads()) + ", target='" +
         std::string(self.context->target()) + "')";
}

// An attribute of the context behind the Python object.
template <typename Result>
auto attribute(Result (Context::*get)() const noexcept) {
  return [get](const ContextValue& self) { return (*self.context.*get)(); };
}

constexpr const char* kContextDoc = R"(Threads and scratch memory, kept from call to call.

Calls without a context use default_context(), which is the calling thread's own. One call at a time
may use a context; a second one that arrives meanwhile gets an ArgumentError. Results do not depend on
the number of threads, bit for bit.

threads: 1 … 1024; None: as many as the process may use CPUs.
target: one of available_targets(); None: default_target().

>>> import headwise, numpy
>>> context = headwise.Context(threads=2)
>>> context.threads
2
>>> x = numpy.ones((1, 4, 2, 8), numpy.float32)
>>> headwise.attention(x, x, x, context=context).output.shape
(1, 4, 2, 8)
>>> context.last_call.threads_reason
'too little work to share'
)";

constexpr const char* kReportDoc = R"(How a call was carried out; str() of it reads as one line.

>>> import headwise, numpy
>>> x = numpy.ones((4, 2, 8), numpy.float32)
>>> _ = headwise.attention(x, x, x)
>>> report = headwise.default_context().last_call
>>> report.target == headwise.default_target()
True
)";

void bind_report(nb::module_& module) {
  nb::class_<CallReport>(module, "CallReport", kReportDoc)
      .def_ro("target", &CallReport::target, "Of the kernels.")
      .def_ro("target_reason", &CallReport::target_reason)
      .def_ro("attention", &CallReport::attention,
              "How K and V were read; empty if the call had no attention in it.")
      .def_ro("attention_reason", &CallReport::attention_reason)
      .def_ro("threads", &CallReport::threads, "That shared the work.")
      .def_ro("threads_reason", &CallReport::threads_reason)
      .def_ro("tile_rows", &CallReport::tile_rows, "Of the register tile.")
      .def_ro("tile_columns", &CallReport::tile_columns)
      .def("__str__", &CallReport::to_string)
      .def("__repr__",
           [](const CallReport& report) { return "CallReport(" + report.to_string() + ")"; });
}

}  // namespace

Context* context_of(nb::handle given, const char* function) {
  const auto* value = option_of<const ContextValue*>(given, {function, "context"});
  return (value != nullptr ? *value : default_context()).context.get();
}

void bind_context(nb::module_& module) {
  bind_report(module);
  nb::class_<ContextValue>(module, "Context", kContextDoc)
      .def(nb::new_(&make_context), nb::arg("threads") = nb::none(), nb::arg("target") = nb::none())
      .def_prop_ro("threads", attribute(&Context::threads))
      .def_prop_ro("target", attribute(&Context::target), "What its kernels were compiled for.")
      .def_prop_ro("scratch_bytes", attribute(&Context::scratch_bytes), "Held for the next call.")
      .def_prop_ro("recycled_bytes", attribute(&Context::recycled_bytes),
                   "Of results that are gone, held for the next ones of their sizes.")
      .def_prop_ro("last_call", attribute(&Context::last_call),
                   "Of the last call; empty before the first.")
      .def(
          "__eq__",
          [](const ContextValue& a, const ContextValue& b) { return a.context == b.context; },
          nb::is_operator(), nb::sig(kEqualSignature))
      .def("__hash__",
           [](const ContextValue& self) {
             return std::hash<std::shared_ptr<Context>>()(self.context);
           })
      .def("__repr__", &repr);
  module.def("default_context", &default_context, R"(The calling thread's own context.

>>> import headwise
>>> headwise.default_context() == headwise.default_context()
True
)");
  module.def(
      "set_default_context",
      [](ContextGiven context) {
        const auto* value =
            option_of<const ContextValue*>(context, {"set_default_context", "context"});
        thread_context() = value == nullptr ? nullptr : value->context;
      },
      nb::arg("context").none(), R"(Gives the calling thread another context; None: a new one.

>>> import headwise
>>> headwise.set_default_context(headwise.Context(threads=1))
>>> headwise.default_context().threads
1
>>> headwise.set_default_context(None)
)");
  module.def(
      "available_targets", &available_targets,
      R"(CPU targets that this machine can run, the best first. All but 'sse4', whose CPUs cannot
fuse a multiply-add, give the same bits.

>>> import headwise
>>> 'reference' in headwise.available_targets()
True
)");
  module.def(
      "default_target", &default_target,
      R"(The best target of this machine, or what the environment variable HEADWISE_TARGET names.

>>> import headwise
>>> headwise.default_target() in headwise.available_targets()
True
)");
}

}  // namespace headwise::python
