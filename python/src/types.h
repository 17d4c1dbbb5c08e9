// Python's types under the names that signatures and stubs show. Those of arrays are declared in
// python/headwise/_types.py.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "casters.h"

namespace headwise::python {

template <std::size_t size>
struct Text {
  // NOLINTNEXTLINE(google-explicit-constructor): so that a literal can be a template's argument
  constexpr Text(const char (&text)[size]) { std::copy_n(text, size, letters); }
  char letters[size] = {};
};

// An argument of any type: whoever uses it checks it, and has better words for what is wrong.
template <Text name>
class Given : public nb::handle {
 public:
  static constexpr auto Name = nb::detail::const_name(name.letters);
  static bool check_(nb::handle /*any*/) { return true; }
  using nb::handle::handle;
  using nb::handle::operator=;
  Given(const nb::handle& given) : nb::handle(given) {}  // NOLINT(google-explicit-constructor)
};

// A result of a type that nanobind does not know.
template <Text name>
class Made : public nb::object {
 public:
  static constexpr auto Name = nb::detail::const_name(name.letters);
  using nb::object::object;
  Made(nb::object&& made)  // NOLINT(google-explicit-constructor)
      : nb::object(std::move(made)) {}
};

using FloatsGiven = Given<"FloatArray">;
using BoolsGiven = Given<"BoolArray">;
using IntegersGiven = Given<"Integers">;
using FieldsGiven = Given<"dict[str, object]">;
using WeightsGiven = Given<"Mapping[str, FloatArray]">;
using StateGiven = Given<"tuple[object, ...]">;
using PathGiven = Given<"PathLike">;
using MaskGiven = Given<"Mask">;
using BiasGiven = Given<"Bias | Sequence[Bias]">;
using FlagGiven = Given<"bool">;
using IntegerGiven = Given<"int">;
using NumberGiven = Given<"float">;
using TextGiven = Given<"str">;
using AlignmentGiven = Given<"Alignment">;
using AxesGiven = Given<"Axes">;
using ConfigGiven = Given<"AttentionConfig">;
using ContextGiven = Given<"Context">;
using DropoutGiven = Given<"Dropout">;
using LayoutGiven = Given<"Layout">;
using PackedGiven = Given<"PackedLengths">;
using RequestGiven = Given<"WeightsRequest">;
using ResultGiven = Given<"AttentionResult">;

using FloatsMade = Made<"NDArray[numpy.float32]">;
using MaybeFloatsMade = Made<"NDArray[numpy.float32] | None">;
using IndicesMade = Made<"NDArray[numpy.int64]">;
using WeightsMade = Made<"dict[str, NDArray[numpy.float32]]">;
using FieldsMade = Made<"dict[str, object]">;
using FloatsListMade = Made<"list[NDArray[numpy.float32]]">;
using ShapeMade = Made<"tuple[int, ...]">;
using AnyArrayMade = Made<"NDArray[numpy.float32] | NDArray[numpy.int64] | NDArray[numpy.bool_]">;
using ReducedMade = Made<"tuple[object, ...]">;

}  // namespace headwise::python
