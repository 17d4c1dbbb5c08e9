// Time as the measurements need it.
#pragma once

#include <chrono>
#include <ctime>  // and POSIX's clock_gettime

namespace headwise::analyze {

// Seconds since some moment.
inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds that the calling thread has run on a CPU.
inline double thread_cpu_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace headwise::analyze
