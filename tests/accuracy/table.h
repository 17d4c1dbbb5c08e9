// The error table: every quantity of every case, ours beside a naive float32 run, both against
// float64.
#pragma once

#include <cmath>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace headwise::accuracy {

// Of one implementation, over all numbers of a quantity.
class Errors {
 public:
  template <typename Numbers>
  void add(const std::vector<double>& exact, const Numbers& got) {
    for (std::size_t i = 0; i < exact.size(); ++i) add(static_cast<double>(got[i]) - exact[i]);
  }
  [[nodiscard]] double rms() const { return count_ == 0 ? 0.0 : std::sqrt(squares_ / count_); }
  [[nodiscard]] double max() const { return max_; }

 private:
  void add(double difference) {
    squares_ += difference * difference;
    count_ += 1.0;
    if (!(std::abs(difference) <= max_)) max_ = std::abs(difference);  // NaN too
  }

  double squares_ = 0.0;
  double count_ = 0.0;
  double max_ = 0.0;
};

struct Row {
  std::string name;      // of the case
  std::string quantity;  // "output", "dQ", "d query_kernel"
  double allowed = 0.0;
  bool held = true;  // to the bound
  Errors naive = {}, ours = {};

  template <typename Naive, typename Ours>
  void add(const std::vector<double>& exact, const Naive& naive_numbers, const Ours& our_numbers) {
    naive.add(exact, naive_numbers);
    ours.add(exact, our_numbers);
  }
  // Of root mean squares, which are held to the bound. A maximum is one number's luck: that of a
  // second naive run, summed in another order, is up to twice that of the first.
  [[nodiscard]] double ratio() const;
  [[nodiscard]] double max_ratio() const;
};

// All rows, or the one with the largest share of its allowance for each quantity.
void print_table(const std::vector<Row>& rows, bool all, std::ostream& stream);

}  // namespace headwise::accuracy
