// Three ways to look at an array in place: the buffer protocol, and DLPack by C functions or by
// Python methods.
#include <bit>
#include <cstring>
#include <memory>

#include "arrays.h"
#include "headwise/error.h"

namespace headwise::python {

using Code = nb::dlpack::dtype_code;

// ABI of DLPack 1: https://dmlc.github.io/dlpack/latest/c_api.html
struct DlpackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

struct ArrayHold::ManagedTensor {
  DlpackVersion version;
  void* context;
  void (*release)(ManagedTensor*);
  std::uint64_t flags;
  nb::dlpack::dltensor tensor;
};

// What a type offers as __dlpack_c_exchange_api__.
struct ArrayHold::ExchangeApi {
  DlpackVersion version;
  const ExchangeApi* older;
  void* allocate;
  int (*borrow)(void* array, ManagedTensor** tensor);
};

namespace {

constexpr std::uint64_t kReadOnly = 1;

// What numpy and its friends call the type; otherwise the name of the object's own type.
std::string described_type(nb::handle array) {
  const nb::object dtype = nb::getattr(array, "dtype", nb::none());
  return dtype.is_none() ? name_of_type(array) : nb::cast<std::string>(nb::str(dtype));
}

// From struct's letters; without bits if they are not one plain number.
nb::dlpack::dtype parse_format(const char* format, Py_ssize_t item_bytes) {
  const char* letter = *format == '@' || *format == '=' ? format + 1 : format;
  constexpr char kOwnOrder = std::endian::native == std::endian::little ? '<' : '>';
  if (*letter == kOwnOrder) ++letter;
  nb::dlpack::dtype type;
  if (*letter == '\0' || letter[1] != '\0') return type;
  const auto one_of = [&](const char* letters) { return std::strchr(letters, *letter) != nullptr; };
  if (one_of("fdeg")) {
    type.code = static_cast<std::uint8_t>(Code::Float);
  } else if (one_of("bhilqn")) {
    type.code = static_cast<std::uint8_t>(Code::Int);
  } else if (one_of("BHILQN")) {
    type.code = static_cast<std::uint8_t>(Code::UInt);
  } else if (*letter == '?') {
    type.code = static_cast<std::uint8_t>(Code::Bool);
  } else {
    return type;
  }
  type.bits = static_cast<std::uint8_t>(item_bytes * 8);
  type.lanes = 1;
  return type;
}

void require_rank(int rank, const Argument& argument) {
  if (rank > kMaxRank) {
    fail_value(argument, "at most " + std::to_string(kMaxRank) + " axes", std::to_string(rank));
  }
}

void require_aligned(const ArrayHold::Facts& facts, const Argument& argument) {
  const std::size_t bytes = facts.type.bits / 8U;
  if (bytes > 1 && reinterpret_cast<std::uintptr_t>(facts.data) % bytes != 0) {
    fail_value(argument, "numbers at addresses that are multiples of their size",
               "a misaligned array");
  }
}

[[noreturn]] void fail_read_only(const Argument& argument) {
  fail_value(argument, "an array that may be written", "a read-only one");
}

void require_cpu(int device, const Argument& argument) {
  if (device == nb::device::cpu::value) return;
  const std::string name = device == nb::device::cuda::value   ? "a CUDA device"
                           : device == nb::device::rocm::value ? "a ROCm device"
                                                               : "another device";
  fail_value(argument, "an array in the CPU's memory", "one on " + name);
}

ArrayHold::Facts facts_of(const nb::dlpack::dltensor& tensor, const Argument& argument) {
  require_cpu(tensor.device.device_type, argument);
  require_rank(tensor.ndim, argument);
  ArrayHold::Facts facts;
  facts.data = static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  facts.rank = tensor.ndim;
  facts.type = tensor.dtype;
  if (tensor.dtype.lanes != 1) facts.type.bits = 0;
  std::copy_n(tensor.shape, facts.rank, facts.extents);
  if (tensor.strides != nullptr) {
    std::copy_n(tensor.strides, facts.rank, facts.strides);
  } else {  // row-major
    const std::span<const std::int64_t> extents(facts.extents,
                                                static_cast<std::size_t>(facts.rank));
    std::copy_n(row_major_strides(Shape(extents)).begin(), facts.rank, facts.strides);
  }
  require_aligned(facts, argument);
  return facts;
}

// PyTorch can put off a negation, and DLPack has no word for it: the numbers would come with the
// wrong sign, from __dlpack__ as well.
bool is_lazily_negated(nb::handle tensor) {
  static PyObject* const kMethod = PyUnicode_InternFromString("is_neg");
  const nb::object answer = nb::steal(PyObject_CallMethodNoArgs(tensor.ptr(), kMethod));
  if (!answer.is_valid()) PyErr_Clear();  // not a tensor of PyTorch's
  return answer.is(Py_True);
}

// numpy.ma's arrays lie in the buffer protocol as if nothing were masked. Only what derives from
// numpy's array is asked, so that the others do not pay for it.
bool has_a_mask(nb::handle array) {
  static PyTypeObject* numpy_array = nullptr;  // under the GIL, which an import may release
  if (numpy_array == nullptr) {
    const nb::object type = nb::module_::import_("numpy").attr("ndarray");
    numpy_array = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  }
  PyTypeObject* const type = Py_TYPE(array.ptr());
  return type != numpy_array && PyType_IsSubtype(type, numpy_array) != 0 &&
         nb::hasattr(array, "filled");
}

// A tensor of PyTorch's that autograd follows: it would not see what is computed of it here. 0.06 µs,
// or 0.1 µs for a parameter, of which torch has to say whether it follows anything just now.
bool is_followed_by_autograd(nb::handle tensor) {
  static PyObject* const kAttribute = PyUnicode_InternFromString("requires_grad");
  static PyObject* is_grad_enabled = nullptr;  // under the GIL, which an import may release
  const nb::object answer = nb::steal(PyObject_GetAttr(tensor.ptr(), kAttribute));
  if (!answer.is_valid()) PyErr_Clear();  // not a tensor of PyTorch's
  if (!answer.is(Py_True)) return false;
  if (is_grad_enabled == nullptr) {
    is_grad_enabled =
        nb::object(nb::module_::import_("torch").attr("is_grad_enabled")).release().ptr();
  }
  return nb::steal(PyObject_CallNoArgs(is_grad_enabled)).is(Py_True);
}

// What an exporter of DLPack says when it refuses: nanobind keeps that to itself.
std::string refusal_of(nb::handle array) {
  try {
    (void)array.attr("__dlpack__")();
    return "";
  } catch (const nb::python_error& refusal) {
    return ", which says: " + nb::cast<std::string>(nb::str(refusal.value()));
  }
}

}  // namespace

ArrayHold::~ArrayHold() {
  if (buffer_.obj != nullptr) PyBuffer_Release(&buffer_);
  if (managed_ != nullptr && managed_->release != nullptr) managed_->release(managed_);
}

ArrayHold::Facts ArrayHold::acquire(nb::handle array, const Argument& argument, const char* numbers,
                                    Access access) {
  if (PyObject_CheckBuffer(array.ptr()) != 0) {
    return acquire_buffer(array, argument, numbers, access);
  }
  if (const ExchangeApi* api = exchange_api(array)) {
    return acquire_tensor(*api, array, argument, access);
  }
  return acquire_any(array, argument, numbers, access);
}

ArrayHold::Facts ArrayHold::acquire_buffer(nb::handle array, const Argument& argument,
                                           const char* numbers, Access access) {
  if (PyObject_GetBuffer(array.ptr(), &buffer_, PyBUF_RECORDS_RO) != 0) {
    PyErr_Clear();  // types that the protocol has no letter for, such as bfloat16
    fail_type(argument, numbers, described_type(array));
  }
  if (has_a_mask(array)) {
    fail_type(argument, std::string("an array of ") + numbers + " without a mask",
              "a masked one (hide keys by keep(...), or pass its filled())");
  }
  require_rank(buffer_.ndim, argument);
  Facts facts;
  facts.data = buffer_.buf;
  facts.rank = buffer_.ndim;
  facts.type = parse_format(buffer_.format == nullptr ? "B" : buffer_.format, buffer_.itemsize);
  if (facts.type.bits == 0) fail_type(argument, numbers, described_type(array));
  if (access == Access::Write && buffer_.readonly != 0) fail_read_only(argument);
  for (int axis = 0; axis < facts.rank; ++axis) {
    facts.extents[axis] = buffer_.shape[axis];
    facts.strides[axis] = buffer_.strides[axis] / buffer_.itemsize;
    if (facts.strides[axis] * buffer_.itemsize != buffer_.strides[axis]) {
      fail_value(
          argument, "steps of whole numbers along every axis",
          std::to_string(buffer_.strides[axis]) + " bytes along axis " + std::to_string(axis));
    }
  }
  require_aligned(facts, argument);
  return facts;
}

// Looked up on the type, as DLPack asks for. Null if there is none that we understand.
const ArrayHold::ExchangeApi* ArrayHold::exchange_api(nb::handle array) {
  static PyObject* const kAttribute = PyUnicode_InternFromString("__dlpack_c_exchange_api__");
  const nb::object capsule =
      nb::steal(PyObject_GetAttr(reinterpret_cast<PyObject*>(Py_TYPE(array.ptr())), kAttribute));
  const void* found =
      capsule.is_valid() ? PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api") : nullptr;
  if (found == nullptr) PyErr_Clear();
  const auto* api = static_cast<const ExchangeApi*>(found);
  while (api != nullptr && api->version.major > nb::dlpack::major_version) api = api->older;
  return api;
}

ArrayHold::Facts ArrayHold::acquire_tensor(const ExchangeApi& api, nb::handle array,
                                           const Argument& argument, Access access) {
  if (api.borrow(array.ptr(), &managed_) != 0) {
    const nb::python_error refusal;  // PyTorch's comes with a stack of its own in the text
    const auto reason = nb::cast<std::string>(nb::str(refusal.value()));
    fail_value(argument, "a dense array in the CPU's memory", reason.substr(0, reason.find('\n')));
  }
  if (access == Access::Write && (managed_->flags & kReadOnly) != 0) fail_read_only(argument);
  if (is_lazily_negated(array)) {
    fail_value(argument, "numbers as they stand in memory",
               "a tensor that is negated lazily (use its resolve_neg())");
  }
  if (is_followed_by_autograd(array)) {
    fail_value(argument, "a tensor without a gradient",
               "one that requires it (detach() it, or use headwise.torch)");
  }
  return facts_of(managed_->tensor, argument);
}

ArrayHold::Facts ArrayHold::acquire_any(nb::handle array, const Argument& argument,
                                        const char* numbers, Access access) {
  const bool known = nb::hasattr(array, "__dlpack__");
  if (!known || !nb::try_cast(array, imported_, false)) {
    fail_type(argument, std::string("an array of ") + numbers,
              name_of_type(array) + (known ? refusal_of(array) : ""));
  }
  nb::ndarray<> writable;
  if (access == Access::Write && !nb::try_cast(array, writable, false)) fail_read_only(argument);
  nb::dlpack::dltensor tensor;
  tensor.data = imported_.data_handle();
  tensor.device = {imported_.device_type(), imported_.device_id()};
  tensor.ndim = static_cast<std::int32_t>(imported_.ndim());
  tensor.dtype = imported_.dtype();
  tensor.shape = const_cast<std::int64_t*>(imported_.shape_ptr());  // the ABI's; only read
  tensor.strides = const_cast<std::int64_t*>(imported_.stride_ptr());
  tensor.byte_offset = imported_.byte_offset();
  return facts_of(tensor, argument);
}

void fail_type(const Argument& argument, const std::string& expected, const std::string& got) {
  const std::string text = std::string("[") + argument.function + "] " + argument.name +
                           ": expected " + expected + ", got " + got;
  throw nb::type_error(text.c_str());
}

void fail_value(const Argument& argument, const std::string& expected, const std::string& got) {
  throw ArgumentError(argument.function, argument.name, expected, got);
}

bool is_ready(nb::handle object) { return !nb::inst_check(object) || nb::inst_ready(object); }

std::string name_of_type(nb::handle object) {
  const auto name = nb::cast<std::string>(object.type().attr("__name__"));
  return is_ready(object) ? name : name + ", whose __init__ did not run";
}

std::string brief_repr(nb::handle object) {
  constexpr std::size_t kLongest = 60;
  if (object.is_none() || PyUnicode_Check(object.ptr()) != 0 || PyLong_Check(object.ptr()) != 0 ||
      PyFloat_Check(object.ptr()) != 0) {
    auto text = nb::cast<std::string>(nb::repr(object));
    if (text.size() <= kLongest) return text;
  }
  return name_of_type(object);
}

std::string name_of_numbers(const nb::dlpack::dtype& type) {
  const std::string bits = std::to_string(type.bits);
  switch (static_cast<Code>(type.code)) {
    case Code::Int:
      return "int" + bits;
    case Code::UInt:
      return "uint" + bits;
    case Code::Float:
      return "float" + bits;
    case Code::Bfloat:
      return "bfloat" + bits;
    case Code::Complex:
      return "complex" + bits;
    case Code::Bool:
      return "bool";
    default:
      return "numbers of another kind";
  }
}

void require_type(const nb::dlpack::dtype& type, const nb::dlpack::dtype& expected,
                  const Argument& argument, const char* numbers) {
  if (type == expected) return;
  fail_type(argument, numbers,
            name_of_numbers(type) + " (convert it first: no copy is made unasked)");
}

}  // namespace headwise::python
