// The library's exceptions as Python has them: ArgumentError is a ValueError. OutOfMemory, a
// std::bad_alloc, becomes MemoryError without our help.
#include "headwise/error.h"

#include <exception>
#include <string>

#include "bindings.h"

namespace headwise::python {

namespace {

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// "MultiHeadAttention::forward", "options.mask" and "nullopt" are C++; here they are called
// MultiHeadAttention.forward, mask and None.
std::string in_python(std::string text) {
  replace_all(text, "::", ".");
  replace_all(text, "options.", "");
  replace_all(text, "nullopt", "None");
  return text;
}

void raise(nb::handle type, const ArgumentError& error) {
  const nb::object raised = type(in_python(error.what()));
  raised.attr("function") = in_python(error.function());
  raised.attr("argument") = in_python(error.argument());
  PyErr_SetObject(type.ptr(), raised.ptr());
}

constexpr const char* kDoc =
    R"(An argument does not fit. The message names the function, the argument, what was expected and
what was given; `function` and `argument` hold the first two.

>>> import headwise
>>> try:
...     headwise.Context(threads=0)
... except headwise.ArgumentError as error:
...     print(error)
...     print(error.function, error.argument)
[Context] threads: expected 1 … 1024, got 0
Context threads
)";

}  // namespace

void bind_errors(nb::module_& module) {
  // The name by which it is found again when it travels between processes.
  const nb::object type = nb::steal(
      PyErr_NewExceptionWithDoc("headwise.ArgumentError", kDoc, PyExc_ValueError, nullptr));
  module.attr("ArgumentError") = type;
  nb::register_exception_translator(
      [](const std::exception_ptr& thrown, void* payload) {
        try {
          std::rethrow_exception(thrown);
        } catch (const ArgumentError& error) {
          raise(static_cast<PyObject*>(payload), error);
        }
      },
      type.inc_ref().ptr());
}

}  // namespace headwise::python
