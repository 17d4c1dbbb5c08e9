// What this machine can do, for headwise.peers: the yardsticks of headwise/machine.h.
#include "headwise/machine.h"

#include "bindings.h"
#include "call.h"

namespace headwise::python {

namespace {

constexpr const char* kDoc = R"(What the machine can do at this moment, for headwise.peers.

>>> import headwise
>>> from headwise._core import Yardsticks
>>> yardsticks = Yardsticks(headwise.default_target(), largest_bytes=1 << 16)
>>> yardsticks.peak(threads=1, seconds=0.001) > 1e8
True
)";
constexpr const char* kPeakDoc =
    R"(FLOP/s of float32 multiply-adds on registers, all threads at once.)";
constexpr const char* kReadDoc =
    R"(Bytes/s of summing up a buffer of that size again and again, each thread its own part.)";
constexpr const char* kCalmDoc =
    R"(Bytes/s from the first cache: a quick look whether anybody shares the cores.)";

}  // namespace

void bind_machine(nb::module_& module) {
  using nb::arg;
  nb::class_<Yardsticks>(module, "Yardsticks", kDoc)
      .def(nb::init<const std::string&, std::size_t>(), arg("target"), arg("largest_bytes"))
      .def(
          "peak",
          [](const Yardsticks& self, int threads, double seconds) {
            return without_gil([&] { return self.peak(threads, seconds); });
          },
          arg("threads"), arg("seconds"), kPeakDoc)
      .def(
          "read_speed",
          [](const Yardsticks& self, int threads, std::size_t bytes, double seconds) {
            return without_gil([&] { return self.read_speed(threads, bytes, seconds); });
          },
          arg("threads"), arg("bytes"), arg("seconds"), kReadDoc)
      .def(
          "calm",
          [](const Yardsticks& self, int threads) {
            return without_gil([&] { return self.calm(threads); });
          },
          arg("threads"), kCalmDoc);
}

}  // namespace headwise::python
