// attention() and attention_backward().
#include "headwise/attention.h"

#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "masks.h"
#include "options.h"
#include "results.h"
#include "types.h"

namespace headwise::python {

namespace {

// Arguments that forward and backward share.
struct Shared {
  nb::handle mask, bias, scale, softcap, dropout, layout, packed, unmasked_tail, context;
};

AttentionOptions gather(const char* function, const Shared& given) {
  AttentionOptions options{
      .mask = mask_of(given.mask, function),
      .bias = biases_of(given.bias, function),
      .scale = maybe_of<float>(given.scale, {function, "scale"}),
      .softcap = maybe_of<float>(given.softcap, {function, "softcap"}),
      .layout = option_of<Layout>(given.layout, {function, "layout"}),
      .unmasked_tail = option_of<std::int64_t>(given.unmasked_tail, {function, "unmasked_tail"}),
      .context = context_of(given.context, function)};
  if (const auto* dropout = option_of<const Dropout*>(given.dropout, {function, "dropout"})) {
    options.dropout = *dropout;
  }
  if (const auto* packed = option_of<const PackedLengths*>(given.packed, {function, "packed"})) {
    options.packed = *packed;
  }
  return options;
}

// How attention_backward() is told where forward's output is, which it only reads.
MutableView as_brought(const ConstView& output) {
  if (!output.present()) return {};
  Strides strides{};
  for (int axis = 0; axis < output.rank(); ++axis) {
    strides[static_cast<std::size_t>(axis)] = output.stride(axis);
  }
  return {const_cast<float*>(output.data()), output.shape(), strides};
}

ResultValue forward(FloatsGiven query, FloatsGiven key, FloatsGiven value, MaskGiven mask,
                    BiasGiven bias, NumberGiven scale, NumberGiven softcap, DropoutGiven dropout,
                    RequestGiven weights, LayoutGiven layout, PackedGiven packed,
                    IntegerGiven unmasked_tail, FloatsGiven out, ContextGiven context) {
  constexpr const char* kFunction = "attention";
  const Borrowed<const float> q(query, {kFunction, "query"});
  const Borrowed<const float> k(key, {kFunction, "key"});
  const Borrowed<const float> v(value, {kFunction, "value"});
  const Borrowed<float> output(out, {kFunction, "out"});
  AttentionOptions options = gather(
      kFunction, {mask, bias, scale, softcap, dropout, layout, packed, unmasked_tail, context});
  if (const auto* request = option_of<const WeightsRequest*>(weights, {kFunction, "weights"})) {
    options.weights = *request;
  }
  options.out = output.view();
  AttentionResult result =
      without_gil([&] { return attention(q.view(), k.view(), v.view(), options); });
  return {std::move(result), nb::borrow(out)};
}

GradientsValue backward(FloatsGiven query, FloatsGiven key, FloatsGiven value, ResultGiven forward,
                        FloatsGiven output_gradient, MaskGiven mask, BiasGiven bias,
                        NumberGiven scale, NumberGiven softcap, DropoutGiven dropout,
                        LayoutGiven layout, PackedGiven packed, IntegerGiven unmasked_tail,
                        FlagGiven bias_gradient, ContextGiven context) {
  constexpr const char* kFunction = "attention_backward";
  const Borrowed<const float> q(query, {kFunction, "query"});
  const Borrowed<const float> k(key, {kFunction, "key"});
  const Borrowed<const float> v(value, {kFunction, "value"});
  const Borrowed<const float> gradient(output_gradient, {kFunction, "output_gradient"});
  ResultValue& result = *option_of<ResultValue*>(forward, {kFunction, "forward"});
  const Borrowed<const float> output(result.output.get(), {kFunction, "forward.output"});
  AttentionOptions options = gather(
      kFunction, {mask, bias, scale, softcap, dropout, layout, packed, unmasked_tail, context});
  options.out = as_brought(output.view());
  const BackwardOptions wanted{.bias_gradient =
                                   option_of<bool>(bias_gradient, {kFunction, "bias_gradient"})};
  AttentionGradients gradients = without_gil([&] {
    return attention_backward({q.view(), k.view(), v.view()}, result.kept, gradient.view(), options,
                              wanted);
  });
  return {std::move(gradients.query), std::move(gradients.key), std::move(gradients.value),
          std::move(gradients.bias)};
}

constexpr const char* kForwardDoc = R"(Attention without projections:

    scores = scale · Q Kᵀ → softcap → + bias → mask → softmax → dropout → · V      (per head)

query (B,T,Hq,dk), key (B,S,Hkv,dk) and value (B,S,Hkv,dv), float32 with any strides, looked at in
place; without B for one sequence. Hq is a multiple of Hkv; no other sizes need to be equal. layout:
the order of the axes. scale: 1/√dk, if not given. weights: which attention weights to return. packed:
sequences without padding. unmasked_tail: the last keys of every sequence, which no mask or bias
touches. out: where to write the output, with any strides.

>>> import headwise, numpy
>>> q = numpy.ones((2, 3, 8, 64), numpy.float32)
>>> kv = numpy.ones((2, 5, 2, 64), numpy.float32)  # 2 heads, each read by 4 query heads
>>> r = headwise.attention(q, kv, kv, mask=headwise.causal(headwise.Alignment.BottomRight))
>>> r.output.shape, r.log_sum_exp.shape
((2, 3, 8, 64), (2, 8, 3))
)";

constexpr const char* kBackwardDoc =
    R"(Gradients of attention(): inputs and options as they were then, and its result.

bias_gradient: also of every bias, in its own shape; one more pass over the scores for each.

>>> import headwise, numpy
>>> x = numpy.ones((2, 3, 8, 64), numpy.float32)
>>> slope = headwise.Bias(numpy.zeros((8, 3, 3), numpy.float32), headwise.Axes.HeadQueryKey)
>>> r = headwise.attention(x, x, x, bias=slope)
>>> g = headwise.attention_backward(x, x, x, r, numpy.ones_like(r.output), bias=slope,
...                                 bias_gradient=True)
>>> g.query.shape, g.bias[0].shape
((2, 3, 8, 64), (8, 3, 3))
)";

}  // namespace

void bind_attention(nb::module_& module) {
  using nb::arg;
  const auto none = [](const char* name) { return arg(name) = nb::none(); };
  module.def("attention", &forward, arg("query"), arg("key"), arg("value"), nb::kw_only(),
             none("mask"), none("bias"), none("scale"), none("softcap"), none("dropout"),
             none("weights"), arg("layout") = Layout::SequenceFirst, none("packed"),
             arg("unmasked_tail") = 0, none("out"), none("context"), kForwardDoc);
  module.def("attention_backward", &backward, arg("query"), arg("key"), arg("value"),
             arg("forward"), arg("output_gradient"), nb::kw_only(), none("mask"), none("bias"),
             none("scale"), none("softcap"), none("dropout"), arg("layout") = Layout::SequenceFirst,
             none("packed"), arg("unmasked_tail") = 0, arg("bias_gradient") = false,
             none("context"), kBackwardDoc);
}

}  // namespace headwise::python
