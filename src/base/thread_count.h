// How many threads a caller may ask for.
#pragma once

#include <string>
#include <string_view>

#include "base/check.h"

namespace headwise::base {

inline constexpr int kMaxThreads = 1024;

// Throws ArgumentError for a number of threads that cannot be.
inline int checked_threads(std::string_view function, int threads) {
  if (threads < 1 || threads > kMaxThreads) {
    fail(function, "threads", "1 … " + std::to_string(kMaxThreads), std::to_string(threads));
  }
  return threads;
}

}  // namespace headwise::base
