// Masks are values joined by &, as in C++.
#include "masks.h"

#include <optional>
#include <utility>

#include "bindings.h"
#include "options.h"
#include "types.h"

namespace headwise::python {

namespace {

MaskValue join(MaskValue a, const MaskValue& b) {
  a.mask = std::move(a.mask) & b.mask;
  a.arrays.insert(a.arrays.end(), b.arrays.begin(), b.arrays.end());
  a.text += (a.text.empty() || b.text.empty() ? "" : " & ") + b.text;
  return a;
}

std::string shaped(const char* what, const Shape& shape) {
  return std::string("<") + what + " " + shape.to_string() + ">";
}

std::string text_of(Alignment alignment) {
  return alignment == Alignment::TopLeft ? "Alignment.TopLeft" : "Alignment.BottomRight";
}

MaskValue causal_mask(AlignmentGiven alignment) {
  const auto said = maybe_of<Alignment>(alignment, {"causal", "alignment"});
  if (!said) return {causal(), {}, "causal()"};
  return {causal(*said), {}, "causal(" + text_of(*said) + ")"};
}

MaskValue aligned_mask(AlignmentGiven alignment) {
  const auto said = option_of<Alignment>(alignment, {"aligned", "alignment"});
  return {aligned(said), {}, "aligned(" + text_of(said) + ")"};
}

MaskValue window_mask(IntegerGiven left_given, IntegerGiven right_given) {
  const auto left = option_of<std::optional<std::int64_t>>(left_given, {"window", "left"});
  const auto right = option_of<std::optional<std::int64_t>>(right_given, {"window", "right"});
  const auto side = [](std::optional<std::int64_t> count) {
    return count ? std::to_string(*count) : "None";
  };
  return {window(left, right), {}, "window(" + side(left) + ", " + side(right) + ")"};
}

MaskValue lengths_mask(IntegersGiven lengths) {
  IndexTensor values = integers(lengths, {"valid_lengths", "lengths"});
  std::string text = "valid_lengths(" + shaped("lengths", values.shape()) + ")";
  return {valid_lengths(std::move(values)), {}, std::move(text)};
}

MaskValue query_lengths_mask(IntegersGiven lengths) {
  IndexTensor values = integers(lengths, {"query_lengths", "lengths"});
  std::string text = "query_lengths(" + shaped("lengths", values.shape()) + ")";
  return {query_lengths(std::move(values)), {}, std::move(text)};
}

MaskValue offset_mask(IntegerGiven offset) {
  const auto position = option_of<std::int64_t>(offset, {"query_offset", "offset"});
  return {query_offset(position), {}, "query_offset(" + std::to_string(position) + ")"};
}

MaskValue offsets_mask(IntegersGiven offsets) {
  std::vector<std::int64_t> values = integer_list(offsets, {"query_offsets", "offsets"});
  std::string text = "query_offsets(<" + std::to_string(values.size()) + " offsets>)";
  return {query_offsets(std::move(values)), {}, std::move(text)};
}

MaskValue keep_mask(BoolsGiven values, AxesGiven axes) {
  const auto array =
      std::make_shared<const Borrowed<const bool>>(values, Argument{"keep", "values"});
  std::string text = "keep(" + shaped("bool", array->view().shape()) + ")";
  return {keep(SharedView<bool>(array->view()), maybe_of<Axes>(axes, {"keep", "axes"})),
          {array},
          std::move(text)};
}

MaskValue segments_mask(IntegersGiven query_ids, IntegersGiven key_ids) {
  IndexTensor query = integers(query_ids, {"segments", "query_ids"});
  std::string text = "segments(" + shaped("ids", query.shape());
  if (key_ids.is_none()) {
    return {segments(SharedView<std::int64_t>(std::move(query))), {}, std::move(text) + ")"};
  }
  IndexTensor key = integers(key_ids, {"segments", "key_ids"});
  text += ", " + shaped("ids", key.shape()) + ")";
  return {segments(std::move(query), std::move(key)), {}, std::move(text)};
}

constexpr const char* kAxesDoc =
    R"(Which axes an array has, in order. An extent of 1 is broadcast over its axis.

Rank 2 means QueryKey and rank 4 BatchHeadQueryKey unless said otherwise; rank 3 must say.

>>> import headwise, numpy
>>> headwise.keep(numpy.ones((2, 3, 5), bool), headwise.Axes.BatchQueryKey)
keep(<bool (2, 3, 5)>)
)";

constexpr const char* kAlignmentDoc =
    R"(Where query 0 stands among the keys when there are not as many queries as keys. BottomRight
puts the last (valid) query on the last (valid) key.

>>> import headwise
>>> headwise.causal(headwise.Alignment.BottomRight)
causal(Alignment.BottomRight)
)";

constexpr const char* kMaskDoc =
    R"(Which keys a query attends: a key where every part agrees. Made by causal(), window(),
valid_lengths(), query_lengths(), keep() and segments(), joined by &. Mask() hides nothing.

>>> import headwise
>>> headwise.causal() & headwise.valid_lengths([128, 90])
causal() & valid_lengths(<lengths (2,)>)
)";

constexpr const char* kBiasDoc =
    R"(Numbers that are added to the scores after scale and softcap. −∞ hides a key as a mask does.

values: float32, of any broadcast shape; looked at in place, so keep it unchanged while calls use it.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> slope = headwise.Bias(numpy.zeros((2, 3, 3), numpy.float32), headwise.Axes.HeadQueryKey)
>>> headwise.attention(x, x, x, bias=slope).output.shape
(1, 3, 2, 4)
)";

void bind_types(nb::module_& module) {
  nb::enum_<Axes>(module, "Axes", kAxesDoc)
      .value("BatchHeadQueryKey", Axes::BatchHeadQueryKey)
      .value("QueryKey", Axes::QueryKey)
      .value("BatchQueryKey", Axes::BatchQueryKey)
      .value("HeadQueryKey", Axes::HeadQueryKey)
      .value("BatchKey", Axes::BatchKey)
      .value("BatchQuery", Axes::BatchQuery);
  nb::enum_<Alignment>(module, "Alignment", kAlignmentDoc)
      .value("TopLeft", Alignment::TopLeft)
      .value("BottomRight", Alignment::BottomRight);
  nb::class_<MaskValue> mask(module, "Mask", kMaskDoc);
  mask.def(nb::init<>())
      .def("__and__", &join, nb::is_operator())
      .def("__repr__",
           [](const MaskValue& self) { return self.text.empty() ? "Mask()" : self.text; });
  bind_mask_value(mask);
  nb::class_<BiasValue> bias(module, "Bias", kBiasDoc);
  bias.def(
          "__init__",
          [](BiasValue* self, FloatsGiven values, AxesGiven axes) {
            new (self) BiasValue{
                std::make_shared<const Borrowed<const float>>(values, Argument{"Bias", "values"}),
                maybe_of<Axes>(axes, {"Bias", "axes"})};
          },
          nb::arg("values"), nb::arg("axes") = nb::none())
      .def_ro("axes", &BiasValue::axes)
      .def_prop_ro(
          "shape",
          [](const BiasValue& self) { return ShapeMade(to_tuple(self.array->view().shape())); })
      .def("__repr__", [](const BiasValue& self) {
        return "Bias(" + shaped("float32", self.array->view().shape()) + ")";
      });
  bind_bias_value(bias);
}

}  // namespace

Mask mask_of(nb::handle mask, const char* function) {
  if (mask.is_none()) return {};
  if (!nb::isinstance<MaskValue>(mask)) {
    fail_type({function, "mask"}, "a Mask, such as keep(array) or causal()", name_of_type(mask));
  }
  return value_of<MaskValue>(mask, {function, "mask"}).mask;
}

std::vector<Bias> biases_of(nb::handle bias, const char* function) {
  std::vector<Bias> biases;
  const auto add = [&](nb::handle one) {
    if (!nb::isinstance<BiasValue>(one)) {
      fail_type({function, "bias"}, "a Bias or a sequence of them", name_of_type(one));
    }
    const auto& value = value_of<BiasValue>(one, {function, "bias"});
    biases.emplace_back(SharedView<float>(value.array->view()), value.axes);
  };
  if (bias.is_none()) return biases;
  if (nb::isinstance<nb::list>(bias) || nb::isinstance<nb::tuple>(bias)) {
    for (const nb::handle one : bias) add(one);
  } else {
    add(bias);
  }
  return biases;
}

void bind_masks(nb::module_& module) {
  bind_types(module);
  module.def("causal", &causal_mask, nb::arg("alignment") = nb::none(),
             R"(No key after the query's position. Where T ≠ S, say the alignment or a query_offset.

>>> import headwise
>>> headwise.causal() & headwise.query_offset(7)
causal() & query_offset(7)
)");
  module.def("aligned", &aligned_mask, nb::arg("alignment"), R"(Positions only; hides nothing.

>>> import headwise
>>> headwise.window(4, 0) & headwise.aligned(headwise.Alignment.BottomRight)
window(4, 0) & aligned(Alignment.BottomRight)
)");
  module.def("query_offset", &offset_mask, nb::arg("offset"),
             R"(Query 0 of every sequence stands at this position.

>>> import headwise
>>> headwise.query_offset(128)
query_offset(128)
)");
  module.def("query_offsets", &offsets_mask, nb::arg("offsets"),
             R"(The same, with an offset for each sequence.

>>> import headwise
>>> headwise.query_offsets([128, 90])
query_offsets(<2 offsets>)
)");
  module.def("window", &window_mask, nb::arg("left").none(), nb::arg("right").none(),
             R"(Counts of keys on either side of the query's position; None: unlimited.

>>> import headwise
>>> headwise.window(64, 0)
window(64, 0)
>>> headwise.window(None, 0)  # causal
window(None, 0)
)");
  module.def("valid_lengths", &lengths_mask, nb::arg("lengths"),
             R"(How many keys are there: (B), or (B,T) for a length of each query.

>>> import headwise
>>> headwise.valid_lengths([3, 5])
valid_lengths(<lengths (2,)>)
)");
  module.def("query_lengths", &query_lengths_mask, nb::arg("lengths"),
             R"(How many queries are there, (B). The others attend nothing.

>>> import headwise
>>> headwise.query_lengths([3, 5])
query_lengths(<lengths (2,)>)
)");
  module.def(
      "keep", &keep_mask, nb::arg("values"), nb::arg("axes") = nb::none(),
      R"(An array of bool, True = attend, of any broadcast shape; looked at in place, so keep it unchanged
while calls use the mask.

>>> import headwise, numpy
>>> headwise.keep(numpy.tri(4, dtype=bool))
keep(<bool (4, 4)>)
)");
  module.def(
      "segments", &segments_mask, nb::arg("query_ids"), nb::arg("key_ids") = nb::none(),
      R"(A query attends keys of its own number: (T) or (B,T), and (S) or (B,S). In self-attention the keys
have the queries' numbers.

>>> import headwise
>>> headwise.segments([0, 0, 1, 1, 1])
segments(<ids (5,)>)
)");
}

}  // namespace headwise::python
