// Whether tensors of PyTorch are what they were; see python/headwise/torch/_packed.py.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "arrays.h"
#include "bindings.h"
#include "call.h"
#include "types.h"

namespace headwise::python {

namespace {

using Arrays = std::vector<std::unique_ptr<Borrowed<const float>>>;

Arrays arrays_of_one_axis(const nb::list& given, const char* name) {
  Arrays arrays;
  for (const nb::handle array : given) {
    arrays.push_back(std::make_unique<Borrowed<const float>>(array, Argument{"Watch", name}));
    if (const int rank = arrays.back()->view().rank(); rank != 1) {
      fail_value({"Watch", name}, "one axis", std::to_string(rank));
    }
  }
  return arrays;
}

__extension__ using Wide = unsigned __int128;

// Of numbers that lie side by side. Differs if they do, but for one case in 2⁶⁴. Lanes of their own,
// so that a step need not wait for the last; a wide product mixes 16 bytes at once.
std::uint64_t checksum(const ConstView& numbers, std::uint64_t start) {
  constexpr std::size_t kLanes = 4;
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    const Wide product = Wide{a} * (b ^ 0x9E3779B97F4A7C15U);
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
  };
  std::uint64_t sums[kLanes] = {start ^ 1U, start ^ 2U, start ^ 3U, start ^ 4U};
  std::uint64_t words[2 * kLanes] = {};
  const auto add_words = [&] {
    for (std::size_t i = 0; i < kLanes; ++i)
      sums[i] = mix(sums[i] ^ words[2 * i], words[2 * i + 1]);
  };
  const auto* next = reinterpret_cast<const std::byte*>(numbers.data());
  std::size_t left = static_cast<std::size_t>(numbers.extent(0)) * sizeof(float);
  for (; left >= sizeof words; left -= sizeof words, next += sizeof words) {
    std::memcpy(words, next, sizeof words);
    add_words();
  }
  if (left > 0) std::memcpy(words, next, left);
  add_words();
  return mix(mix(sums[0], sums[1]), mix(sums[2], sums[3]));
}

// As a layer is called, the processor's caches hold weights. So one call looks at all tensors: in
// Python every step of it would come from memory.
class Watch {
 public:
  Watch(const nb::list& tensors, const nb::list& arrays, const nb::list& samples,
        std::int64_t thorough_from)
      : thorough_from_(thorough_from),
        arrays_(arrays_of_one_axis(arrays, "arrays")),
        samples_(arrays_of_one_axis(samples, "samples")) {
    for (const nb::handle tensor : tensors) seen_.push_back(see(tensor));
    for (const auto& array : arrays_) {
      if (array->view().extent(0) > 1 && array->view().stride(0) != 1) {
        fail_value({"Watch", "arrays"}, "numbers side by side", "others between them");
      }
    }
    for_each_number([&](std::uint32_t bits) { numbers_.push_back(bits); });
    checksum_ = checksum_of_all();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  [[nodiscard]] bool is_current(const nb::list& tensors, std::int64_t numbers) const {
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
    if (differences != 0 || numbers < thorough_from_) return differences == 0;
    return without_gil([&] { return checksum_of_all() == checksum_; });
  }

 private:
  struct Seen {
    // Not held, as it may hold what holds the watch. Another one that came to its place has other
    // numbers: those are held by the arrays.
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

  [[nodiscard]] std::uint64_t checksum_of_all() const {
    std::uint64_t sum = 0;
    for (const auto& array : arrays_) sum = checksum(array->view(), sum);
    return sum;
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

  std::int64_t thorough_from_;
  std::vector<Seen> seen_;
  Arrays arrays_;
  Arrays samples_;
  std::vector<std::uint32_t> numbers_;  // of the samples
  std::uint64_t checksum_ = 0;          // of the arrays
};

constexpr const char* kDoc =
    R"(Remembers tensors (or None) by identity, version and address, the checksum of arrays, and the numbers of
samples: both of one axis, looked at in place.)";
constexpr const char* kCurrentDoc =
    R"(numbers: of the call that asks; from thorough_from on the checksum counts, too.)";

}  // namespace

void bind_watch(nb::module_& module) {
  using nb::arg;
  using Objects = nb::typed<nb::list, nb::object>;
  nb::class_<Watch>(module, "Watch", kDoc)
      .def(nb::init<const Objects&, const Objects&, const Objects&, std::int64_t>(), arg("tensors"),
           arg("arrays"), arg("samples"), arg("thorough_from"))
      .def(
          "is_current",
          [](const Watch& self, const Objects& tensors, std::int64_t numbers) {
            return self.is_current(tensors, numbers);
          },
          arg("tensors"), arg("numbers"), kCurrentDoc);
}

}  // namespace headwise::python
