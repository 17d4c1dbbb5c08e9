// MultiHeadAttention.
#include "headwise/layer.h"

#include <string>
#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "masks.h"
#include "options.h"
#include "results.h"
#include "types.h"
#include "weights.h"

namespace headwise::python {

namespace {

// Arguments that forward and backward share.
struct Shared {
  nb::handle mask, bias, training, dropout_seed, sequence_ids, packed, context;
};

ForwardOptions gather(const char* function, const Shared& given) {
  ForwardOptions options{
      .mask = mask_of(given.mask, function),
      .bias = biases_of(given.bias, function),
      .training = option_of<bool>(given.training, {function, "training"}),
      .dropout_seed = maybe_of<std::uint64_t>(given.dropout_seed, {function, "dropout_seed"}),
      .sequence_ids = integer_list(given.sequence_ids, {function, "sequence_ids"}),
      .context = context_of(given.context, function)};
  if (const auto* packed = option_of<const PackedLengths*>(given.packed, {function, "packed"})) {
    options.packed = *packed;
  }
  return options;
}

ResultValue forward(const MultiHeadAttention& layer, FloatsGiven query, FloatsGiven key,
                    FloatsGiven value, MaskGiven mask, BiasGiven bias, RequestGiven weights,
                    FlagGiven training, IntegerGiven dropout_seed, IntegersGiven sequence_ids,
                    FlagGiven save_for_backward, PackedGiven packed, FloatsGiven out,
                    ContextGiven context) {
  constexpr const char* kFunction = "MultiHeadAttention.forward";
  const Borrowed<const float> q(query, {kFunction, "query"});
  const Borrowed<const float> k(key, {kFunction, "key"});
  const Borrowed<const float> v(value, {kFunction, "value"});
  const Borrowed<float> output(out, {kFunction, "out"});
  ForwardOptions options =
      gather(kFunction, {mask, bias, training, dropout_seed, sequence_ids, packed, context});
  if (const auto* request = option_of<const WeightsRequest*>(weights, {kFunction, "weights"})) {
    options.weights = *request;
  }
  options.save_for_backward = option_of<bool>(save_for_backward, {kFunction, "save_for_backward"});
  options.out = output.view();
  AttentionResult result = without_gil([&] {
    return layer.forward({q.view(), k.view(), v.view()}, options);
  });
  return {std::move(result), nb::borrow(out)};
}

LayerGradientsValue backward(const MultiHeadAttention& layer, FloatsGiven query, FloatsGiven key,
                             FloatsGiven value, ResultGiven forward, FloatsGiven output_gradient,
                             MaskGiven mask, BiasGiven bias, FlagGiven training,
                             IntegerGiven dropout_seed, IntegersGiven sequence_ids,
                             PackedGiven packed, FlagGiven bias_gradient, ContextGiven context) {
  constexpr const char* kFunction = "MultiHeadAttention.backward";
  const Borrowed<const float> q(query, {kFunction, "query"});
  const Borrowed<const float> k(key, {kFunction, "key"});
  const Borrowed<const float> v(value, {kFunction, "value"});
  const Borrowed<const float> gradient(output_gradient, {kFunction, "output_gradient"});
  const ResultValue& result = *option_of<ResultValue*>(forward, {kFunction, "forward"});
  const ForwardOptions options =
      gather(kFunction, {mask, bias, training, dropout_seed, sequence_ids, packed, context});
  const BackwardOptions wanted{.bias_gradient =
                                   option_of<bool>(bias_gradient, {kFunction, "bias_gradient"})};
  return LayerGradientsValue(without_gil([&] {
    return layer.backward({q.view(), k.view(), v.view()}, result.kept, gradient.view(), options,
                          wanted);
  }));
}

constexpr const char* kLayerDoc = R"(Projections, attention, output projection:

    Q = query·Wq + bq   K = key·Wk + bk   V = value·Wv + bv
    output = concat(attention of every head [⊙ gate]) · Wo + bo

weights: a mapping from names to float32 arrays, as AttentionWeights makes them, each of its flat shape
or with heads as an axis of their own; describe(config) lists both. They are copied: a layer never
changes, and any number of threads may use it at the same time.

>>> import headwise, numpy
>>> config = headwise.AttentionConfig(num_heads=8, key_dim=64, query_features=512)
>>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=7))
>>> x = numpy.ones((2, 10, 512), numpy.float32)
>>> layer.forward(x, mask=headwise.causal() & headwise.valid_lengths([10, 7])).output.shape
(2, 10, 512)
)";

constexpr const char* kForwardDoc =
    R"(query (B,T,Dq), key (B,S,Dk), value (B,S,Dv) → output (B,T,Do); without B for one sequence. key is
query and value is key, if not given. Arrays are float32 with any strides, looked at in place.

weights: which attention weights to return. training: dropout on, with dropout_seed (the
configuration's, if not given; change it every step) and sequence_ids (0, 1, 2, …). save_for_backward:
keep the activations that backward() needs. packed: sequences without padding, (total, features). out:
where to write the output, with any strides.

>>> import headwise, numpy
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8)
>>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=7))
>>> x = numpy.ones((3, 8), numpy.float32)
>>> r = layer.forward(x, weights=headwise.all_weights())
>>> r.output.shape, r.weights.shape
((3, 8), (2, 3, 3))
)";

constexpr const char* kBackwardDoc =
    R"(Gradients for a forward() with save_for_backward: inputs and options as they were then, and its result.

bias_gradient: also of every bias, in its own shape; one more pass over the scores for each.

>>> import headwise, numpy
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8, dropout=0.1)
>>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=7))
>>> x = numpy.ones((3, 8), numpy.float32)
>>> r = layer.forward(x, training=True, dropout_seed=1, save_for_backward=True)
>>> g = layer.backward(x, None, None, r, numpy.ones_like(r.output), training=True, dropout_seed=1)
>>> sorted(g.weights)[:2]
['attention_output/bias', 'attention_output/kernel']
)";

// "<MultiHeadAttention: 8 heads of 64, 512 → 512 features>"
std::string repr(const MultiHeadAttention& layer) {
  const AttentionConfig& config = layer.config();
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  std::string heads = text(config.num_heads) + " heads of " + text(config.key_dim);
  if (config.kv_heads() != config.num_heads) {
    heads += " (" + text(config.kv_heads()) + " for keys and values)";
  }
  return "<MultiHeadAttention: " + heads + ", " + text(config.query_features) + " → " +
         text(config.outputs()) + " features>";
}

using LayerHandle = nb::handle_t<MultiHeadAttention>;

const MultiHeadAttention& layer_of(LayerHandle self, const char* function) {
  return value_of<MultiHeadAttention>(self, {function, "self"});
}

nb::dict weights_dict(LayerHandle self) {
  return to_dict(layer_of(self, "MultiHeadAttention.weights").weights(), self);
}

}  // namespace

void bind_layer(nb::module_& module) {
  using nb::arg;
  const auto none = [](const char* name) { return arg(name) = nb::none(); };
  nb::class_<MultiHeadAttention>(module, "MultiHeadAttention", kLayerDoc)
      .def(
          "__init__",
          [](MultiHeadAttention* self, ConfigGiven config, WeightsGiven weights) {
            constexpr const char* kFunction = "MultiHeadAttention";
            const auto& checked = *option_of<const AttentionConfig*>(config, {kFunction, "config"});
            AttentionWeights copied = weights_of(weights, checked, {kFunction, "weights"});
            new (self) MultiHeadAttention(checked, std::move(copied));
          },
          arg("config"), arg("weights"))
      .def_prop_ro("config", &MultiHeadAttention::config)
      .def_prop_ro(
          "weights", [](LayerHandle self) { return WeightsMade(weights_dict(self)); },
          "A dict of read-only arrays, of flat shape.")
      .def("forward", &forward, arg("query"), none("key"), none("value"), nb::kw_only(),
           none("mask"), none("bias"), none("weights"), arg("training") = false,
           none("dropout_seed"), none("sequence_ids"), arg("save_for_backward") = false,
           none("packed"), none("out"), none("context"), kForwardDoc)
      .def("backward", &backward, arg("query"), arg("key").none(), arg("value").none(),
           arg("forward"), arg("output_gradient"), nb::kw_only(), none("mask"), none("bias"),
           arg("training") = false, none("dropout_seed"), none("sequence_ids"), none("packed"),
           arg("bias_gradient") = false, none("context"), kBackwardDoc)
      .def("__repr__", &repr)
      .def("__reduce__", [](LayerHandle self) {
        const auto& layer = layer_of(self, "MultiHeadAttention.__reduce__");
        return ReducedMade(
            nb::make_tuple(self.type(), nb::make_tuple(layer.config(), weights_dict(self))));
      });
}

}  // namespace headwise::python
