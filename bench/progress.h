// Tells on stderr how far the run is: one line that changes on a terminal, a line a group elsewhere.
#pragma once

#include <chrono>
#include <string>

namespace headwise::bench {

class Progress {
 public:
  explicit Progress(int groups);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Round 0 opens a group.
  void show(const std::string& group, int round, int rounds);
  void clear() const;  // before something else is printed

 private:
  int groups_;
  int group_ = 0;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  bool terminal_;
};

}  // namespace headwise::bench
