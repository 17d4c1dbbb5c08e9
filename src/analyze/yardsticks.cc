#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "analyze/clock.h"
#include "analyze/vector_loops.h"
#include "base/check.h"
#include "base/thread_count.h"
#include "headwise/machine.h"

namespace headwise {

namespace {

analyze::VectorLoops loops_of(const std::string& target) {
  std::string known;
  for (const analyze::VectorLoops& loops : analyze::supported_loops()) {
    if (target == loops.target) return loops;
    known += (known.empty() ? "" : ", ") + std::string(loops.target);
  }
  base::fail("Yardsticks", "target", "one of " + known, "\"" + target + "\"");
}

void check_seconds(const char* function, double seconds) {
  if (std::isfinite(seconds) && seconds >= 0.0) return;
  base::fail(function, "seconds", "a finite number ≥ 0", base::to_string(seconds));
}

// Calls portion(thread) on every thread for that long and adds up their rates. A portion returns
// the amount of work it did. All start together, so that they share caches and memory. Rates are
// per second of CPU: a neighbour who takes the CPU away does not make the machine a slower one.
double summed_rate(int threads, double seconds, const std::function<double(int)>& portion) {
  std::atomic<int> waiting{threads};
  std::vector<double> rates(static_cast<std::size_t>(threads));
  const auto work = [&](int thread) {
    portion(thread);  // wakes the clock, fills the cache
    waiting.fetch_sub(1);
    while (waiting.load() > 0) std::this_thread::yield();
    const double start = analyze::now();
    const double cpu_start = analyze::thread_cpu_seconds();
    double done = 0.0;
    do {
      done += portion(thread);
    } while (analyze::now() - start < seconds);
    rates[static_cast<std::size_t>(thread)] = done / (analyze::thread_cpu_seconds() - cpu_start);
  };
  std::vector<std::thread> others;
  const auto join = [&] {
    for (std::thread& other : others) other.join();
  };
  try {
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  } catch (const std::system_error&) {  // the system gives no more: those there wait for them
    waiting.store(0);
    join();
    throw;
  }
  work(0);
  join();
  double sum = 0.0;
  for (const double rate : rates) sum += rate;
  return sum;
}

}  // namespace

Yardsticks::Yardsticks(const std::string& target, std::size_t largest_bytes)
    : loops_(std::make_unique<const analyze::VectorLoops>(loops_of(target))),
      buffer_(Tensor::full({static_cast<std::int64_t>(largest_bytes / sizeof(float))}, 1.0F)) {}

Yardsticks::~Yardsticks() = default;

int Yardsticks::lanes() const { return loops_->lanes; }

double Yardsticks::peak(int threads, double seconds) const {
  base::checked_threads("Yardsticks::peak", threads);
  check_seconds("Yardsticks::peak", seconds);
  constexpr std::int64_t kSteps = 10000;  // 20 to 40 µs
  return summed_rate(threads, seconds, [&](int) { return loops_->multiply_add(kSteps); });
}

double Yardsticks::read_speed(int threads, std::size_t bytes, double seconds) const {
  constexpr const char* kFunction = "Yardsticks::read_speed";
  base::checked_threads(kFunction, threads);
  check_seconds(kFunction, seconds);
  constexpr std::size_t kLeast = 65536;  // floats a portion: the clock must not count
  const std::size_t count = std::min(bytes / sizeof(float), buffer_.values().size());
  const std::size_t part = count / static_cast<std::size_t>(threads);
  if (part == 0) {
    base::fail(kFunction, "bytes", "4 or more for each thread, of a buffer that has them",
               std::to_string(std::min(bytes, buffer_.values().size_bytes())));
  }
  const std::size_t passes = std::max<std::size_t>(1, kLeast / part);
  return summed_rate(threads, seconds, [&](int thread) {
    const float* data = buffer_.data() + static_cast<std::size_t>(thread) * part;
    volatile float sink = 0.0F;
    for (std::size_t pass = 0; pass < passes; ++pass) sink = loops_->read(data, part);
    static_cast<void>(sink);
    return static_cast<double>(passes * part * sizeof(float));
  });
}

double Yardsticks::calm(int threads) const {
  base::checked_threads("Yardsticks::calm", threads);
  constexpr std::size_t kBytes = 16384;
  return read_speed(threads, kBytes * static_cast<std::size_t>(threads), 1e-4);
}

}  // namespace headwise
