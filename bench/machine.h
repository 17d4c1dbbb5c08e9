// What was measured on: the CPU, and its yardsticks at the start of the run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "yardsticks.h"

namespace headwise::bench {

struct ReadSpeed {
  std::string place;  // "L2", "L3", "memory"
  std::size_t bytes;  // of the buffer
  std::size_t holds;  // working sets up to this size are taken to live there
  double bytes_per_second;
};

struct ThreadYardsticks {
  int threads;
  double peak;  // FLOP/s
  std::vector<ReadSpeed> reads;

  // Of the place that holds a working set of this size.
  [[nodiscard]] double read_speed(double bytes) const;
};

struct Machine {
  std::string cpu;
  int cpus = 0;
  std::string target;
  int lanes = 0;
  std::string blas;
  std::vector<ThreadYardsticks> yardsticks;

  [[nodiscard]] const ThreadYardsticks& at(int threads) const;
};

// Of the buffers that describe_machine() reads.
std::size_t largest_read_bytes();

Machine describe_machine(const std::string& target, const std::vector<int>& threads,
                         const Yardsticks& yardsticks);

}  // namespace headwise::bench
