// Whether tensors of PyTorch are what they were; see python/headwise/torch/_packed.py.
#include <bit>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "types.h"

namespace headwise::python {

namespace {

// As a layer is called, the processor's caches hold weights. So one call looks at all tensors: in
// Python every step of it would come from memory.
class Watch {
 public:
  Watch(const nb::list& tensors, const nb::list& samples) {
    for (const nb::handle tensor : tensors) seen_.push_back(see(tensor));
    for (const nb::handle sample : samples) {
      samples_.push_back(
          std::make_unique<Borrowed<const float>>(sample, Argument{"Watch", "samples"}));
      if (const int rank = samples_.back()->view().rank(); rank != 1) {
        fail_value({"Watch", "samples"}, "one axis", std::to_string(rank));
      }
    }
    for_each_number([&](std::uint32_t bits) { numbers_.push_back(bits); });
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] bool is_current(const nb::list& tensors) const {
    if (tensors.size() != seen_.size()) return false;
    for (std::size_t i = 0; i < seen_.size(); ++i) {
      const PyObject* const tensor = tensors[i].ptr();
      if (tensor != seen_[i].tensor || (tensor != Py_None && see(tensors[i]) != seen_[i])) {
        return false;
      }
    }
    const std::uint32_t* number = numbers_.data();
    std::uint32_t differences = 0;  // not ended early: so the processor fetches many at once
    for_each_number([&](std::uint32_t bits) { differences |= bits ^ *number++; });
    return differences == 0;
  }

 private:
  struct Seen {
    // Not held, as it may hold what holds the watch. Another one that came to its place has other
    // numbers: those are held by the samples.
    const PyObject* tensor;
    std::int64_t version = 0;  // how often it was changed, as PyTorch counts
    std::uintptr_t address = 0;

    bool operator==(const Seen&) const = default;
  };

  static Seen see(nb::handle tensor) {
    if (tensor.is_none()) return {tensor.ptr()};
    static PyObject* const kVersion = PyUnicode_InternFromString("_version");
    static PyObject* const kAddress = PyUnicode_InternFromString("data_ptr");
    const nb::object version = nb::steal(PyObject_GetAttr(tensor.ptr(), kVersion));
    const nb::object address = nb::steal(PyObject_CallMethodNoArgs(tensor.ptr(), kAddress));
    if (!version.is_valid() || !address.is_valid()) throw nb::python_error();
    return {tensor.ptr(), nb::cast<std::int64_t>(version), nb::cast<std::uintptr_t>(address)};
  }

  template <typename Visit>
  void for_each_number(Visit visit) const {
    for (const auto& sample : samples_) {
      const ConstView& view = sample->view();
      const float* const first = view.data();
      const std::int64_t stride = view.stride(0);
      for (std::int64_t i = 0; i < view.extent(0); ++i) {
        visit(std::bit_cast<std::uint32_t>(first[i * stride]));
      }
    }
  }

  std::vector<Seen> seen_;
  std::vector<std::unique_ptr<Borrowed<const float>>> samples_;
  std::vector<std::uint32_t> numbers_;
};

constexpr const char* kDoc =
    R"(Remembers tensors (or None) by identity, version and address, and the numbers of samples: arrays of one
axis, looked at in place.)";

}  // namespace

void bind_watch(nb::module_& module) {
  using nb::arg;
  using Objects = nb::typed<nb::list, nb::object>;
  nb::class_<Watch>(module, "Watch", kDoc)
      .def(nb::init<const Objects&, const Objects&>(), arg("tensors"), arg("samples"))
      .def(
          "is_current",
          [](const Watch& self, const Objects& tensors) { return self.is_current(tensors); },
          arg("tensors"));
}

}  // namespace headwise::python
