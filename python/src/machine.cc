// What a machine can do: Yardsticks, describe_machine().
#include "headwise/machine.h"

#include <string>
#include <utility>
#include <vector>

#include "bindings.h"
#include "call.h"

namespace headwise::python {

namespace {

constexpr const char* kDoc =
    R"(What the machine can do at this moment: measured again and again, since clocks and neighbours change.

>>> import headwise
>>> yardsticks = headwise.Yardsticks(headwise.default_target(), largest_bytes=1 << 16)
>>> yardsticks.peak(threads=1, seconds=0.001) > 1e8
True
)";
constexpr const char* kPeakDoc =
    R"(FLOP/s of float32 multiply-adds on registers, all threads at once.)";
constexpr const char* kReadDoc =
    R"(Bytes/s of summing up a buffer of that size again and again, each thread its own part.)";
constexpr const char* kCalmDoc =
    R"(Bytes/s from the first cache: a quick look whether anybody shares the cores.)";

constexpr const char* kReadSpeedDoc =
    R"(How fast a place is read: "L2", "L3", "memory". holds: working sets up to this size live there.

>>> import headwise
>>> headwise.ReadSpeed("memory", bytes=1 << 24, holds=1 << 62, bytes_per_second=1e10).place
'memory'
)";
constexpr const char* kThreadDoc =
    R"(What some threads can do at once: FLOP/s, and reading, the nearest place first.

>>> import headwise
>>> reads = [headwise.ReadSpeed("memory", bytes=1 << 24, holds=1 << 62, bytes_per_second=1e10)]
>>> headwise.ThreadYardsticks(threads=2, peak=1e11, reads=reads).peak
100000000000.0
)";
constexpr const char* kMachineDoc =
    R"(What a machine can do: a plain value, of this machine, of another or made up.

>>> import headwise
>>> headwise.Machine(cpu="a dream", cpus=64).cpus
64
)";
constexpr const char* kDescribeDoc =
    R"(This machine, measured: half a second for each of the thread counts.

>>> import headwise
>>> yardsticks = headwise.Yardsticks(headwise.default_target(), headwise.largest_read_bytes())
>>> machine = headwise.describe_machine(headwise.default_target(), [1], yardsticks)
>>> machine.at(1).peak > 1e8
True
)";
constexpr const char* kLargestDoc = R"(Of the buffers that describe_machine() reads.

>>> import headwise
>>> headwise.largest_read_bytes() > 0
True
)";

void bind_values(nb::module_& module) {
  using nb::arg;
  nb::class_<ReadSpeed>(module, "ReadSpeed", kReadSpeedDoc)
      .def(
          "__init__",
          [](ReadSpeed* self, std::string place, std::size_t bytes, std::size_t holds,
             double bytes_per_second) {
            new (self) ReadSpeed{std::move(place), bytes, holds, bytes_per_second};
          },
          arg("place"), nb::kw_only(), arg("bytes"), arg("holds"), arg("bytes_per_second"))
      .def_ro("place", &ReadSpeed::place)
      .def_ro("bytes", &ReadSpeed::bytes)
      .def_ro("holds", &ReadSpeed::holds)
      .def_ro("bytes_per_second", &ReadSpeed::bytes_per_second);
  nb::class_<ThreadYardsticks>(module, "ThreadYardsticks", kThreadDoc)
      .def(
          "__init__",
          [](ThreadYardsticks* self, int threads, double peak, std::vector<ReadSpeed> reads) {
            new (self) ThreadYardsticks{threads, peak, std::move(reads)};
          },
          nb::kw_only(), arg("threads"), arg("peak"), arg("reads"))
      .def_ro("threads", &ThreadYardsticks::threads)
      .def_ro("peak", &ThreadYardsticks::peak)
      .def_ro("reads", &ThreadYardsticks::reads)
      .def("read_speed", &ThreadYardsticks::read_speed, arg("bytes"),
           "Of the place that holds a working set of this size.");
  nb::class_<Machine>(module, "Machine", kMachineDoc)
      .def(
          "__init__",
          [](Machine* self, std::string cpu, int cpus, std::string target, int lanes,
             double call_seconds, std::vector<ThreadYardsticks> yardsticks) {
            new (self) Machine{std::move(cpu), cpus,         std::move(target),
                               lanes,          call_seconds, std::move(yardsticks)};
          },
          nb::kw_only(), arg("cpu") = "", arg("cpus") = 0, arg("target") = "", arg("lanes") = 0,
          arg("call_seconds") = 0.0, arg("yardsticks") = std::vector<ThreadYardsticks>())
      .def_ro("cpu", &Machine::cpu)
      .def_ro("cpus", &Machine::cpus)
      .def_ro("target", &Machine::target)
      .def_ro("lanes", &Machine::lanes)
      .def_ro("call_seconds", &Machine::call_seconds)
      .def_ro("yardsticks", &Machine::yardsticks)
      .def("at", &Machine::at, arg("threads"), nb::rv_policy::reference_internal,
           "What was measured on that many threads.");
}

}  // namespace

void bind_machine(nb::module_& module) {
  using nb::arg;
  bind_values(module);
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
  module.def("largest_read_bytes", &largest_read_bytes, kLargestDoc);
  module.def(
      "describe_machine",
      [](const std::string& target, const std::vector<int>& threads, const Yardsticks& yardsticks) {
        return without_gil([&] { return describe_machine(target, threads, yardsticks); });
      },
      arg("target"), arg("threads"), arg("yardsticks"), kDescribeDoc);
}

}  // namespace headwise::python
