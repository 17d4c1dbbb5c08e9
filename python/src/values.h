// What makes a class a value in Python's eyes: it is compared, hashed, pickled and printed by its fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "casters.h"
#include "types.h"

namespace headwise::python {

// The signature that type checkers know from object.
inline constexpr const char* kEqualSignature = "def __eq__(self, other: object, /) -> bool";

// "0.1": the shortest spelling that names the same float; 0.1F is 0.10000000149 to Python.
std::string text_of(float number);
// "[0, 3, 7]", and of a long list its ends.
std::string text_of(const std::vector<std::int64_t>& numbers);

template <typename Field>
nb::object hashable(const Field& field) {
  return nb::cast(field);
}
inline nb::object hashable(const std::vector<std::int64_t>& field) {
  return nb::tuple(nb::cast(field));
}

// Fields in the order of the struct.
template <typename T, typename... Fields>
void bind_value(nb::class_<T>& type, Fields T::*... fields) {
  type.def(
          "__eq__",
          [fields...](const T& a, const T& b) { return ((a.*fields == b.*fields) && ...); },
          nb::is_operator(), nb::sig(kEqualSignature))
      .def("__hash__",
           [fields...](const T& self) {
             return nb::hash(nb::make_tuple(hashable(self.*fields)...));
           })
      .def("__getstate__",
           [fields...](const T& self) { return ReducedMade(nb::make_tuple(self.*fields...)); })
      .def("__setstate__", [](T* self, StateGiven state) {
        auto kept = nb::cast<std::tuple<Fields...>>(state);
        std::apply([&](Fields&... field) { new (self) T{std::move(field)...}; }, kept);
      });
}

}  // namespace headwise::python
