#include "progress.h"

#include <unistd.h>

#include <cstdio>

namespace headwise::bench {

Progress::Progress(int groups) : groups_(groups), terminal_(isatty(STDERR_FILENO) != 0) {}

Progress::~Progress() { clear(); }

void Progress::show(const std::string& group, int round, int rounds) {
  if (round == 0) ++group_;
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  const int elapsed = static_cast<int>(since.count());
  if (terminal_) {
    std::fprintf(stderr, "\r\033[K%d:%02d  [%d/%d] %s: round %d of %d", elapsed / 60, elapsed % 60,
                 group_, groups_, group.c_str(), round, rounds);
  } else if (round == 0) {
    std::fprintf(stderr, "%d:%02d  [%d/%d] %s\n", elapsed / 60, elapsed % 60, group_, groups_,
                 group.c_str());
  }
  std::fflush(stderr);
}

void Progress::clear() const {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

}  // namespace headwise::bench
