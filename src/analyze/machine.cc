#include "headwise/machine.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <thread>

#include "analyze/clock.h"
#include "base/check.h"
#include "base/thread_count.h"
#include "headwise/context.h"
#include "headwise/layer.h"

namespace headwise {

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

// One head, one token, on one thread.
double smallest_call(const std::string& target) {
  constexpr int kCalls = 100;
  constexpr int kTries = 15;
  const AttentionConfig config{.num_heads = 1, .key_dim = 16, .query_features = 16};
  const MultiHeadAttention layer(config, AttentionWeights::zeros(config));
  const Tensor input({1, 1, 16});
  Tensor output(input.shape());
  Context context(1, target);
  const ForwardOptions options{.out = output.view(), .context = &context};
  std::vector<double> seconds;
  for (int i = 0; i < kTries; ++i) {
    const double start = analyze::now();
    for (int call = 0; call < kCalls; ++call) {
      static_cast<void>(layer.forward({.query = input}, options));
    }
    seconds.push_back((analyze::now() - start) / kCalls);
  }
  return quantile(seconds, 0.25);
}

}  // namespace

double ThreadYardsticks::read_speed(double bytes) const {
  for (const ReadSpeed& read : reads) {
    if (bytes <= static_cast<double>(read.holds)) return read.bytes_per_second;
  }
  if (reads.empty()) {
    base::fail("ThreadYardsticks::read_speed", "reads", "the speed of a place at least", "none");
  }
  return reads.back().bytes_per_second;
}

const ThreadYardsticks& Machine::at(int threads) const {
  for (const ThreadYardsticks& y : yardsticks) {
    if (y.threads == threads) return y;
  }
  base::fail("Machine::at", "threads", "a number of threads that was measured",
             std::to_string(threads));
}

std::size_t largest_read_bytes() { return places().back().bytes; }

Machine describe_machine(const std::string& target, const std::vector<int>& threads,
                         const Yardsticks& yardsticks) {
  for (const int n : threads) base::checked_threads("describe_machine", n);
  constexpr int kRepeats = 7;
  const auto best_of = [](const auto& measure) {
    double best = 0.0;
    for (int i = 0; i < kRepeats; ++i) best = std::max(best, measure());
    return best;
  };
  Machine machine{.cpu = cpu_name(),
                  .cpus = static_cast<int>(std::thread::hardware_concurrency()),
                  .target = target,
                  .lanes = yardsticks.lanes(),
                  .call_seconds = smallest_call(target),
                  .yardsticks = {}};
  for (const int n : threads) {
    ThreadYardsticks row{n, best_of([&] { return yardsticks.peak(n, 0.02); }), places()};
    for (ReadSpeed& read : row.reads) {
      // Every thread has an L2 of its own.
      const std::size_t own = read.place == "L2" ? static_cast<std::size_t>(n) : 1;
      read.bytes *= own;
      read.bytes_per_second = best_of([&] { return yardsticks.read_speed(n, read.bytes, 0.01); });
    }
    machine.yardsticks.push_back(std::move(row));
  }
  return machine;
}

}  // namespace headwise
