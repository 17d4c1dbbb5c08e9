// Masks and biases as values: by what they hide, whoever made them.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bindings.h"
#include "masks.h"
#include "values.h"

namespace headwise::python {

namespace {

template <typename T>
bool same(const TensorView<const T>& a, const TensorView<const T>& b) {
  if (a.shape() != b.shape()) return false;
  const auto x = BasicTensor<T>::copy_of(a);
  const auto y = BasicTensor<T>::copy_of(b);
  // A NaN is the same as a NaN: a value must be equal to its copy.
  return std::ranges::equal(x.values(), y.values(),
                            [](T p, T q) { return p == q || (p != p && q != q); });
}
template <typename T>
bool same(const SharedView<T>& a, const SharedView<T>& b) {
  return same(a.view(), b.view());
}
bool same(const KeepMask& a, const KeepMask& b) {
  return a.axes == b.axes && same(a.values, b.values);
}
bool same(const Segments& a, const Segments& b) {
  return same(a.query, b.query) && same(a.key, b.key);
}

// In any order, since a key is attended where all parts agree.
template <typename Part>
bool same_parts(const std::vector<Part>& a, const std::vector<Part>& b) {
  return std::ranges::is_permutation(a, b, [](const Part& p, const Part& q) { return same(p, q); });
}

bool equal_masks(const MaskValue& a, const MaskValue& b) {
  const Mask& p = a.mask;
  const Mask& q = b.mask;
  return p.left == q.left && p.right == q.right && p.positions == q.positions &&
         same_parts(p.key_lengths, q.key_lengths) && same_parts(p.query_lengths, q.query_lengths) &&
         same_parts(p.keeps, q.keeps) && same_parts(p.segments, q.segments);
}

template <typename T>
nb::object copied(const TensorView<const T>& view) {
  return to_numpy(BasicTensor<T>::copy_of(view));
}
nb::object state_of(const SharedView<std::int64_t>& numbers) { return copied(numbers.view()); }
nb::object state_of(const KeepMask& part) {
  return nb::make_tuple(copied(part.values.view()), part.axes);
}
nb::object state_of(const Segments& part) {
  return nb::make_tuple(copied(part.query.view()), copied(part.key.view()));
}
template <typename Part>
nb::list state_of(const std::vector<Part>& parts) {
  nb::list list;
  for (const Part& part : parts) list.append(state_of(part));
  return list;
}

nb::object position_of(const Mask& mask) {
  if (const auto* alignment = std::get_if<Alignment>(&mask.positions)) return nb::cast(*alignment);
  if (const auto* offsets = std::get_if<std::vector<std::int64_t>>(&mask.positions)) {
    return nb::cast(*offsets);
  }
  return nb::none();
}

// Which keys and arrays a mask was made of, and how it is printed.
nb::tuple state_of(const MaskValue& value) {
  const Mask& mask = value.mask;
  return nb::make_tuple(value.text, mask.left, mask.right, position_of(mask),
                        state_of(mask.key_lengths), state_of(mask.query_lengths),
                        state_of(mask.keeps), state_of(mask.segments));
}

Mask positions_from(const nb::object& position) {
  if (position.is_none()) return {};
  Alignment alignment{};
  if (nb::try_cast(position, alignment, false)) return aligned(alignment);
  return query_offsets(nb::cast<std::vector<std::int64_t>>(position));
}

MaskValue mask_from(const nb::object& state) {
  using Limit = std::optional<std::int64_t>;
  constexpr Argument kArgument{"Mask", "state"};
  MaskValue value;
  value.mask = window(nb::cast<Limit>(state[1]), nb::cast<Limit>(state[2])) &
               positions_from(nb::object(state[3]));
  for (const nb::handle part : nb::object(state[4])) {
    value.mask = std::move(value.mask) & valid_lengths(integers(part, kArgument));
  }
  for (const nb::handle part : nb::object(state[5])) {
    value.mask = std::move(value.mask) & query_lengths(integers(part, kArgument));
  }
  for (const nb::handle part : nb::object(state[6])) {
    const auto array = std::make_shared<const Borrowed<const bool>>(nb::object(part[0]), kArgument);
    value.mask = std::move(value.mask) &
                 keep(SharedView<bool>(array->view()), nb::cast<std::optional<Axes>>(part[1]));
    value.arrays.push_back(array);
  }
  for (const nb::handle part : nb::object(state[7])) {
    value.mask = std::move(value.mask) & segments(integers(nb::object(part[0]), kArgument),
                                                  integers(nb::object(part[1]), kArgument));
  }
  value.text = nb::cast<std::string>(state[0]);
  return value;
}

std::size_t hash_of(const SharedView<std::int64_t>& numbers) {
  const auto dense = IndexTensor::copy_of(numbers.view());
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(dense.data()), dense.values().size_bytes()});
}
std::size_t hash_of(const Segments& part) { return hash_of(part.query) + 3 * hash_of(part.key); }
// A sum, since parts are equal in any order.
template <typename Part>
std::size_t hash_of(const std::vector<Part>& parts) {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += hash_of(part);
  return sum;
}

Py_hash_t hash_of(const MaskValue& value) {
  const Mask& mask = value.mask;
  if (!mask.keeps.empty()) {
    throw nb::type_error("unhashable: a Mask that looks at an array, which may change");
  }
  return nb::hash(nb::make_tuple(mask.left, mask.right, nb::str(position_of(mask)),
                                 hash_of(mask.key_lengths), hash_of(mask.query_lengths),
                                 hash_of(mask.segments)));
}

}  // namespace

void bind_mask_value(nb::class_<MaskValue>& type) {
  type.def("__eq__", &equal_masks, nb::is_operator(), nb::sig(kEqualSignature))
      .def("__hash__", [](const MaskValue& self) { return hash_of(self); })
      .def("__getstate__", [](const MaskValue& self) { return ReducedMade(state_of(self)); })
      .def("__setstate__", [](MaskValue* self, StateGiven state) {
        new (self) MaskValue(mask_from(nb::borrow(state)));
      });
}

void bind_bias_value(nb::class_<BiasValue>& type) {
  type.def(
          "__eq__",
          [](const BiasValue& a, const BiasValue& b) {
            return a.axes == b.axes && same(a.array->view(), b.array->view());
          },
          nb::is_operator(), nb::sig(kEqualSignature))
      .def("__reduce__", [](nb::handle_t<BiasValue> self) {
        const auto& bias = value_of<BiasValue>(self, {"Bias.__reduce__", "self"});
        return ReducedMade(
            nb::make_tuple(self.type(), nb::make_tuple(copied(bias.array->view()), bias.axes)));
      });
  type.attr("__hash__") = nb::none();  // it looks at an array, which may change
}

}  // namespace headwise::python
