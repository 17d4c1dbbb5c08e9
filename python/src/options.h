// Arguments that are no arrays, taken from the objects that Python gives: nanobind by itself answers a
// wrong type with every signature that it knows.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "arrays.h"
#include "call.h"
#include "headwise/attention.h"
#include "headwise/config.h"
#include "results.h"

namespace headwise::python {

// What T is called in the errors of whoever was given something else.
template <typename T>
inline constexpr const char* kExpected = nullptr;
template <>
inline constexpr const char* kExpected<bool> = "True or False";
template <>
inline constexpr const char* kExpected<std::optional<bool>> = "True, False or None";
template <>
inline constexpr const char* kExpected<float> = "a number";
template <>
inline constexpr const char* kExpected<std::optional<float>> = "a number or None";
template <>
inline constexpr const char* kExpected<std::int64_t> = "an integer";
template <>
inline constexpr const char* kExpected<std::optional<std::int64_t>> = "an integer or None";
template <>
inline constexpr const char* kExpected<std::optional<int>> = "an integer or None";
template <>
inline constexpr const char* kExpected<std::uint64_t> = "an integer ≥ 0";
template <>
inline constexpr const char* kExpected<std::optional<std::uint64_t>> = "an integer ≥ 0 or None";
template <>
inline constexpr const char* kExpected<std::optional<std::string>> = "text or None";
template <>
inline constexpr const char* kExpected<QkNorm> = "a QkNorm";
template <>
inline constexpr const char* kExpected<Layout> = "Layout.SequenceFirst or Layout.HeadsFirst";
template <>
inline constexpr const char* kExpected<Alignment> = "Alignment.TopLeft or Alignment.BottomRight";
template <>
inline constexpr const char* kExpected<Axes> = "one of Axes, as Axes.BatchQueryKey";
template <>
inline constexpr const char* kExpected<const Dropout*> = "a Dropout, as Dropout(0.1, seed=1)";
template <>
inline constexpr const char* kExpected<const WeightsRequest*> =
    "a WeightsRequest, as all_weights() or top_k_weights(5)";
template <>
inline constexpr const char* kExpected<const PackedLengths*> =
    "PackedLengths, as PackedLengths([0, 3, 7])";
template <>
inline constexpr const char* kExpected<const ContextValue*> = "a Context, as Context(threads=2)";
template <>
inline constexpr const char* kExpected<const AttentionConfig*> =
    "an AttentionConfig, as AttentionConfig(num_heads=8, key_dim=64, query_features=512)";
template <>
inline constexpr const char* kExpected<ResultValue*> = "the AttentionResult of the forward call";

// An argument as T: a number, an enumerator, or a pointer to the value of a class; TypeError for
// anything else. A pointer is null for None. Enumerators have names: no number stands for one.
template <typename T>
[[nodiscard]] T option_of(nb::handle given, const Argument& argument) {
  T option{};
  if constexpr (std::is_pointer_v<T>) {
    if (given.is_none()) return nullptr;
    if (!nb::try_cast(given, option, false)) {
      fail_type(argument, kExpected<T>, name_of_type(given));
    }
  } else if (!nb::try_cast(given, option, !std::is_enum_v<T>)) {
    fail_type(argument, kExpected<T>, brief_repr(given));
  }
  return option;
}

// The same where None leaves it open.
template <typename T>
[[nodiscard]] std::optional<T> maybe_of(nb::handle given, const Argument& argument) {
  if (given.is_none()) return std::nullopt;
  return option_of<T>(given, argument);
}

}  // namespace headwise::python
