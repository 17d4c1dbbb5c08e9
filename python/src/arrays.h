// How arrays cross the border: borrowed on the way in, handed over on the way out. Neither copies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "casters.h"
#include "headwise/tensor.h"

namespace headwise::python {

// Who asks for something, as errors name it: "[function] name: expected …, got …".
struct Argument {
  const char* function;
  const char* name;
};

// TypeError and ArgumentError (a ValueError), with the text that the library's own errors have.
[[noreturn]] void fail_type(const Argument& argument, const std::string& expected,
                            const std::string& got);
[[noreturn]] void fail_value(const Argument& argument, const std::string& expected,
                             const std::string& got);
// Whether __init__ has made the object, if it is of a class of ours: a subclass may have left it out.
bool is_ready(nb::handle object);
// The value of an object of a class of ours, which nb::inst_ptr would give without a look; TypeError
// if there is none yet.
template <typename T>
[[nodiscard]] T& value_of(nb::handle object, const Argument& argument);
// "list", "ndarray": an object's type, for errors.
std::string name_of_type(nb::handle object);
// "'a'", "2.5": a text, a number or None as Python writes it, for errors; of anything else its type.
std::string brief_repr(nb::handle object);

template <typename T>
T& value_of(nb::handle object, const Argument& argument) {
  if (!is_ready(object)) {
    fail_type(argument, "an object that __init__ has made", name_of_type(object));
  }
  return *nb::inst_ptr<T>(object);
}

// What holds an array's memory in place while we look at it.
class ArrayHold {
 public:
  enum class Access { Read, Write };

  // What the array says about itself. Strides count elements.
  struct Facts {
    void* data = nullptr;
    int rank = 0;
    std::int64_t extents[kMaxRank] = {};
    std::int64_t strides[kMaxRank] = {};
    nb::dlpack::dtype type;
  };

  ArrayHold() = default;
  ~ArrayHold();
  ArrayHold(const ArrayHold&) = delete;  // a Py_buffer may point into itself
  ArrayHold& operator=(const ArrayHold&) = delete;

  // `numbers` names the type that is hoped for; the caller still has to compare it. Throws for what
  // cannot be looked at in place: no array, not on the CPU, read-only where it shall be written,
  // misaligned, in another machine's byte order.
  Facts acquire(nb::handle array, const Argument& argument, const char* numbers, Access access);

 private:
  struct ManagedTensor;
  struct ExchangeApi;
  static const ExchangeApi* exchange_api(nb::handle array);
  Facts acquire_buffer(nb::handle array, const Argument& argument, const char* numbers,
                       Access access);
  Facts acquire_tensor(const ExchangeApi& api, nb::handle array, const Argument& argument,
                       Access access);
  Facts acquire_any(nb::handle array, const Argument& argument, const char* numbers, Access access);

  // One of three is in use, by what the array offers, the cheapest first.
  Py_buffer buffer_{};                // numpy, JAX, TensorFlow, memoryview
  ManagedTensor* managed_ = nullptr;  // PyTorch: DLPack by a table of C functions
  nb::ndarray<nb::ro> imported_;      // whatever else knows DLPack
};

// What T is called where arrays come from.
template <typename T>
inline constexpr const char* kNumbers = nullptr;
template <>
inline constexpr const char* kNumbers<float> = "float32";
template <>
inline constexpr const char* kNumbers<bool> = "bool";

// "float64", "bfloat16": for errors.
std::string name_of_numbers(const nb::dlpack::dtype& type);

void require_type(const nb::dlpack::dtype& type, const nb::dlpack::dtype& expected,
                  const Argument& argument, const char* numbers);

// An argument that is an array of T, looked at in place; T is const where it is only read. Without a
// view for None, and until reset() was called.
template <typename T>
class Borrowed {
 public:
  Borrowed() = default;
  Borrowed(nb::handle array, const Argument& argument) { reset(array, argument); }

  void reset(nb::handle array, const Argument& argument) {
    using Number = std::remove_const_t<T>;
    using Access = ArrayHold::Access;
    if (array.is_none()) return;
    const ArrayHold::Facts facts = hold_.acquire(array, argument, kNumbers<Number>,
                                                 std::is_const_v<T> ? Access::Read : Access::Write);
    require_type(facts.type, nb::dtype<Number>(), argument, kNumbers<Number>);
    Strides strides{};
    std::copy_n(facts.strides, facts.rank, strides.begin());
    const auto rank = static_cast<std::size_t>(facts.rank);
    const Shape shape(std::span<const std::int64_t>(facts.extents, rank));
    view_ = TensorView<T>(static_cast<T*>(facts.data), shape, strides);
  }
  [[nodiscard]] const TensorView<T>& view() const { return view_; }

 private:
  ArrayHold hold_;
  TensorView<T> view_;
};

// A copy of an array, row-major.
Tensor copy_of(nb::handle array, const Argument& argument);

// A key of a mapping from names to arrays.
std::string name_in_mapping(nb::handle key, const Argument& argument);

// A map of copies, of the argument `tensors`: the library takes tensors of its own.
TensorMap tensor_map(const char* function, nb::handle mapping);

// Integers of any width, from an array or from a Python sequence. Copied: lengths and ids are few
// beside the numbers they speak of, and most frameworks have them as int32.
IndexTensor integers(nb::handle values, const Argument& argument);
// The same along one axis; None: empty.
std::vector<std::int64_t> integer_list(nb::handle values, const Argument& argument);

// A numpy array that owns what the tensor owned.
template <typename T>
nb::object to_numpy(BasicTensor<T>&& tensor);
// A numpy array, read-only, of numbers that `owner` keeps.
nb::object to_numpy(const Tensor& tensor, nb::handle owner);

nb::tuple to_tuple(const Shape& shape);

// A tensor of a result, which becomes a numpy array when somebody asks for it: making one takes
// longer than all else that a call costs beyond C++, and most callers want the output alone.
template <typename T>
class LazyArray {
 public:
  LazyArray() = default;
  explicit LazyArray(BasicTensor<T>&& tensor) : tensor_(std::move(tensor)) {}
  explicit LazyArray(nb::object array) : array_(std::move(array)) {}

  // None for a tensor that nobody asked for: the default-constructed one, of shape (0).
  [[nodiscard]] nb::object get() {
    if (!array_.is_valid()) {
      array_ = is_absent() ? nb::none() : to_numpy(std::move(tensor_));
    }
    return array_;
  }
  // "(2, 3)", or "None", without making the array.
  [[nodiscard]] std::string shape_text() const {
    if (array_.is_valid()) {
      return nb::cast<std::string>(nb::str(nb::getattr(array_, "shape", nb::none())));
    }
    return is_absent() ? "None" : tensor_.shape().to_string();
  }
  // The tensor, as long as nobody has asked for the array.
  [[nodiscard]] BasicTensor<T>& tensor() { return tensor_; }

 private:
  [[nodiscard]] bool is_absent() const { return tensor_.rank() == 1 && tensor_.size() == 0; }

  BasicTensor<T> tensor_;
  nb::object array_;
};

}  // namespace headwise::python
