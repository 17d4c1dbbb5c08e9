// The numeric contract, measured: our error against float64 is at most 2× (gradients: 3×) that of a
// naive float32 implementation.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <vector>

#include "headwise/tensor.h"
#include "support/oracle.h"

namespace headwise::test_support {

inline constexpr double kForwardFactor = 2.0;
inline constexpr double kGradientFactor = 3.0;

// The largest absolute errors of one tensor. All elements share one scale, so their ratio is that
// of the errors relative to it.
struct TensorError {
  double ours = 0.0;
  double naive = 0.0;
  double typical = 0.0;  // largest standard deviation that rounding gives the naive one's elements
  double redrawn = 0.0;  // largest naive error in further draws, if they were asked for

  // What the contract's factor multiplies: the naive error, or three standard deviations of it. The
  // naive error is one draw: in a tensor of few elements, or where the exact value is 0 by
  // cancellation, it may be 0 by luck, and no implementation could be held to a multiple of that.
  // Three is what the draws themselves reach: in tensors of more than 1000 elements the naive error
  // is 1.5 (median) to 2.9 (95%) deviations. A second naive implementation (features summed from
  // the other end), held against the first in 4000 random layers, then always keeps the contract
  // (worst 1.6 forward, 2.7 for gradients); with two deviations it does not (2.35 and 4.0). Where
  // nothing rounds, as in an empty row, the deviation is 0 and the value must be met exactly.
  //
  // The deviation takes all errors for independent. One that a whole row shares, such as that of
  // Σ P·dP, can outweigh them in sums over the row: then further draws show what the naive one does.
  [[nodiscard]] double yardstick() const;
};

struct Comparison {
  std::string complaint;  // empty: the contract holds
  TensorError error;
};

// What the naive implementation gives with other roundings; called for tensors that would fail.
using Redraw = std::function<std::vector<oracle::Array<oracle::Jittered>>()>;

// Also a complaint: another shape, a NaN, an infinity where there is none or none where there is.
Comparison compare(const oracle::Array<oracle::Rounded>& reference,
                   const oracle::Array<float>& naive, const ConstView& ours, double factor,
                   const Redraw& redraw = {});

// All comparisons of a run by quantity, to print at its end.
class AccuracyTable {
 public:
  // Remembers, and returns the complaint with the quantity's name, or "".
  std::string add(const std::string& quantity, const Comparison& comparison, double factor);

  // ours/naive without any floor, where the naive error is not 0.
  [[nodiscard]] double median_ratio(const std::string& quantity) const;
  [[nodiscard]] std::vector<std::string> quantities() const;
  [[nodiscard]] double factor(const std::string& quantity) const {
    return rows_.at(quantity).factor;
  }
  void print(std::ostream& stream) const;

 private:
  struct Row {
    double factor = 0.0;
    std::int64_t tensors = 0;
    double worst = 0.0;          // ours/yardstick
    std::vector<double> ratios;  // ours/naive
  };
  std::map<std::string, Row> rows_;
};

}  // namespace headwise::test_support
