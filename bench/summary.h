// From samples to what a row says: median, spread, verdict, and what binds it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "headwise/machine.h"
#include "measure.h"

namespace headwise::bench {

// Unclear: not reached, but disturbed.
enum class Verdict { None, Ok, Miss, Unclear };

struct Summary {
  const Measurement* measurement = nullptr;
  const Case* row = nullptr;
  double seconds = 0.0;              // median of one run
  double rate = 0.0;                 // FLOP/s or bytes/s, of that
  double share = 0.0;                // of the yardstick: median of the rounds,
  double share_low = 0.0;            // lower
  double share_high = 0.0;           // and upper quartile
  std::optional<double> ratio = {};  // of rates, to the row that it is compared with
  double floor = 0.0;
  Verdict verdict = Verdict::None;
  bool disturbed = false;  // in every sample: too low a figure
  // What the roofline predicts, of a layer: with the peak of every sample, median.
  std::optional<double> predicted = {};         // seconds
  std::optional<double> prediction_ratio = {};  // predicted over measured
  std::string bound = {};                       // "compute", "memory" or "overhead"
  double intensity = 0.0;                       // FLOP a byte
  double ridge = 0.0;                           // from which on the peak binds, not reading
};

std::vector<Summary> summarise(const std::vector<Measurement>& measurements,
                               const Machine& machine);

const char* to_string(Verdict verdict);  // "", "ok", "MISS", "?"

}  // namespace headwise::bench
