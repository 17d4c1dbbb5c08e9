#include "arrays.h"

#include <cstring>
#include <memory>

namespace headwise::python {

namespace {

template <typename From>
void copy_axis(const ArrayHold::Facts& facts, const From* from, int axis, std::int64_t*& to) {
  if (axis == facts.rank) {
    *to++ = static_cast<std::int64_t>(*from);  // NOLINT(bugprone-signed-char-misuse): a number
    return;
  }
  for (std::int64_t i = 0; i < facts.extents[axis]; ++i) {
    copy_axis(facts, from + i * facts.strides[axis], axis + 1, to);
  }
}

template <typename... Integers>
bool copy_integers(const ArrayHold::Facts& facts, std::int64_t* to) {
  const auto attempt = [&]<typename From>(const From* from) {
    if (facts.type != nb::dtype<From>()) return false;
    copy_axis(facts, from, 0, to);
    return true;
  };
  return (attempt(static_cast<const Integers*>(facts.data)) || ...);
}

template <typename T>
nb::object make_array(T* data, const Shape& shape, nb::handle owner) {
  std::size_t extents[kMaxRank];
  std::copy(shape.begin(), shape.end(), extents);
  const nb::ndarray<nb::numpy, T> array(data, static_cast<std::size_t>(shape.rank()), extents,
                                        owner);
  return nb::cast(array, nb::rv_policy::reference);
}

bool is_dense(const ConstView& view) {
  const Strides dense = row_major_strides(view.shape());
  for (int axis = 0; axis < view.rank(); ++axis) {
    if (view.extent(axis) > 1 && view.stride(axis) != dense[static_cast<std::size_t>(axis)]) {
      return false;
    }
  }
  return true;
}

}  // namespace

Tensor copy_of(nb::handle array, const Argument& argument) {
  const Borrowed<const float> borrowed(array, argument);
  const ConstView& view = borrowed.view();
  if (!view.present()) fail_type(argument, "an array of float32", "None");
  if (!is_dense(view)) return Tensor::copy_of(view);
  return Tensor::copy_of_values(view.shape(), {view.data(), static_cast<std::size_t>(view.size())});
}

std::string name_in_mapping(nb::handle key, const Argument& argument) {
  std::string name;
  if (!nb::try_cast(key, name)) fail_type(argument, "names that are text", name_of_type(key));
  return name;
}

TensorMap tensor_map(const char* function, nb::handle mapping) {
  if (!nb::hasattr(mapping, "items")) {
    fail_type({function, "tensors"}, "a mapping from names to arrays", name_of_type(mapping));
  }
  TensorMap tensors;
  for (const nb::handle item : mapping.attr("items")()) {
    const std::string name = name_in_mapping(nb::object(item[0]), {function, "tensors"});
    tensors.emplace(name, copy_of(item[1], {function, name.c_str()}));
  }
  return tensors;
}

IndexTensor integers(nb::handle values, const Argument& argument) {
  const nb::object array = nb::ndarray_check(values)
                               ? nb::borrow(values)
                               : nb::module_::import_("numpy").attr("asarray")(values);
  ArrayHold hold;
  const ArrayHold::Facts facts = hold.acquire(array, argument, "integers", ArrayHold::Access::Read);
  const auto rank = static_cast<std::size_t>(facts.rank);
  IndexTensor copied(Shape(std::span<const std::int64_t>(facts.extents, rank)));
  if (copied.size() == 0) return copied;  // of any type: numpy takes [] for float64
  using std::int8_t, std::int16_t, std::int32_t, std::int64_t;
  using std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t;
  if (!copy_integers<int64_t, int32_t, int16_t, int8_t, uint64_t, uint32_t, uint16_t, uint8_t>(
          facts, copied.data())) {
    fail_type(argument, "integers", name_of_numbers(facts.type));
  }
  return copied;
}

std::vector<std::int64_t> integer_list(nb::handle values, const Argument& argument) {
  if (values.is_none()) return {};
  const IndexTensor list = integers(values, argument);
  if (list.rank() != 1) fail_value(argument, "one axis", "shape " + list.shape().to_string());
  return {list.values().begin(), list.values().end()};
}

template <typename T>
nb::object to_numpy(BasicTensor<T>&& tensor) {
  auto owned = std::make_unique<BasicTensor<T>>(std::move(tensor));
  T* const data = owned->data();
  const Shape shape = owned->shape();
  const nb::capsule owner(owned.get(), [](void* kept) noexcept {
    std::unique_ptr<BasicTensor<T>>(static_cast<BasicTensor<T>*>(kept)).reset();
  });
  (void)owned.release();
  return make_array(data, shape, owner);
}

template nb::object to_numpy(BasicTensor<float>&& tensor);
template nb::object to_numpy(BasicTensor<std::int64_t>&& tensor);
template nb::object to_numpy(BasicTensor<bool>&& tensor);

nb::object to_numpy(const Tensor& tensor, nb::handle owner) {
  return make_array(tensor.data(), tensor.shape(), owner);
}

nb::tuple to_tuple(const Shape& shape) {
  nb::list extents;
  for (const std::int64_t extent : shape) extents.append(extent);
  return nb::tuple(extents);
}

}  // namespace headwise::python
