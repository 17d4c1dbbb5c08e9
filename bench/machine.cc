#include "machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <thread>

#include "blas.h"

namespace headwise::bench {

namespace {

constexpr std::size_t kMegabyte = 1U << 20U;

// The kernel's figure: sysconf() sums up the caches of all sockets on some CPUs.
std::size_t cache_bytes(int level, std::size_t otherwise) {
  const std::string folder = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(level);
  std::ifstream file(folder + "/size");  // "512K"; index 2 is L2, 3 is L3, where they exist
  std::size_t kilobytes = 0;
  file >> kilobytes;
  return file && kilobytes > 0 ? kilobytes * 1024 : otherwise;
}

// Half a cache surely fits it, with what else runs; twice the last one surely does not.
std::vector<ReadSpeed> places() {
  const std::size_t l2 = cache_bytes(2, kMegabyte);
  const std::size_t l3 = std::max(cache_bytes(3, 16 * kMegabyte), 2 * l2);
  const std::size_t memory = std::clamp(2 * l3, 256 * kMegabyte, 1024 * kMegabyte);
  return {{"L2", l2 / 2, l2 / 4 * 3, 0.0},
          {"L3", l3 / 2, l3 / 4 * 3, 0.0},
          {"memory", memory, std::numeric_limits<std::size_t>::max(), 0.0}};
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) {
      return line.substr(line.find(": ") + 2);
    }
  }
  return "unknown CPU";
}

}  // namespace

double ThreadYardsticks::read_speed(double bytes) const {
  for (const ReadSpeed& read : reads) {
    if (bytes <= static_cast<double>(read.holds)) return read.bytes_per_second;
  }
  return reads.back().bytes_per_second;
}

const ThreadYardsticks& Machine::at(int threads) const {
  return *std::find_if(yardsticks.begin(), yardsticks.end(),
                       [&](const ThreadYardsticks& y) { return y.threads == threads; });
}

std::size_t largest_read_bytes() { return places().back().bytes; }

Machine describe_machine(const std::string& target, const std::vector<int>& threads,
                         const Yardsticks& yardsticks) {
  constexpr int kRepeats = 7;
  // The best: neighbours only take away. (Rows are held against what was there at their time.)
  const auto best_of = [](const auto& measure) {
    double best = 0.0;
    for (int i = 0; i < kRepeats; ++i) best = std::max(best, measure());
    return best;
  };
  Machine machine{.cpu = cpu_name(),
                  .cpus = static_cast<int>(std::thread::hardware_concurrency()),
                  .target = target,
                  .lanes = yardsticks.lanes(),
                  .blas = blas_name(),
                  .yardsticks = {}};
  for (const int n : threads) {
    ThreadYardsticks row{n, best_of([&] { return yardsticks.peak(n, 0.02); }), places()};
    for (ReadSpeed& read : row.reads) {
      // Every thread has an L2 of its own.
      const std::size_t bytes = read.bytes * (read.place == "L2" ? static_cast<std::size_t>(n) : 1);
      read.bytes = bytes;
      read.bytes_per_second = best_of([&] { return yardsticks.read_speed(n, bytes, 0.01); });
    }
    machine.yardsticks.push_back(std::move(row));
  }
  return machine;
}

}  // namespace headwise::bench
