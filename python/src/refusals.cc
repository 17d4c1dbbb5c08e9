#include "refusals.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "arrays.h"

namespace headwise::python {

namespace {

// "name: annotation = default", as the signature that nanobind writes for stubs has it.
struct Parameter {
  std::string name;
  std::string annotation;
  bool has_default = false;
  bool keyword_only = false;
};

Parameter parse_parameter(const std::string& text) {
  const std::size_t equals = text.find(" = ");
  const std::string head = text.substr(0, equals);
  const std::size_t colon = head.find(": ");
  std::string annotation = colon == std::string::npos ? "" : head.substr(colon + 2);
  for (const std::string module : {"headwise._core.", "collections.abc."}) {
    for (std::size_t at = 0; (at = annotation.find(module)) != std::string::npos;) {
      annotation.erase(at, module.size());
    }
  }
  return {head.substr(0, colon), std::move(annotation), equals != std::string::npos};
}

// Of "def name(…) -> …": what stands between the outer parentheses, at their commas.
std::vector<Parameter> parse_parameters(const std::string& signature) {
  std::vector<Parameter> parameters;
  std::string text;
  bool keyword_only = false;
  int depth = 0;
  const auto finish = [&] {
    if (text == "*") keyword_only = true;
    if (!text.empty() && text != "*" && text != "/") {
      parameters.push_back(parse_parameter(text));
      parameters.back().keyword_only = keyword_only;
    }
    text.clear();
  };
  for (std::size_t i = signature.find('(') + 1; i < signature.size(); ++i) {
    const char letter = signature[i];
    if (std::strchr("([", letter) != nullptr) ++depth;
    if (std::strchr(")]", letter) != nullptr && --depth < 0) break;
    if (letter == ',' && depth == 0) {
      finish();
    } else if (letter != ' ' || !text.empty()) {
      text += letter;
    }
  }
  finish();
  return parameters;
}

// "MultiHeadAttention.forward", "presets.torch", "Dropout": who refuses.
std::string label_of(nb::handle function) {
  auto label = nb::cast<std::string>(function.attr("__qualname__"));
  for (const std::string ending : {".__init__", ".__new__", ".__call__"}) {
    if (label.ends_with(ending)) label.erase(label.size() - ending.size());
  }
  const auto module = nb::cast<std::string>(function.attr("__module__"));
  return (module.ends_with(".presets") ? "presets." : "") + label;
}

std::string in_words(const std::string& annotation) {
  if (annotation == "FloatArray") return "an array of float32";
  if (annotation == "BoolArray") return "an array of bool";
  if (annotation == "Integers") return "integers";
  if (annotation == "int") return "an integer";
  if (annotation == "float") return "a number";
  if (annotation == "bool") return "True or False";
  if (annotation == "str") return "text";
  return annotation;
}

bool is_owner(const Parameter& parameter) {
  return parameter.name == "self" || parameter.name == "cls";
}

std::string list_of(const std::vector<Parameter>& parameters) {
  std::string names;
  for (const Parameter& parameter : parameters) {
    if (!is_owner(parameter)) names += (names.empty() ? "" : ", ") + parameter.name;
  }
  return names;
}

// Whether the object is of the class that the annotation names; true for all other annotations.
bool fits(nb::handle given, const std::string& annotation) {
  PyObject* const object = given.ptr();
  if (annotation == "int") return PyIndex_Check(object) != 0;
  if (annotation == "float") return PyNumber_Check(object) != 0 && PyComplex_Check(object) == 0;
  if (annotation == "bool") return PyBool_Check(object) != 0;
  if (annotation == "str") return PyUnicode_Check(object) != 0;
  const nb::object core = nb::module_::import_("headwise._core");
  const nb::object type = nb::getattr(core, annotation.c_str(), nb::none());
  if (PyType_Check(type.ptr()) == 0) return true;
  return PyObject_IsInstance(object, type.ptr()) != 0 && is_ready(given);
}

// What stands in the brackets of "Sequence[…]"; empty for another annotation.
std::string inside(const std::string& annotation, const std::string& name) {
  if (!annotation.starts_with(name + "[") || !annotation.ends_with("]")) return "";
  return annotation.substr(name.size() + 1, annotation.size() - name.size() - 2);
}

// Throws if the object, or one in it, is not what the annotation says.
void check(const std::string& label, const std::string& name, std::string annotation,
           nb::handle given) {
  const Argument argument{label.c_str(), name.c_str()};
  const std::string or_none = " | None";
  if (annotation.ends_with(or_none)) {
    if (given.is_none()) return;
    annotation.erase(annotation.size() - or_none.size());
  }
  if (const std::string each = inside(annotation, "Sequence"); !each.empty()) {
    if (PySequence_Check(given.ptr()) == 0 || PyUnicode_Check(given.ptr()) != 0) {
      fail_type(argument, "a sequence", brief_repr(given));
    }
    std::size_t i = 0;
    for (const nb::handle one : given) {
      check(label, name + "[" + std::to_string(i++) + "]", each, one);
    }
  } else if (inside(annotation, "Mapping") == "str, str") {
    if (!nb::hasattr(given, "items")) fail_type(argument, "a mapping", brief_repr(given));
    for (const nb::handle item : given.attr("items")()) {
      const std::string key = name_in_mapping(nb::object(item[0]), argument);
      check(label, name + "[\"" + key + "\"]", "str", nb::object(item[1]));
    }
  } else if (given.is_none() || !fits(given, annotation)) {
    fail_type(argument, in_words(annotation), brief_repr(given));
  }
}

// A call as CPython makes it: values without names, then those of `names`.
struct GivenValues {
  PyObject* const* values;
  std::size_t unnamed;
  PyObject* names;
};

// The value of each parameter, invalid where none was given. Throws for values that have no parameter.
std::vector<nb::handle> assign(const GivenValues& given, const std::vector<Parameter>& parameters,
                               const std::string& label) {
  const Argument arguments{label.c_str(), "arguments"};
  std::vector<nb::handle> values(parameters.size());
  for (std::size_t i = 0; i < given.unnamed; ++i) {
    if (i >= parameters.size() || parameters[i].keyword_only) {
      const std::string names = list_of(parameters);
      fail_type(arguments, names.empty() ? "none" : names + ", some of them by name",
                std::to_string(given.unnamed) + " without names");
    }
    values[i] = given.values[i];
  }
  const std::size_t named = given.names == nullptr ? 0 : nb::len(nb::handle(given.names));
  for (std::size_t i = 0; i < named; ++i) {
    const auto name = nb::cast<std::string>(nb::object(nb::handle(given.names)[i]));
    const auto found = std::ranges::find(parameters, name, &Parameter::name);
    if (found == parameters.end()) fail_type(arguments, list_of(parameters), name);
    nb::handle& value = values[static_cast<std::size_t>(found - parameters.begin())];
    if (value.is_valid()) fail_type({label.c_str(), name.c_str()}, "one value", "two");
    value = given.values[given.unnamed + i];
  }
  return values;
}

// If all are of the right kind, one is a number that does not fit: throws for the most likely one.
void blame_range(const std::string& label, const std::vector<Parameter>& parameters,
                 const std::vector<nb::handle>& values) {
  const Parameter* largest = nullptr;
  nb::handle most;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!parameters[i].annotation.starts_with("int") || !values[i].is_valid()) continue;
    if (values[i].is_none()) continue;
    if (values[i] < nb::int_(0)) {
      fail_type({label.c_str(), parameters[i].name.c_str()}, "an integer ≥ 0",
                brief_repr(values[i]));
    }
    if (largest == nullptr || values[i] > most) {
      largest = &parameters[i];
      most = values[i];
    }
  }
  if (largest == nullptr) return;
  fail_type({label.c_str(), largest->name.c_str()}, "a smaller integer", brief_repr(most));
}

// Throws for the first argument that is to blame; returns if none is found.
void blame(nb::handle function, const GivenValues& given) {
  const nb::object signatures = function.attr("__nb_signature__");
  const std::size_t last = nb::len(signatures) - 1;  // nb::new_ puts one of its own before ours
  const auto parameters = parse_parameters(nb::cast<std::string>(signatures[last][0]));
  const std::string label = label_of(function);
  const std::vector<nb::handle> values = assign(given, parameters, label);
  const auto name = nb::cast<std::string>(function.attr("__name__"));
  const bool makes_self = name == "__init__" || name == "__setstate__";
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const Argument argument{label.c_str(), parameter.name.c_str()};
    if (is_owner(parameter)) {
      if (!makes_self && values[i].is_valid() && !is_ready(values[i])) {
        fail_type(argument, "an object that __init__ has made", brief_repr(values[i]));
      }
    } else if (values[i].is_valid()) {
      check(label, parameter.name, parameter.annotation, values[i]);
    } else if (!parameter.has_default) {
      fail_type(argument, in_words(parameter.annotation), "nothing");
    }
  }
  blame_range(label, parameters, values);
}

// With nanobind's error set: puts ours in its place, if there is more to say.
void refuse(nb::handle function, const GivenValues& given) {
  nb::python_error theirs;
  try {
    const auto text = nb::cast<std::string>(nb::str(theirs.value()));
    if (text.find("incompatible function arguments") != std::string::npos) blame(function, given);
  } catch (const nb::builtin_exception& ours) {
    PyErr_SetString(PyExc_TypeError, ours.what());
    return;
  } catch (const std::exception&) {
    // A signature that we cannot read: their words stay.
  }
  theirs.restore();
}

// nanobind's ways to call a function, of which it has one for each kind of signature.
constexpr std::size_t kKinds = 8;
vectorcallfunc known_calls[kKinds] = {};

template <std::size_t kind>
PyObject* call(PyObject* function, PyObject* const* given, std::size_t flagged, PyObject* names) {
  PyObject* const result = known_calls[kind](function, given, flagged, names);
  if (result == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    constexpr std::size_t kCount = 0xFFFF;  // the bits above are flags, CPython's and nanobind's
    refuse(function, {given, flagged & kCount, names});
  }
  return result;
}

template <std::size_t... kinds>
vectorcallfunc ours_for(vectorcallfunc theirs, std::index_sequence<kinds...> /*all*/) {
  constexpr vectorcallfunc kOurs[] = {&call<kinds>...};
  if (std::ranges::find(kOurs, theirs) != std::end(kOurs)) return theirs;
  for (std::size_t kind = 0; kind < kKinds; ++kind) {
    if (known_calls[kind] == nullptr) known_calls[kind] = theirs;
    if (known_calls[kind] == theirs) return kOurs[kind];
  }
  return theirs;
}

void refuse_in(nb::handle owner) {
  for (const nb::handle value : owner.attr("__dict__").attr("values")()) {
    const std::string type = Py_TYPE(value.ptr())->tp_name;
    if (type.ends_with("nb_func") || type.ends_with("nb_method")) {
      // CPython's protocol: where an object keeps the function by which it is called.
      auto& slot = *reinterpret_cast<vectorcallfunc*>(reinterpret_cast<std::byte*>(value.ptr()) +
                                                      Py_TYPE(value.ptr())->tp_vectorcall_offset);
      slot = ours_for(slot, std::make_index_sequence<kKinds>());
    } else if (nb::type_check(value) || PyModule_Check(value.ptr()) != 0) {
      refuse_in(value);
    }
  }
}

}  // namespace

void refuse_in_our_words(nb::module_& module) { refuse_in(module); }

}  // namespace headwise::python
