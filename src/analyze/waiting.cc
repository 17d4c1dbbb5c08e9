#include "analyze/waiting.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace headwise::analyze {

double waiting_seconds() {
  std::error_code error;
  double total = 0.0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::ifstream file(task.path() / "schedstat");  // nanoseconds: on a CPU, ready without one
    double running = 0.0;
    double waiting = 0.0;
    if (file >> running >> waiting) total += waiting * 1e-9;
  }
  return total;
}

}  // namespace headwise::analyze
