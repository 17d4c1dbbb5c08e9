// What a layer's weights tell of its heads: inspect_heads(), refactor_key_dim().
#include "headwise/spectra.h"

#include <utility>
#include <vector>

#include "bindings.h"
#include "call.h"
#include "parts.h"
#include "types.h"

namespace headwise::python {

namespace {

// headwise.LayerSpectra.
struct SpectraValue {
  explicit SpectraValue(LayerSpectra&& spectra)
      : heads(std::move(spectra.heads)),
        median_value_norm(spectra.median_value_norm),
        score_similarity(std::move(spectra.score_similarity)),
        value_similarity(std::move(spectra.value_similarity)),
        alike_scores(std::move(spectra.alike_scores)),
        alike_values(std::move(spectra.alike_values)) {}

  std::vector<HeadSpectra> heads;
  double median_value_norm;
  LazyArray<float> score_similarity, value_similarity;
  std::vector<HeadPair> alike_scores, alike_values;
};

// headwise.RefactoredLayer.
struct RefactoredValue {
  PartsValue layer;
  std::vector<double> errors;
};

SpectraValue inspect(const PartsValue& layer, double dead_below, double uniform_below,
                     double alike_above, int threads) {
  const LayerParts parts = layer.parts();
  const SpectraOptions options{dead_below, uniform_below, alike_above, threads, {}};
  return SpectraValue(without_gil([&] { return inspect_heads(parts, options); }));
}

RefactoredValue refactor(const PartsValue& layer, std::int64_t key_dim) {
  const LayerParts parts = layer.parts();
  RefactoredLayer smaller = without_gil([&] { return refactor_key_dim(parts, key_dim); });
  return {PartsValue(std::move(smaller.layer)), std::move(smaller.errors)};
}

constexpr const char* kSpectrumDoc =
    R"(The singular values of a product, and what follows from them.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> spectrum = headwise.inspect_heads(parts).heads[0].scores
>>> len(spectrum.singular_values), spectrum.rank
(4, 4)
)";
constexpr const char* kHeadDoc = R"(One head of a LayerSpectra.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> head = headwise.inspect_heads(parts).heads[1]
>>> head.kv_head, head.finite, head.scores.rank
(1, True, 4)
)";
constexpr const char* kPairDoc = R"(Two heads whose products point in the same direction.

>>> import headwise, numpy
>>> pair, = headwise.alike_heads(numpy.ones((2, 2), numpy.float32), 0.9)
>>> pair.head, pair.other
(0, 1)
)";
constexpr const char* kSpectraDoc = R"(What inspect_heads() returns.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> spectra = headwise.inspect_heads(parts)
>>> len(spectra.heads), spectra.value_similarity.shape, spectra.alike_scores
(2, (2, 2), [])
)";
constexpr const char* kRefactoredDoc = R"(What refactor_key_dim() returns.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> smaller = headwise.refactor_key_dim(parts, 3)
>>> smaller.layer.config.key_dim, max(smaller.errors) < 1
(3, True)
)";
constexpr const char* kEnergyDoc =
    R"(The smallest number of singular values that hold this share of the energy Σσ²: the key_dim with which a
head could do nearly the same.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> headwise.dims_for_energy(headwise.inspect_heads(parts).heads[0].scores, 1.0)
4
)";
constexpr const char* kInspectDoc =
    R"(For every head the singular values of W_q·W_kᵀ and W_v·W_o, norms, and whether it is dead or like another.
In float64, by QR of the thin factors; the products are never formed.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> spectra = headwise.inspect_heads(parts)
>>> [head.dead for head in spectra.heads], spectra.score_similarity.shape
([False, False], (2, 2))
)";
constexpr const char* kRefactorDoc =
    R"(The layer with key_dim numbers in each query and key head, and the best W_q·W_kᵀ that these can have.
errors: for each query head, ‖new − old‖ / ‖old‖ of that matrix.

>>> import headwise
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> smaller = headwise.refactor_key_dim(parts, 3)
>>> smaller.layer.config.key_dim, len(smaller.errors)
(3, 2)
)";
constexpr const char* kAlikeDoc =
    R"(The pairs of heads that are at least that similar, the most similar first.

>>> import headwise, numpy
>>> pair, = headwise.alike_heads(numpy.ones((2, 2), numpy.float32), 0.9)
>>> pair.head, pair.other, pair.similarity
(0, 1, 1.0)
)";

void bind_heads(nb::module_& module) {
  nb::class_<Spectrum>(module, "Spectrum", kSpectrumDoc)
      .def_ro("singular_values", &Spectrum::singular_values, "Descending.")
      .def_ro("frobenius_norm", &Spectrum::frobenius_norm)
      .def_ro("spectral_norm", &Spectrum::spectral_norm)
      .def_ro("condition", &Spectrum::condition)
      .def_ro("rank", &Spectrum::rank)
      .def_ro("effective_rank", &Spectrum::effective_rank, "exp(−Σ p·ln p) with p = σ/Σσ")
      .def_ro("stable_rank", &Spectrum::stable_rank, "Σσ² / σ₁²");
  nb::class_<HeadSpectra>(module, "HeadSpectra", kHeadDoc)
      .def_ro("kv_head", &HeadSpectra::kv_head, "The key/value head that it reads.")
      .def_ro("finite", &HeadSpectra::finite)
      .def_ro("scores", &HeadSpectra::scores, "Of W_q·W_kᵀ.")
      .def_ro("values", &HeadSpectra::values, "Of W_v·W_o.")
      .def_ro("query_norm", &HeadSpectra::query_norm)
      .def_ro("key_norm", &HeadSpectra::key_norm)
      .def_ro("value_norm", &HeadSpectra::value_norm)
      .def_ro("output_norm", &HeadSpectra::output_norm)
      .def_ro("key_preference", &HeadSpectra::key_preference, "‖b_q·W_kᵀ‖")
      .def_ro("constant_output", &HeadSpectra::constant_output, "‖b_v·W_o‖")
      .def_ro("score_spread", &HeadSpectra::score_spread)
      .def_ro("uniform", &HeadSpectra::uniform, "Attends every key alike.")
      .def_ro("dead", &HeadSpectra::dead, "Gives next to nothing.");
  nb::class_<HeadPair>(module, "HeadPair", kPairDoc)
      .def_ro("head", &HeadPair::head)
      .def_ro("other", &HeadPair::other)
      .def_ro("similarity", &HeadPair::similarity);
}

void bind_layer_values(nb::module_& module) {
  const auto array = [](LazyArray<float> SpectraValue::*member) {
    return [member](SpectraValue& self) { return FloatsMade((self.*member).get()); };
  };
  nb::class_<SpectraValue>(module, "LayerSpectra", kSpectraDoc)
      .def_ro("heads", &SpectraValue::heads)
      .def_ro("median_value_norm", &SpectraValue::median_value_norm)
      .def_prop_ro("score_similarity", array(&SpectraValue::score_similarity), "(H, H), −1 … 1")
      .def_prop_ro("value_similarity", array(&SpectraValue::value_similarity), "(H, H), −1 … 1")
      .def_ro("alike_scores", &SpectraValue::alike_scores)
      .def_ro("alike_values", &SpectraValue::alike_values);
  nb::class_<RefactoredValue>(module, "RefactoredLayer", kRefactoredDoc)
      .def_ro("layer", &RefactoredValue::layer)
      .def_ro("errors", &RefactoredValue::errors);
}

}  // namespace

void bind_spectra(nb::module_& module) {
  using nb::arg;
  bind_heads(module);
  bind_layer_values(module);
  const SpectraOptions defaults;
  module.def("dims_for_energy", &dims_for_energy, arg("spectrum"), arg("share"), kEnergyDoc);
  module.def("inspect_heads", &inspect, arg("layer"), nb::kw_only(),
             arg("dead_below") = defaults.dead_below, arg("uniform_below") = defaults.uniform_below,
             arg("alike_above") = defaults.alike_above, arg("threads") = defaults.threads,
             kInspectDoc);
  module.def(
      "alike_heads",
      [](FloatsGiven similarity, double at_least) {
        return alike_heads(copy_of(similarity, {"alike_heads", "similarity"}), at_least);
      },
      arg("similarity"), arg("at_least"), kAlikeDoc);
  module.def("refactor_key_dim", &refactor, arg("layer"), arg("key_dim"), kRefactorDoc);
}

}  // namespace headwise::python
