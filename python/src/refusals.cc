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
  const std::string own = "headwise._core.";
  if (annotation.starts_with(own)) annotation.erase(0, own.size());
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
  if (annotation == "int") return PyIndex_Check(given.ptr()) != 0;
  if (annotation == "bool") return PyBool_Check(given.ptr()) != 0;
  if (annotation == "str") return PyUnicode_Check(given.ptr()) != 0;
  const nb::object core = nb::module_::import_("headwise._core");
  const nb::object type = nb::getattr(core, annotation.c_str(), nb::none());
  return PyType_Check(type.ptr()) == 0 || PyObject_IsInstance(given.ptr(), type.ptr()) != 0;
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
      fail_type(arguments, list_of(parameters) + ", some of them by name",
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

// Throws for the first argument that is to blame; returns if none is found.
void blame(nb::handle function, const GivenValues& given) {
  const nb::object signatures = function.attr("__nb_signature__");
  const std::size_t last = nb::len(signatures) - 1;  // nb::new_ puts one of its own before ours
  const auto parameters = parse_parameters(nb::cast<std::string>(signatures[last][0]));
  const std::string label = label_of(function);
  const std::vector<nb::handle> values = assign(given, parameters, label);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    const Argument argument{label.c_str(), parameter.name.c_str()};
    const std::string expected = in_words(parameter.annotation);
    const bool takes_none = parameter.annotation.find("None") != std::string::npos;
    if (is_owner(parameter)) continue;
    if (!values[i].is_valid()) {
      if (!parameter.has_default) fail_type(argument, expected, "nothing");
    } else if (values[i].is_none() ? !takes_none : !fits(values[i], parameter.annotation)) {
      fail_type(argument, expected, brief_repr(values[i]));
    }
  }
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
