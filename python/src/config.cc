// AttentionConfig: a value that does not change once made.
#include "headwise/config.h"

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include "arrays.h"
#include "bindings.h"
#include "options.h"
#include "types.h"
#include "values.h"

namespace headwise::python {

namespace {

template <typename T>
struct Field {
  const char* name;
  T AttentionConfig::*member;
};
template <typename T>
Field(const char*, T AttentionConfig::*) -> Field<T>;

// Arguments, attributes, repr, equality and pickling all walk this list.
constexpr auto kFields = std::tuple{
    Field{"num_heads", &AttentionConfig::num_heads},
    Field{"num_kv_heads", &AttentionConfig::num_kv_heads},
    Field{"key_dim", &AttentionConfig::key_dim},
    Field{"value_dim", &AttentionConfig::value_dim},
    Field{"query_features", &AttentionConfig::query_features},
    Field{"key_features", &AttentionConfig::key_features},
    Field{"value_features", &AttentionConfig::value_features},
    Field{"output_features", &AttentionConfig::output_features},
    Field{"use_bias", &AttentionConfig::use_bias},
    Field{"use_output_bias", &AttentionConfig::use_output_bias},
    Field{"dropout", &AttentionConfig::dropout},
    Field{"scale", &AttentionConfig::scale},
    Field{"softcap", &AttentionConfig::softcap},
    Field{"use_gate", &AttentionConfig::use_gate},
    Field{"qk_norm", &AttentionConfig::qk_norm},
    Field{"qk_norm_epsilon", &AttentionConfig::qk_norm_epsilon},
    Field{"add_bias_kv", &AttentionConfig::add_bias_kv},
    Field{"add_zero_attn", &AttentionConfig::add_zero_attn},
    Field{"seed", &AttentionConfig::seed},
};

template <typename Visit>
void for_each_field(Visit visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, kFields);
}

// `config` with some of its fields replaced, and checked.
AttentionConfig replaced(AttentionConfig config, const nb::dict& changes) {
  std::size_t known = 0;
  for_each_field([&](const auto& field) {
    if (!changes.contains(field.name)) return;
    ++known;
    using Value = std::remove_cvref_t<decltype(config.*field.member)>;
    config.*field.member =
        option_of<Value>(nb::object(changes[field.name]), {"AttentionConfig", field.name});
  });
  if (known != changes.size()) {
    for_each_field([&](const auto& field) {
      if (changes.contains(field.name)) nb::del(changes[field.name]);
    });
    fail_type({"AttentionConfig", "arguments"}, "its fields",
              nb::cast<std::string>(nb::str(", ").attr("join")(changes)));
  }
  validate(config);
  return config;
}

bool equal(const AttentionConfig& a, const AttentionConfig& b) {
  bool same = true;
  for_each_field([&](const auto& field) { same = same && a.*field.member == b.*field.member; });
  return same;
}

// The fields that are not as an AttentionConfig has them by itself.
nb::dict state(const AttentionConfig& config) {
  nb::dict fields;
  for_each_field([&](const auto& field) {
    if (config.*field.member != AttentionConfig{}.*field.member) {
      fields[field.name] = config.*field.member;
    }
  });
  return fields;
}

std::string text(float number) { return text_of(number); }
std::string text(const std::optional<float>& number) { return text_of(*number); }
template <typename T>
std::string text(const T& value) {
  const nb::object object = nb::cast(value);
  // Enumerators read as Python code: QkNorm.RmsNorm.
  return nb::cast<std::string>(std::is_enum_v<T> ? nb::str(object) : nb::repr(object));
}

std::string repr(const AttentionConfig& config) {
  std::string list;
  for_each_field([&](const auto& field) {
    if (config.*field.member == AttentionConfig{}.*field.member) return;
    list += (list.empty() ? "" : ", ") + std::string(field.name) + "=" + text(config.*field.member);
  });
  return "AttentionConfig(" + list + ")";
}

constexpr const char* kNormDoc = R"(Normalisation of every projected query and key head.

>>> import headwise
>>> headwise.AttentionConfig(num_heads=2, key_dim=4, query_features=8,
...                          qk_norm=headwise.QkNorm.RmsNorm)
AttentionConfig(num_heads=2, key_dim=4, query_features=8, qk_norm=QkNorm.RmsNorm)
)";

constexpr const char* kConfigDoc =
    R"(What a multi-head attention layer is made of. Names as in Keras; it never changes once made.

num_heads, key_dim and query_features have to be given. Left out, num_kv_heads is num_heads (a divisor
of it makes grouped heads), value_dim is key_dim, key_features is query_features, value_features is
key_features, output_features is query_features, use_output_bias is use_bias, scale is 1/√key_dim.

>>> import headwise
>>> config = headwise.AttentionConfig(num_heads=8, key_dim=64, query_features=512, dropout=0.1)
>>> config
AttentionConfig(num_heads=8, key_dim=64, query_features=512, dropout=0.1)
>>> config.value_size, config.outputs
(64, 512)
>>> config.replace(num_kv_heads=2).kv_heads
2
)";

constexpr const char* kConfigSignature =
    "def __init__(self, *, num_heads: int, key_dim: int, query_features: int, "
    "num_kv_heads: int | None = None, value_dim: int | None = None, "
    "key_features: int | None = None, value_features: int | None = None, "
    "output_features: int | None = None, use_bias: bool = True, "
    "use_output_bias: bool | None = None, dropout: float = 0.0, scale: float | None = None, "
    "softcap: float | None = None, use_gate: bool = False, qk_norm: QkNorm = ..., "
    "qk_norm_epsilon: float = 1e-6, add_bias_kv: bool = False, add_zero_attn: bool = False, "
    "seed: int = 0) -> None";

}  // namespace

void bind_config(nb::module_& module) {
  nb::enum_<QkNorm>(module, "QkNorm", kNormDoc)
      .value("None_", QkNorm::None, "None of it.")
      .value("RmsNorm", QkNorm::RmsNorm, "scale · x / rms(x)")
      .value("LayerNorm", QkNorm::LayerNorm, "The same after subtracting the mean.");

  nb::class_<AttentionConfig> config(module, "AttentionConfig", kConfigDoc);
  config.def(
      "__init__",
      [](AttentionConfig* self, const nb::kwargs& fields) {
        for (const char* name : {"num_heads", "key_dim", "query_features"}) {
          if (!fields.contains(name)) fail_type({"AttentionConfig", name}, "an integer", "nothing");
        }
        new (self) AttentionConfig(replaced({}, fields));
      },
      nb::sig(kConfigSignature));
  for_each_field([&](const auto& field) { config.def_ro(field.name, field.member); });
  config.def_prop_ro("kv_heads", &AttentionConfig::kv_heads, "num_kv_heads, or its default.")
      .def_prop_ro("value_size", &AttentionConfig::value_size, "value_dim, or its default.")
      .def_prop_ro("key_inputs", &AttentionConfig::key_inputs, "key_features, or its default.")
      .def_prop_ro("value_inputs", &AttentionConfig::value_inputs,
                   "value_features, or its default.")
      .def_prop_ro("outputs", &AttentionConfig::outputs, "output_features, or its default.")
      .def_prop_ro("has_output_bias", &AttentionConfig::has_output_bias,
                   "use_output_bias, or its default.")
      .def_prop_ro("score_scale", &AttentionConfig::score_scale, "scale, or its default.")
      .def_prop_ro("extra_keys", &AttentionConfig::extra_keys,
                   "Keys that follow the caller's own and that no mask hides.")
      .def(
          "replace",
          [](const AttentionConfig& self, const nb::kwargs& fields) {
            return replaced(self, fields);
          },
          nb::sig("def replace(self, **fields: object) -> AttentionConfig"),
          "The same configuration with other values in some fields.")
      .def("__repr__", &repr)
      .def("__eq__", &equal, nb::is_operator(), nb::sig(kEqualSignature))
      .def("__hash__",
           [](const AttentionConfig& self) { return nb::hash(nb::tuple(state(self).items())); })
      .def("__getstate__", [](const AttentionConfig& self) { return FieldsMade(state(self)); })
      .def("__setstate__", [](AttentionConfig* self, FieldsGiven fields) {
        new (self) AttentionConfig(replaced({}, nb::cast<nb::dict>(fields)));
      });
}

}  // namespace headwise::python
