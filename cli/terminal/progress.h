// Tells on stderr how far a long job is: a bar on a terminal, nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace headwise::terminal {

// Appears when the job has taken longer than a second, and vanishes with the object.
class ProgressBar {
 public:
  ProgressBar(std::string what, std::int64_t steps);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(std::int64_t done, const std::string& now = "");  // of all steps; `now`: at what it is

 private:
  using Clock = std::chrono::steady_clock;
  std::string what_;
  std::int64_t steps_;
  Clock::time_point start_ = Clock::now();
  Clock::time_point shown_;
  bool is_terminal_;
  bool visible_ = false;
};

}  // namespace headwise::terminal
