// What this machine can do, measured: the yardsticks that times are held against, and a way to time
// something beside them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "headwise/tensor.h"

namespace headwise {

namespace analyze {
struct VectorLoops;
}

// Measures again and again, since clocks and neighbours change.
class Yardsticks {
 public:
  // Of the named target (see available_targets()); `largest_bytes` is the largest size that
  // read_speed() will be asked for. Throws ArgumentError for a target that has no yardstick here.
  Yardsticks(const std::string& target, std::size_t largest_bytes);
  ~Yardsticks();
  Yardsticks(const Yardsticks&) = delete;
  Yardsticks& operator=(const Yardsticks&) = delete;

  // All of them take 1 … 1024 threads, and throw ArgumentError for others.

  // FLOP/s of float32 multiply-adds on registers, all threads at once.
  [[nodiscard]] double peak(int threads, double seconds) const;
  // Bytes/s of summing up a buffer of that size again and again, each thread its own part. From
  // which cache or memory it comes follows from the size.
  [[nodiscard]] double read_speed(int threads, std::size_t bytes, double seconds) const;
  // Bytes/s from the first cache, all threads at once: a quick look whether anybody shares the
  // cores. Threads of other machines on the same core leave a bare multiply-add loop as it is, but
  // take a third of this.
  [[nodiscard]] double calm(int threads) const;

  [[nodiscard]] int lanes() const;  // of float32 in a vector

 private:
  std::unique_ptr<const analyze::VectorLoops> loops_;
  Tensor buffer_;  // a tensor of the library's: the same pages as what it will read
};

struct ReadSpeed {
  std::string place;      // "L2", "L3", "memory"
  std::size_t bytes = 0;  // of the buffer
  std::size_t holds = 0;  // working sets up to this size are taken to live there
  double bytes_per_second = 0.0;
};

struct ThreadYardsticks {
  int threads = 1;
  double peak = 0.0;                  // FLOP/s
  std::vector<ReadSpeed> reads = {};  // the nearest place first; never empty

  // Of the place that holds a working set of this size. Throws ArgumentError without places.
  [[nodiscard]] double read_speed(double bytes) const;
};

// A plain value: also that of another machine, or one made up.
struct Machine {
  std::string cpu;
  int cpus = 0;
  std::string target;
  int lanes = 0;              // of float32 in a vector
  double call_seconds = 0.0;  // of the smallest layer there is: what a call costs before any work
  std::vector<ThreadYardsticks> yardsticks;

  // Throws ArgumentError if nothing was measured on that many threads.
  [[nodiscard]] const ThreadYardsticks& at(int threads) const;
};

// Of the buffers that describe_machine() reads.
std::size_t largest_read_bytes();

// The best of some measurements: neighbours only take away. Takes half a second for each of the
// thread counts, 1 … 1024.
Machine describe_machine(const std::string& target, const std::vector<int>& threads,
                         const Yardsticks& yardsticks);

// ---- timing ----

// One timing, and what the machine could do at that moment.
struct TimingSample {
  double seconds = 0.0;    // of one run
  double yardstick = 0.0;  // FLOP/s or bytes/s, just before and just after
  double waited = 0.0;     // share of the time that a thread was ready and others had its CPU
  double calm = 0.0;       // Yardsticks::calm, the lower of before and after
};

// What a timing is held against: the FMA peak, or reading that many bytes.
struct TimingYardstick {
  int threads = 1;
  std::size_t read_bytes = 0;  // 0: the peak
};

// Something to be timed again and again. Short runs are repeated within a sample.
class TimedRun {
 public:
  // Runs it a few times, since first runs make pages and threads.
  TimedRun(std::function<void()> run, TimingYardstick yardstick, double sample_seconds);

  [[nodiscard]] TimingSample sample(const Yardsticks& yardsticks);
  [[nodiscard]] double spent() const { return spent_; }  // seconds in runs so far

 private:
  [[nodiscard]] double time(int count) const;
  [[nodiscard]] double yardstick(const Yardsticks& yardsticks, double seconds) const;

  std::function<void()> run_;
  TimingYardstick held_against_;
  int runs_ = 1;  // in one sample
  double expected_ = 0.0;
  double spent_ = 0.0;
};

// The first cache's speed when nobody shared the cores: nearly the highest of the samples, which
// must all be of one thread count. 0 without samples.
double calmest(const std::vector<TimingSample>& samples);
// Whether no other process had a CPU that the run wanted, and nobody else ran on the same cores.
bool undisturbed(const TimingSample& sample, double calmest);
// The undisturbed ones; all, if there are none.
std::vector<TimingSample> quiet_samples(const std::vector<TimingSample>& samples, double calmest);

// The value below which that part of all values lies, between neighbours by straight line. Not for
// an empty list.
double quantile(std::vector<double> values, double part);

}  // namespace headwise
