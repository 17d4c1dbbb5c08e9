// linear() and PackedLinear.
#include "headwise/linear.h"

#include <string>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "types.h"

namespace headwise::python {

namespace {

FloatsMade linear_call(FloatsGiven input, FloatsGiven kernel, FloatsGiven bias,
                       const ContextValue* context) {
  const Borrowed<const float> x(input, {"linear", "input"});
  const Borrowed<const float> w(kernel, {"linear", "kernel"});
  const Borrowed<const float> b(bias, {"linear", "bias"});
  Context* const used = context_of(context);
  return to_numpy(without_gil([&] { return linear(x.view(), w.view(), b.view(), used); }));
}

FloatsMade packed_call(const PackedLinear& map, FloatsGiven input, FloatsGiven out,
                       const ContextValue* context) {
  const Borrowed<const float> x(input, {"PackedLinear", "input"});
  const Borrowed<float> y(out, {"PackedLinear", "out"});
  Context* const used = context_of(context);
  if (!y.view().present()) {
    return to_numpy(without_gil([&] { return map(x.view(), used); }));
  }
  without_gil([&] {
    map.apply(x.view(), y.view(), used);
    return true;
  });
  return nb::borrow(out);
}

constexpr const char* kLinearDoc =
    R"((…, in) · kernel (in, out) + bias (out), as every projection of a layer computes it.

>>> import headwise, numpy
>>> headwise.linear(numpy.ones((2, 3, 4), numpy.float32), numpy.eye(4, dtype=numpy.float32)).shape
(2, 3, 4)
)";

constexpr const char* kPackedDoc =
    R"(The same map with its kernel packed once, for many calls. It never changes: any number of threads
may use it at the same time. out: where to write the result, with any strides.

>>> import headwise, numpy
>>> map = headwise.PackedLinear(numpy.ones((4, 2), numpy.float32))
>>> map.inputs, map.outputs
(4, 2)
>>> map(numpy.ones((1, 4), numpy.float32))
array([[4., 4.]], dtype=float32)
)";

}  // namespace

void bind_linear(nb::module_& module) {
  using nb::arg;
  const auto none = [](const char* name) { return arg(name) = nb::none(); };
  module.def("linear", &linear_call, arg("input"), arg("kernel"), none("bias"), nb::kw_only(),
             none("context"), kLinearDoc);
  nb::class_<PackedLinear>(module, "PackedLinear", kPackedDoc)
      .def(
          "__init__",
          [](PackedLinear* self, FloatsGiven kernel, FloatsGiven bias) {
            const Borrowed<const float> w(kernel, {"PackedLinear", "kernel"});
            const Borrowed<const float> b(bias, {"PackedLinear", "bias"});
            new (self) PackedLinear(w.view(), b.view());
          },
          arg("kernel"), none("bias"))
      .def_prop_ro("inputs", &PackedLinear::inputs)
      .def_prop_ro("outputs", &PackedLinear::outputs)
      .def("__call__", &packed_call, arg("input"), nb::kw_only(), none("out"), none("context"));
}

}  // namespace headwise::python
