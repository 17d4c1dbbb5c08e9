// Attention layers in the files of other libraries: find_layers(), read_layer(), write_layer() ….
#include "headwise/layouts.h"

#include <string>
#include <utility>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "parts.h"
#include "types.h"

namespace headwise::python {

namespace {

using NamedShapesGiven = Given<"Iterable[NamedShape] | Mapping[str, HasShape]">;
using SourceGiven = Given<"Callable[[str], FloatArray] | Mapping[str, FloatArray] | TensorSource">;
using InputsGiven = Given<"Sequence[FloatArray]">;
using NamedLayersGiven = Given<"Mapping[str, LayerParts]">;
using Texts = std::map<std::string, std::string>;

// headwise.StoredLayer.
struct StoredValue {
  explicit StoredValue(StoredLayer&& stored) : metadata(std::move(stored.metadata)) {
    for (auto& [name, tensor] : stored.tensors) tensors[name.c_str()] = to_numpy(std::move(tensor));
  }

  nb::dict tensors;
  Texts metadata;
};

constexpr Argument kTensors{"find_layers", "tensors"};

NamedShape named_shape(const nb::handle& name, const nb::handle& shape) {
  std::string text = name_in_mapping(name, kTensors);
  const std::vector<std::int64_t> extents = integer_list(shape, kTensors);
  return {std::move(text), Shape(extents)};
}

[[noreturn]] void fail_tensors(nb::handle given) {
  fail_type(kTensors, "a mapping from names to arrays, or a TensorFile's tensors",
            brief_repr(given));
}

nb::object attribute_of(nb::handle tensor, const char* name) {
  if (!nb::hasattr(tensor, name)) fail_tensors(tensor);
  return nb::getattr(tensor, name);
}

// Names and shapes of a mapping to arrays, or of anything with `name` and `shape`, as TensorInfo has.
std::vector<NamedShape> named_shapes(nb::handle tensors) {
  std::vector<NamedShape> shapes;
  if (nb::hasattr(tensors, "items")) {
    for (const nb::handle item : tensors.attr("items")()) {
      shapes.push_back(named_shape(item[0], attribute_of(nb::object(item[1]), "shape")));
    }
    return shapes;
  }
  if (!nb::hasattr(tensors, "__iter__")) fail_tensors(tensors);
  for (const nb::handle tensor : tensors) {
    shapes.push_back(named_shape(attribute_of(tensor, "name"), attribute_of(tensor, "shape")));
  }
  return shapes;
}

PartsValue read(const FoundLayer& found, SourceGiven source) {
  const nb::object method = nb::hasattr(source, "read") ? nb::getattr(source, "read")
                            : nb::hasattr(source, "__getitem__")
                                ? nb::getattr(source, "__getitem__")
                                : nb::borrow(source);
  return PartsValue(read_layer(found, [&](const std::string& name) {
    return copy_of(method(name), {"read_layer", name.c_str()});
  }));
}

StoredValue keras_model(NamedLayersGiven layers) {
  std::vector<NamedLayer> named;
  for (const nb::handle item : layers.attr("items")()) {
    named.push_back({nb::cast<std::string>(item[0]), nb::cast<const PartsValue&>(item[1]).parts()});
  }
  return StoredValue(keras_model_of(named));
}

// Views of one to three arrays, in the order of AttentionInputs.
class BorrowedInputs {
 public:
  BorrowedInputs(nb::handle arrays, const char* name) {
    const Argument argument{"compare_layers", name};
    const std::size_t count = nb::len(arrays);
    if (count < 1 || count > 3) {
      fail_value(argument, "query, key and value, or the first of them", std::to_string(count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      held_[i].reset(nb::object(arrays[i]), argument);
    }
  }
  [[nodiscard]] AttentionInputs views() const {
    return {held_[0].view(), held_[1].view(), held_[2].view()};
  }

 private:
  Borrowed<const float> held_[3];
};

LayerDifference compare(const PartsValue& a, InputsGiven inputs_of_a, const PartsValue& b,
                        InputsGiven inputs_of_b) {
  const BorrowedInputs of_a(inputs_of_a, "inputs_of_a");
  const BorrowedInputs of_b(inputs_of_b, "inputs_of_b");
  const LayerParts parts_a = a.parts();
  const LayerParts parts_b = b.parts();
  return without_gil([&] { return compare_layers(parts_a, of_a.views(), parts_b, of_b.views()); });
}

constexpr const char* kLayoutDoc =
    R"(How a library names and orders the tensors of a layer.

>>> import headwise
>>> [layout.name for layout in headwise.WeightLayout]
['Headwise', 'Keras', 'Torch', 'Flax', 'D2l', 'Bert', 'Llama', 'Gpt2']
)";
constexpr const char* kHintsDoc =
    R"(What the shapes in a file do not tell: torch, d2l, BERT, Llama and GPT-2 files do not say how many heads
there are. One of the first three tells the other two.

>>> import headwise
>>> headwise.LayerHints(num_heads=12).num_heads
12
)";
constexpr const char* kFromConfigDoc =
    R"(From the text of a Hugging Face config.json; nothing where it says nothing.

>>> import headwise
>>> headwise.hints_from_config('{"num_attention_heads": 12, "hidden_size": 384}').num_heads
12
)";
constexpr const char* kFoundDoc =
    R"(A layer in a file. config: None if it cannot be read; `missing` says why. tensors: from what it is to
its name in the file. notes: what the layer's model does that is not in these weights.

>>> import headwise, numpy
>>> tensors = {f"W_{x}.weight": numpy.ones((8, 8), numpy.float32) for x in "qkvo"}
>>> found, = headwise.find_layers(tensors)
>>> found.config, found.missing
(None, 'the file does not tell its number of heads (heads · key_dim = 8)')
>>> found.tensors["query/weight"]
'W_q.weight'
)";
constexpr const char* kFindDoc =
    R"(Every attention layer among these tensors, in natural order of names (layer.2 before layer.10).

tensors: a mapping from names to arrays, or a TensorFile's `tensors`. metadata: the file's.

>>> import headwise, numpy
>>> tensors = {f"W_{x}.weight": numpy.ones((8, 8), numpy.float32) for x in "qkvo"}
>>> found, = headwise.find_layers(tensors, hints=headwise.LayerHints(num_heads=2))
>>> found.layout.name, found.config.key_dim
('D2l', 4)
)";
constexpr const char* kReadDoc =
    R"(The layer's configuration and weights. source: a TensorFile, a mapping from names to arrays, or a
function of a name.

>>> import headwise, numpy
>>> tensors = {f"W_{x}.weight": numpy.ones((8, 8), numpy.float32) for x in "qkvo"}
>>> found, = headwise.find_layers(tensors, hints=headwise.LayerHints(num_heads=2))
>>> parts = headwise.read_layer(found, tensors)
>>> layer = headwise.MultiHeadAttention(parts.config, parts.weights)
)";
constexpr const char* kHoldsDoc =
    R"(Raises ArgumentError for what the layout cannot hold, and names it.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, value_dim=3, query_features=8)
>>> headwise.check_layout_holds(headwise.WeightLayout.Keras, config)
>>> try:
...     headwise.check_layout_holds(headwise.WeightLayout.Torch, config)
... except headwise.ArgumentError as error:
...     print(error)
[write_layer] value_dim: expected 4, as key_dim (all that torch can hold), got 3
)";
constexpr const char* kWriteDoc =
    R"(A layer as another library stores it: tensors by name, and metadata that restores what shapes do not
tell. name: goes in front of the tensors' names.

>>> import headwise
>>> config = headwise.presets.torch(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> stored = headwise.write_layer(parts, headwise.WeightLayout.Torch, "encoder.0")
>>> {name: array.shape for name, array in stored.tensors.items()}["encoder.0.in_proj_weight"]
(24, 8)
)";
constexpr const char* kKerasDoc =
    R"(A whole Keras model, as .weights.h5 and .keras hold it: each layer with inputs of its own, in the order
query, value, key, and an output of its own.

>>> import headwise
>>> config = headwise.presets.keras(2, 4, query_features=8)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> model = headwise.keras_model_of({"attention": parts})
>>> "layers/multi_head_attention/query_dense/vars/0" in model.tensors, "config.json" in model.metadata
(True, True)
)";
constexpr const char* kStoredDoc = R"(What write_layer() and keras_model_of() return.

>>> import headwise
>>> config = headwise.presets.d2l(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> stored = headwise.write_layer(parts, headwise.WeightLayout.D2l)
>>> sorted(stored.tensors)
['W_k.weight', 'W_o.weight', 'W_q.weight', 'W_v.weight']
)";
constexpr const char* kDifferenceDoc = R"(What compare_layers() returns.

>>> import headwise, numpy
>>> config = headwise.presets.paper(8, 2)
>>> a, b = (headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=seed))
...         for seed in (1, 2))
>>> x = numpy.ones((1, 3, 8), numpy.float32)
>>> difference = headwise.compare_layers(a, [x], b, [x])
>>> difference.same_bits, difference.output_error > 0, len(difference.weight_changes)
(False, True, 2)
)";
constexpr const char* kScaleDoc =
    R"(The same function with scale 1/√key_dim, all that most layouts can hold.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8, scale=1.0)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> headwise.with_default_scale(parts).config.scale
)";
constexpr const char* kCompareDoc =
    R"(What two layers make of the same input, or each of its own. Inputs are (batch, tokens, features):
query, key and value, or the first of them.

>>> import headwise, numpy
>>> config = headwise.presets.paper(8, 2)
>>> parts = headwise.LayerParts(config, headwise.AttentionWeights.glorot(config, seed=1))
>>> x = numpy.ones((1, 3, 8), numpy.float32)
>>> headwise.compare_layers(parts, [x], parts, [x]).same_bits
True
)";

void bind_layout(nb::module_& module) {
  nb::enum_<WeightLayout>(module, "WeightLayout", kLayoutDoc)
      .value("Headwise", WeightLayout::Headwise)
      .value("Keras", WeightLayout::Keras)
      .value("Torch", WeightLayout::Torch)
      .value("Flax", WeightLayout::Flax)
      .value("D2l", WeightLayout::D2l)
      .value("Bert", WeightLayout::Bert)
      .value("Llama", WeightLayout::Llama)
      .value("Gpt2", WeightLayout::Gpt2);
  module.def("check_layout_holds", &check_layout_holds, nb::arg("layout"), nb::arg("config"),
             kHoldsDoc);
}

void bind_hints(nb::module_& module) {
  using nb::arg;
  const auto none = [](const char* name) { return arg(name) = nb::none(); };
  using Size = std::optional<std::int64_t>;
  using Number = std::optional<float>;
  nb::class_<LayerHints>(module, "LayerHints", kHintsDoc)
      .def(
          "__init__",
          [](LayerHints* self, Size num_heads, Size num_kv_heads, Size key_dim, Number scale,
             Number softcap, Number qk_norm_epsilon, bool norms_add_one) {
            new (self) LayerHints{num_heads, num_kv_heads,    key_dim,      scale,
                                  softcap,   qk_norm_epsilon, norms_add_one};
          },
          nb::kw_only(), none("num_heads"), none("num_kv_heads"), none("key_dim"), none("scale"),
          none("softcap"), none("qk_norm_epsilon"), arg("norms_add_one") = false)
      .def_ro("num_heads", &LayerHints::num_heads)
      .def_ro("num_kv_heads", &LayerHints::num_kv_heads)
      .def_ro("key_dim", &LayerHints::key_dim)
      .def_ro("scale", &LayerHints::scale)
      .def_ro("softcap", &LayerHints::softcap)
      .def_ro("qk_norm_epsilon", &LayerHints::qk_norm_epsilon)
      .def_ro("norms_add_one", &LayerHints::norms_add_one)
      .def_ro("scale_by_place", &LayerHints::scale_by_place)
      .def_ro("normed", &LayerHints::normed)
      .def_ro("heads_differ", &LayerHints::heads_differ)
      .def_ro("refusal", &LayerHints::refusal)
      .def_ro("rotary", &LayerHints::rotary)
      .def_ro("causal", &LayerHints::causal)
      .def_ro("notes", &LayerHints::notes)
      .def_ro("place_notes", &LayerHints::place_notes);
  module.def("hints_from_config", &hints_from_config, arg("config_json"), kFromConfigDoc);
}

void bind_found(nb::module_& module) {
  using nb::arg;
  nb::class_<FoundLayer>(module, "FoundLayer", kFoundDoc)
      .def_ro("name", &FoundLayer::name, "What the tensors' names have in common.")
      .def_ro("layout", &FoundLayer::layout)
      .def_ro("config", &FoundLayer::config)
      .def_ro("missing", &FoundLayer::missing)
      .def_ro("tensors", &FoundLayer::tensors)
      .def_ro("notes", &FoundLayer::notes)
      .def_ro("rotary", &FoundLayer::rotary)
      .def_ro("output_axes", &FoundLayer::output_axes);
  module.def(
      "find_layers",
      [](NamedShapesGiven tensors, const Texts& metadata, const LayerHints* hints) {
        return find_layers(named_shapes(tensors), metadata,
                           hints == nullptr ? LayerHints{} : *hints);
      },
      arg("tensors"), arg("metadata") = Texts{}, arg("hints") = nb::none(), kFindDoc);
  module.def("read_layer", &read, arg("found"), arg("source"), kReadDoc);
}

void bind_written(nb::module_& module) {
  using nb::arg;
  nb::class_<StoredValue>(module, "StoredLayer", kStoredDoc)
      .def_prop_ro("tensors",
                   [](const StoredValue& self) { return WeightsMade(nb::borrow(self.tensors)); })
      .def_ro("metadata", &StoredValue::metadata);
  module.def(
      "write_layer",
      [](const PartsValue& layer, WeightLayout layout, const std::string& name) {
        return StoredValue(write_layer(layer.parts(), layout, name));
      },
      arg("layer"), arg("layout"), arg("name") = "", kWriteDoc);
  module.def("keras_model_of", &keras_model, arg("layers"), kKerasDoc);
  module.def(
      "with_default_scale",
      [](const PartsValue& layer) { return PartsValue(with_default_scale(layer.parts())); },
      arg("layer"), kScaleDoc);
  nb::class_<LayerDifference>(module, "LayerDifference", kDifferenceDoc)
      .def_ro("same_bits", &LayerDifference::same_bits, "Of the outputs.")
      .def_ro("output_error", &LayerDifference::output_error, "√(Σ(a − b)² / Σa²) over the output.")
      .def_ro("weight_changes", &LayerDifference::weight_changes,
              "For each head, the largest difference of an attention weight.")
      .def_ro(
          "score_errors", &LayerDifference::score_errors,
          "For each head, √(Σ(a − b)² / Σa²) over the scores, each row of them about its mean.");
  module.def("compare_layers", &compare, arg("a"), arg("inputs_of_a"), arg("b"), arg("inputs_of_b"),
             kCompareDoc);
}

}  // namespace

void bind_layouts(nb::module_& module) {
  bind_layout(module);
  bind_hints(module);
  bind_found(module);
  bind_written(module);
}

}  // namespace headwise::python
