#include "results.h"

#include <string>

#include "bindings.h"
#include "types.h"
#include "weights.h"

namespace headwise::python {

namespace {

// What an attribute that is one array returns, by the type of its numbers.
template <typename T>
using ArrayMade = std::conditional_t<std::is_same_v<T, float>, FloatsMade, IndicesMade>;

template <typename Class, typename T>
auto array(LazyArray<T> Class::*member) {
  return [member](Class& self) { return ArrayMade<T>((self.*member).get()); };
}
template <typename Class>
auto maybe_array(LazyArray<float> Class::*member) {
  return [member](Class& self) { return MaybeFloatsMade((self.*member).get()); };
}

std::string repr(const ResultValue& self) {
  std::string text = "<AttentionResult: output " + self.output.shape_text();
  const std::string weights = self.weights.shape_text();
  if (weights != "None") text += ", weights " + weights;
  if (self.top) text += ", top " + self.top->values.shape_text();
  if (self.statistics) text += ", statistics " + self.statistics->entropy.shape_text();
  if (self.kept.saved) text += ", saved for backward";
  return text + ">";
}

std::string list_of_shapes(const GradientsValue& self) {
  std::string text = "query " + self.query.shape_text() + ", key " + self.key.shape_text() +
                     ", value " + self.value.shape_text();
  for (const LazyArray<float>& bias : self.bias) text += ", bias " + bias.shape_text();
  return text;
}

// For a backward alone: forward's output is only looked at, the two numbers per row are copied.
ResultValue result_from_arrays(FloatsGiven output, FloatsGiven row_reference, FloatsGiven row_sum) {
  constexpr const char* kFunction = "AttentionResult.from_arrays";
  AttentionResult result;
  result.row_reference = copy_of(row_reference, {kFunction, "row_reference"});
  result.row_sum = copy_of(row_sum, {kFunction, "row_sum"});
  return {std::move(result), nb::borrow(output)};
}

constexpr const char* kResultDoc =
    R"(What forward computed. Arrays are made when they are asked for and own their memory: nothing is
copied, and they outlive the result. There is no batch axis where the inputs had none; packed batches
have (Hq, total) in place of (B,Hq,T).

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> r = headwise.attention(x, x, x)
>>> r.output.shape, r.log_sum_exp.shape, r.weights
((1, 3, 2, 4), (1, 2, 3), None)
)";

constexpr const char* kTopDoc = R"(The largest weights of every row.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> top = headwise.attention(x, x, x, mask=headwise.causal(), weights=headwise.top_k_weights(2)).top
>>> top.values[0, 0, 1].tolist(), top.indices[0, 0, 0].tolist()  # of two keys, and of one
([0.5, 0.5], [0, -1])
)";

constexpr const char* kStatisticsDoc = R"(A few numbers for every row.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> r = headwise.attention(x, x, x, mask=headwise.causal(), weights=headwise.weight_statistics())
>>> r.statistics.first_key_mass[0, 0, :2]
array([1. , 0.5], dtype=float32)
)";

constexpr const char* kFromArraysDoc =
    R"(The result of an attention() that is gone, for attention_backward(): its output, which is not copied,
and its two numbers per row. So an operator without state of its own can be differentiated.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> r = headwise.attention(x, x, x)
>>> again = headwise.AttentionResult.from_arrays(r.output, r.row_reference, r.row_sum)
>>> headwise.attention_backward(x, x, x, again, numpy.ones_like(x)).query.shape
(1, 3, 2, 4)
)";

constexpr const char* kGradientsDoc =
    R"(Of query, key and value; add them up where the same array was passed twice.

>>> import headwise, numpy
>>> x = numpy.ones((1, 3, 2, 4), numpy.float32)
>>> g = headwise.attention_backward(x, x, x, headwise.attention(x, x, x), numpy.ones_like(x))
>>> g.query.shape, float(g.value.sum())
((1, 3, 2, 4), 24.0)
)";

constexpr const char* kLayerGradientsDoc =
    R"(Of the three inputs, and of every weight under its name.

>>> import headwise, numpy
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8)
>>> layer = headwise.MultiHeadAttention(config, headwise.AttentionWeights.glorot(config, seed=7))
>>> x = numpy.ones((3, 8), numpy.float32)
>>> r = layer.forward(x, save_for_backward=True)
>>> g = layer.backward(x, None, None, r, numpy.ones_like(r.output))
>>> g.query.shape, float(g.weights["attention_output/bias"].sum())
((3, 8), 24.0)
)";

constexpr const char* kBiasDoc = "One for each bias of the call, in its own shape, if asked for.";

void bind_parts(nb::module_& module) {
  nb::class_<TopWeightsValue>(module, "TopWeights", kTopDoc)
      .def_prop_ro("values", array(&TopWeightsValue::values),
                   "Descending; 0 where a row has fewer than k keys.")
      .def_prop_ro("indices", array(&TopWeightsValue::indices), "Of the keys; −1 there.");
  nb::class_<StatisticsValue>(module, "WeightStatistics", kStatisticsDoc)
      .def_prop_ro("entropy", array(&StatisticsValue::entropy), "−Σ p·ln p")
      .def_prop_ro("mean_distance", array(&StatisticsValue::mean_distance),
                   "Σ p·|query position − key position|")
      .def_prop_ro("first_key_mass", array(&StatisticsValue::first_key_mass), "p of key 0");
}

void bind_result(nb::module_& module) {
  // Copies, a few bytes a row: whoever keeps them for later need not keep the activations as well.
  const auto rows = [](Tensor AttentionResult::*tensor) {
    return [tensor](const ResultValue& self) {
      return FloatsMade(to_numpy(Tensor(self.kept.*tensor)));
    };
  };
  nb::class_<ResultValue>(module, "AttentionResult", kResultDoc)
      .def_static("from_arrays", &result_from_arrays, nb::arg("output"), nb::arg("row_reference"),
                  nb::arg("row_sum"), kFromArraysDoc)
      .def_prop_ro(
          "output", array(&ResultValue::output),
          "Shaped like query, with dv in place of dk; the very object that was passed as out.")
      .def_prop_ro("log_sum_exp", array(&ResultValue::log_sum_exp),
                   "(B,Hq,T), natural logarithm; −∞ for a row that attends nothing.")
      .def_prop_ro("weights", maybe_array(&ResultValue::weights), "As requested, or None.")
      .def_prop_ro(
          "top",
          [](ResultValue& self) -> TopWeightsValue* { return self.top ? &*self.top : nullptr; },
          nb::rv_policy::reference_internal, "As requested, or None.")
      .def_prop_ro(
          "statistics",
          [](ResultValue& self) -> StatisticsValue* {
            return self.statistics ? &*self.statistics : nullptr;
          },
          nb::rv_policy::reference_internal, "As requested, or None.")
      .def_prop_ro(
          "row_reference", rows(&AttentionResult::row_reference),
          "Softmax of a row is 2^(score·log₂e − row_reference) / row_sum. (B,Hq,T); a copy.")
      .def_prop_ro("row_sum", rows(&AttentionResult::row_sum), "See row_reference; a copy.")
      .def("__repr__", &repr);
}

void bind_gradients(nb::module_& module) {
  const auto bias = [](GradientsValue& self) {
    nb::list list;
    for (LazyArray<float>& gradient : self.bias) list.append(gradient.get());
    return FloatsListMade(std::move(list));
  };
  nb::class_<GradientsValue>(module, "AttentionGradients", kGradientsDoc)
      .def_prop_ro("query", array(&GradientsValue::query))
      .def_prop_ro("key", array(&GradientsValue::key))
      .def_prop_ro("value", array(&GradientsValue::value))
      .def_prop_ro("bias", bias, kBiasDoc)
      .def("__repr__", [](const GradientsValue& self) {
        return "<AttentionGradients: " + list_of_shapes(self) + ">";
      });
  nb::class_<LayerGradientsValue, GradientsValue>(module, "LayerGradients", kLayerGradientsDoc)
      .def_prop_ro(
          "weights", [](LayerGradientsValue& self) { return WeightsMade(self.weights()); },
          "A dict, as the layer's weights are.")
      .def("__repr__", [](LayerGradientsValue& self) {
        return "<LayerGradients: " + list_of_shapes(self) + ", " +
               std::to_string(nb::len(self.weights())) + " weights>";
      });
}

}  // namespace

ResultValue::ResultValue(AttentionResult&& result, nb::object out)
    : output(out.is_none() ? LazyArray<float>(std::move(result.output))
                           : LazyArray<float>(std::move(out))),
      log_sum_exp(std::move(result.log_sum_exp)),
      weights(std::move(result.weights)) {
  if (result.top.values.rank() > 1) {
    top = {LazyArray(std::move(result.top.values)), LazyArray(std::move(result.top.indices))};
  }
  if (result.statistics.entropy.rank() > 1) {
    statistics = {LazyArray(std::move(result.statistics.entropy)),
                  LazyArray(std::move(result.statistics.mean_distance)),
                  LazyArray(std::move(result.statistics.first_key_mass))};
  }
  kept = std::move(result);
}

GradientsValue::GradientsValue(Tensor&& query_, Tensor&& key_, Tensor&& value_,
                               std::vector<Tensor>&& bias_)
    : query(std::move(query_)), key(std::move(key_)), value(std::move(value_)) {
  for (Tensor& gradient : bias_) bias.emplace_back(std::move(gradient));
}

LayerGradientsValue::LayerGradientsValue(LayerGradients&& gradients)
    : GradientsValue(std::move(gradients.query), std::move(gradients.key),
                     std::move(gradients.value), std::move(gradients.bias)),
      tensors_(std::move(gradients.weights)) {}

nb::object LayerGradientsValue::weights() {
  if (!dict_.is_valid()) dict_ = to_dict(std::move(tensors_));
  return dict_;
}

void bind_results(nb::module_& module) {
  bind_parts(module);
  bind_result(module);
  bind_gradients(module);
}

}  // namespace headwise::python
