#include "weights.h"

#include <string>
#include <utility>

#include "bindings.h"
#include "types.h"

namespace headwise::python {

namespace {

const WeightField* find_field(const AttentionConfig& config, const std::string& name) {
  for (const WeightField& field : weight_fields()) {
    if (field.name == name && field.present(config)) return &field;
  }
  return nullptr;
}

[[noreturn]] void fail_unknown(const AttentionConfig& config, const std::string& name,
                               const Argument& argument) {
  std::string known;
  for (const WeightRow& row : describe(config).rows) {
    known += (known.empty() ? "" : ", ") + row.name;
  }
  fail_value(argument, "the names " + known, "'" + name + "'");
}

template <typename Convert>
nb::dict make_dict(Convert convert) {
  nb::dict dict;
  for (const WeightField& field : weight_fields()) {
    nb::object array = convert(field);
    if (array.is_valid()) dict[field.name] = std::move(array);
  }
  return dict;
}

constexpr const char* kInitializerDoc =
    R"(How kernels begin: GlorotUniform, ±√(6 / (in + out)) of the whole flat matrix; GlorotNormal,
deviation √(2 / (in + out)); LecunNormal, deviation √(1 / in); Zeros.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8)
>>> weights = headwise.AttentionWeights.initialise(config, headwise.Initializer.LecunNormal, seed=3)
>>> weights["query/kernel"].shape
(8, 8)
)";

constexpr const char* kWeightsDoc =
    R"(Where a layer's parameters begin. What C++ calls by this name is a dict here, from names to float32
arrays: kernels are (in, out) over all heads, head h being a block of columns (of the output kernel:
of rows). describe() lists them.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8, use_bias=False)
>>> weights = headwise.AttentionWeights.glorot(config, seed=7)
>>> {name: array.shape for name, array in weights.items()}
{'query/kernel': (8, 8), 'key/kernel': (8, 8), 'value/kernel': (8, 8), 'attention_output/kernel': (8, 8)}
)";

constexpr const char* kRowDoc = R"(One tensor of a WeightTable.

>>> import headwise
>>> row = headwise.describe(headwise.presets.paper()).rows[0]
>>> row.name, row.shape, row.flat_shape, row.count
('query/kernel', (512, 8, 64), (512, 512), 262144)
)";

constexpr const char* kTableDoc = R"(The parameters of a configuration; str() of it is a table.

>>> import headwise
>>> table = headwise.describe(headwise.presets.paper())
>>> table.total, len(table.rows)
(1048576, 4)
)";

constexpr const char* kDescribeDoc =
    R"(The parameters that a layer of this configuration really has.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=8, key_dim=64, value_dim=32, query_features=512,
...                                   use_bias=False)
>>> print(headwise.describe(config))  # doctest: +NORMALIZE_WHITESPACE
name                     shape         flat         numbers
query/kernel             (512, 8, 64)  (512, 512)   262,144
key/kernel               (512, 8, 64)  (512, 512)   262,144
value/kernel             (512, 8, 32)  (512, 256)   131,072
attention_output/kernel  (8, 32, 512)  (256, 512)   131,072
total                    4 tensors                  786,432
)";

struct Initial {};  // a name for the functions below, no object

void bind_initial_weights(nb::module_& module) {
  nb::enum_<Initializer>(module, "Initializer", kInitializerDoc)
      .value("GlorotUniform", Initializer::GlorotUniform)
      .value("GlorotNormal", Initializer::GlorotNormal)
      .value("LecunNormal", Initializer::LecunNormal)
      .value("Zeros", Initializer::Zeros);
  using nb::arg;
  nb::class_<Initial>(module, "AttentionWeights", kWeightsDoc)
      .def_static(
          "initialise",
          [](const AttentionConfig& config, Initializer initializer, std::uint64_t seed) {
            return WeightsMade(to_dict(AttentionWeights::initialise(config, initializer, seed)));
          },
          arg("config"), arg("initializer"), arg("seed"),
          "Kernels by the initialiser, biases zero, norm scales one.")
      .def_static(
          "glorot",
          [](const AttentionConfig& config, std::uint64_t seed) {
            return WeightsMade(to_dict(AttentionWeights::glorot(config, seed)));
          },
          arg("config"), arg("seed"), "As Keras begins: Glorot uniform kernels, zero biases.")
      .def_static(
          "zeros",
          [](const AttentionConfig& config) {
            return WeightsMade(to_dict(AttentionWeights::zeros(config)));
          },
          arg("config"), "Zeros in every tensor.");
}

}  // namespace

AttentionWeights weights_of(nb::handle mapping, const AttentionConfig& config,
                            const Argument& argument) {
  if (!nb::hasattr(mapping, "items")) {
    fail_type(argument, "a mapping from names to arrays", name_of_type(mapping));
  }
  validate(config);
  AttentionWeights weights;
  for (const nb::handle item : mapping.attr("items")()) {
    const std::string name = name_in_mapping(nb::object(item[0]), argument);
    const WeightField* field = find_field(config, name);
    if (field == nullptr) fail_unknown(config, name, argument);
    Tensor tensor = copy_of(item[1], {argument.function, field->name});
    if (tensor.shape() == field->head_shape(config)) {
      tensor = std::move(tensor).reshaped(field->flat_shape(config));
    }
    weights.*field->tensor = std::move(tensor);
  }
  return weights;
}

nb::dict to_dict(AttentionWeights&& weights) {
  return make_dict([&](const WeightField& field) {
    Tensor& tensor = weights.*field.tensor;
    return tensor.size() == 0 ? nb::object() : to_numpy(std::move(tensor));
  });
}

nb::dict to_dict(const AttentionWeights& weights, nb::handle owner) {
  return make_dict([&](const WeightField& field) {
    const Tensor& tensor = weights.*field.tensor;
    return tensor.size() == 0 ? nb::object() : to_numpy(tensor, owner);
  });
}

void bind_weights(nb::module_& module) {
  bind_initial_weights(module);
  nb::class_<WeightRow>(module, "WeightRow", kRowDoc)
      .def_ro("name", &WeightRow::name)
      .def_prop_ro(
          "shape", [](const WeightRow& row) { return ShapeMade(to_tuple(row.shape)); },
          "With heads as an axis.")
      .def_prop_ro(
          "flat_shape", [](const WeightRow& row) { return ShapeMade(to_tuple(row.flat_shape)); },
          "As stored.")
      .def_ro("count", &WeightRow::count);
  nb::class_<WeightTable>(module, "WeightTable", kTableDoc)
      .def_ro("rows", &WeightTable::rows)
      .def_ro("total", &WeightTable::total)
      .def("__str__", [](const WeightTable& table) {
        std::string text = table.to_string();
        text.pop_back();  // the last line's end, which print() adds
        return text;
      });
  module.def("describe", &describe, nb::arg("config"), kDescribeDoc);
}

}  // namespace headwise::python
