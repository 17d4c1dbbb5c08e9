// linear(), linear_backward(), PackedLinear and sigmoid().
#include "headwise/linear.h"

#include <string>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "types.h"

namespace headwise::python {

namespace {

FloatsMade linear_call(FloatsGiven input, FloatsGiven kernel, FloatsGiven bias,
                       ContextGiven context) {
  const Borrowed<const float> x(input, {"linear", "input"});
  const Borrowed<const float> w(kernel, {"linear", "kernel"});
  const Borrowed<const float> b(bias, {"linear", "bias"});
  Context* const used = context_of(context, "linear");
  return to_numpy(without_gil([&] { return linear(x.view(), w.view(), b.view(), used); }));
}

// headwise.LinearGradients.
struct LinearGradientsValue {
  explicit LinearGradientsValue(LinearGradients&& gradients)
      : input(std::move(gradients.input)),
        kernel(std::move(gradients.kernel)),
        bias(std::move(gradients.bias)) {}

  LazyArray<float> input, kernel, bias;
};

LinearGradientsValue linear_backward_call(FloatsGiven input, FloatsGiven kernel,
                                          FloatsGiven output_gradient, ContextGiven context) {
  constexpr const char* kFunction = "linear_backward";
  const Borrowed<const float> x(input, {kFunction, "input"});
  const Borrowed<const float> w(kernel, {kFunction, "kernel"});
  const Borrowed<const float> dy(output_gradient, {kFunction, "output_gradient"});
  Context* const used = context_of(context, kFunction);
  return LinearGradientsValue(
      without_gil([&] { return linear_backward(x.view(), w.view(), dy.view(), used); }));
}

FloatsMade packed_call(const PackedLinear& map, FloatsGiven input, FloatsGiven out,
                       ContextGiven context) {
  const Borrowed<const float> x(input, {"PackedLinear", "input"});
  const Borrowed<float> y(out, {"PackedLinear", "out"});
  Context* const used = context_of(context, "PackedLinear");
  if (!y.view().present()) {
    return to_numpy(without_gil([&] { return map(x.view(), used); }));
  }
  without_gil([&] {
    map.apply(x.view(), y.view(), used);
    return true;
  });
  return nb::borrow(out);
}

FloatsMade sigmoid_call(FloatsGiven input, ContextGiven context) {
  const Borrowed<const float> x(input, {"sigmoid", "input"});
  Context* const used = context_of(context, "sigmoid");
  return to_numpy(without_gil([&] { return sigmoid(x.view(), used); }));
}

constexpr const char* kLinearDoc =
    R"((…, in) · kernel (in, out) + bias (out), as every projection of a layer computes it.

>>> import headwise, numpy
>>> headwise.linear(numpy.ones((2, 3, 4), numpy.float32), numpy.eye(4, dtype=numpy.float32)).shape
(2, 3, 4)
)";

constexpr const char* kGradientsDoc =
    R"(Of the three arguments of linear(), each in its argument's shape.

>>> import headwise, numpy
>>> x = numpy.ones((2, 3, 4), numpy.float32)
>>> headwise.linear_backward(x, numpy.eye(4, dtype=numpy.float32), x).bias
array([6., 6., 6., 6.], dtype=float32)
)";

constexpr const char* kBackwardDoc =
    R"(Gradients of linear(), as a layer computes them for its projections, bit for bit.

output_gradient has the shape of linear()'s result.

>>> import headwise, numpy
>>> x, kernel = numpy.ones((2, 3, 4), numpy.float32), numpy.ones((4, 5), numpy.float32)
>>> g = headwise.linear_backward(x, kernel, numpy.ones((2, 3, 5), numpy.float32))
>>> g.input.shape, g.kernel.shape, g.bias.shape
((2, 3, 4), (4, 5), (5,))
)";

constexpr const char* kSigmoidDoc =
    R"(1/(1 + e⁻ˣ) of every number, as the gate of a layer computes it.

>>> import headwise, numpy
>>> headwise.sigmoid(numpy.zeros(2, numpy.float32))
array([0.5, 0.5], dtype=float32)
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
  const auto array = [](LazyArray<float> LinearGradientsValue::*member) {
    return [member](LinearGradientsValue& self) { return FloatsMade((self.*member).get()); };
  };
  nb::class_<LinearGradientsValue>(module, "LinearGradients", kGradientsDoc)
      .def_prop_ro("input", array(&LinearGradientsValue::input))
      .def_prop_ro("kernel", array(&LinearGradientsValue::kernel))
      .def_prop_ro("bias", array(&LinearGradientsValue::bias))
      .def("__repr__", [](const LinearGradientsValue& self) {
        return "<LinearGradients: input " + self.input.shape_text() + ", kernel " +
               self.kernel.shape_text() + ", bias " + self.bias.shape_text() + ">";
      });
  module.def("linear_backward", &linear_backward_call, arg("input"), arg("kernel"),
             arg("output_gradient"), nb::kw_only(), none("context"), kBackwardDoc);
  module.def("sigmoid", &sigmoid_call, arg("input"), nb::kw_only(), none("context"), kSigmoidDoc);
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
      .def("__repr__",
           [](const PackedLinear& self) {
             return "<PackedLinear: " + std::to_string(self.inputs()) + " → " +
                    std::to_string(self.outputs()) + " features>";
           })
      .def("__call__", &packed_call, arg("input"), nb::kw_only(), none("out"), none("context"));
}

}  // namespace headwise::python
