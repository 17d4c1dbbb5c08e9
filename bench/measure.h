// Runs the rows of a group in turns, a yardstick beside every sample.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "case.h"
#include "headwise/machine.h"
#include "progress.h"

namespace headwise::bench {

struct Effort {
  std::vector<int> threads = {1, 2};
  int rounds = 40;
  double sample_seconds = 0.003;  // short rows run several times in a row
  double case_seconds = 2.0;      // a slow row sits out the rounds after this long,
  int least_samples = 3;          // but not before it has these
};

struct Sample {
  int round;
  TimingSample timing;
};

struct Measurement {
  const Case* row;
  int threads;
  std::vector<Sample> samples = {};
  std::size_t scratch_bytes = 0;  // that the context holds after the runs
  std::string failure = {};       // what the row threw; no samples then
};

// One for each case and thread count, in that order.
std::vector<Measurement> measure_group(std::span<const Case> cases, const Effort& effort,
                                       const Yardsticks& yardsticks, Progress& progress);

}  // namespace headwise::bench
