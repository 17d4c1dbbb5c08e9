// fold(), merged_scores() and absorb_key().
#include "headwise/transforms.h"

#include <utility>

#include "arrays.h"
#include "bindings.h"
#include "parts.h"
#include "types.h"

namespace headwise::python {

namespace {

struct MergedScoresValue {
  LazyArray<float> matrix;
  std::int64_t rank;
};

struct AbsorbedKeyValue {
  LazyArray<float> query_kernel, query_bias;
  float scale;
};

PartsValue fold_parts(const PartsValue& layer, Projection projection, FloatsGiven map,
                      FloatsGiven shift) {
  const Borrowed<const float> matrix(map, {"fold", "map"});
  const Borrowed<const float> vector(shift, {"fold", "shift"});
  return PartsValue(fold(layer.parts(), projection, matrix.view(), vector.view()));
}

constexpr const char* kPartsDoc =
    R"(A layer's configuration and weights, for the functions that make other layers of them.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> layer = headwise.MultiHeadAttention(parts.config, parts.weights)
)";

constexpr const char* kProjectionDoc = R"(Where fold() puts a map.

>>> import headwise
>>> [projection.name for projection in headwise.Projection]
['Query', 'Key', 'Value']
)";

constexpr const char* kMergedScoresDoc = R"(What merged_scores() returns.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> headwise.merged_scores(parts, head=1).matrix.shape
(8, 8)
)";

constexpr const char* kAbsorbedKeyDoc = R"(What absorb_key() returns.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> absorbed = headwise.absorb_key(parts)
>>> absorbed.query_kernel.shape, absorbed.query_bias, absorbed.scale
((8, 16), None, 0.5)
)";

constexpr const char* kFoldDoc =
    R"(The layer that gives for x what the old one gives for x·map + shift. map is (new features, old
features); shift (old features) needs a layer with biases. Folding into the query folds into the gate
as well, which reads the same input.

>>> import headwise, numpy
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> folded = headwise.fold(parts, headwise.Projection.Key, numpy.ones((5, 8), numpy.float32))
>>> folded.config.key_features, folded.weights["key/kernel"].shape
(5, (5, 8))
)";

constexpr const char* kMergedDoc =
    R"(W_q·W_kᵀ of a head, (Dq, Dk), and its numerical rank, at most key_dim. Not for layers with qk_norm.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> merged = headwise.merged_scores(parts, head=0)
>>> merged.matrix.shape, merged.rank
((8, 8), 4)
)";

constexpr const char* kAbsorbDoc =
    R"(A query projection that meets the raw key inputs: query' = query·query_kernel + query_bias, seen as
(…, Hq, Dk), has with `key` itself the scores that the projected pair had, up to a number per row that
softmax does not see. Pass `scale` to attention(). Not for layers with softcap, qk_norm or extra keys.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> headwise.absorb_key(parts).query_kernel.shape
(8, 16)
)";

void bind_types(nb::module_& module) {
  nb::enum_<Projection>(module, "Projection", kProjectionDoc)
      .value("Query", Projection::Query)
      .value("Key", Projection::Key)
      .value("Value", Projection::Value);
  nb::class_<PartsValue>(module, "LayerParts", kPartsDoc)
      .def(
          "__init__",
          [](PartsValue* self, const AttentionConfig& config, WeightsGiven weights) {
            new (self) PartsValue(config, nb::borrow(weights));
          },
          nb::arg("config"), nb::arg("weights"))
      .def_ro("config", &PartsValue::config)
      .def_prop_ro("weights",
                   [](const PartsValue& self) { return WeightsMade(nb::borrow(self.weights)); });
  nb::class_<MergedScoresValue>(module, "MergedScores", kMergedScoresDoc)
      .def_prop_ro("matrix", [](MergedScoresValue& self) { return FloatsMade(self.matrix.get()); })
      .def_ro("rank", &MergedScoresValue::rank);
  nb::class_<AbsorbedKeyValue>(module, "AbsorbedKey", kAbsorbedKeyDoc)
      .def_prop_ro("query_kernel",
                   [](AbsorbedKeyValue& self) { return FloatsMade(self.query_kernel.get()); })
      .def_prop_ro(
          "query_bias",
          [](AbsorbedKeyValue& self) { return MaybeFloatsMade(self.query_bias.get()); },
          "None without biases.")
      .def_ro("scale", &AbsorbedKeyValue::scale);
}

}  // namespace

void bind_transforms(nb::module_& module) {
  using nb::arg;
  bind_types(module);
  module.def("fold", &fold_parts, arg("layer"), arg("projection"), arg("map"),
             arg("shift") = nb::none(), kFoldDoc);
  module.def(
      "merged_scores",
      [](const PartsValue& layer, std::int64_t head) {
        MergedScores merged = merged_scores(layer.parts(), head);
        return MergedScoresValue{LazyArray<float>(std::move(merged.matrix)), merged.rank};
      },
      arg("layer"), arg("head"), kMergedDoc);
  module.def(
      "absorb_key",
      [](const PartsValue& layer) {
        AbsorbedKey absorbed = absorb_key(layer.parts());
        return AbsorbedKeyValue{LazyArray<float>(std::move(absorbed.query_kernel)),
                                LazyArray<float>(std::move(absorbed.query_bias)), absorbed.scale};
      },
      arg("layer"), kAbsorbDoc);
}

}  // namespace headwise::python
