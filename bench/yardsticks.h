// What the machine can do, to hold every row against: FMA peak and read speed, measured again and
// again between the rows, since clocks and neighbours change.
#pragma once

#include <cstddef>
#include <string>

#include "headwise/tensor.h"
#include "vector_loops.h"

namespace headwise::bench {

class Yardsticks {
 public:
  // Of the named target; `largest_bytes` is the largest size that read_speed() will be asked for.
  Yardsticks(const std::string& target, std::size_t largest_bytes);

  // FLOP/s of float32 multiply-adds on registers, all threads at once.
  [[nodiscard]] double peak(int threads, double seconds) const;
  // Bytes/s of summing up a buffer of that size again and again, each thread its own part. From
  // which cache or memory it comes follows from the size.
  [[nodiscard]] double read_speed(int threads, std::size_t bytes, double seconds) const;

  // Bytes/s from the first cache, all threads at once: a quick look whether anybody shares the
  // cores. Threads of other machines on the same core leave a bare multiply-add loop as it is, but
  // take a third of this.
  [[nodiscard]] double calm(int threads) const {
    constexpr std::size_t kBytes = 16384;
    return read_speed(threads, kBytes * static_cast<std::size_t>(threads), 1e-4);
  }

  [[nodiscard]] int lanes() const { return loops_.lanes; }

 private:
  VectorLoops loops_;
  Tensor buffer_;  // a tensor of the library's: the same pages as what it will read
};

}  // namespace headwise::bench
